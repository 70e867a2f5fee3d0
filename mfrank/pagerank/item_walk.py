"""A walk on items with learned probabilities, its paths, and its item prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import (
    CSR,
    MadeOfFields,
    check_at_least_zero,
    check_csr,
    check_instance,
    lazy,
    shown,
)
from mfrank.backends import Moves
from mfrank.errors import InputValueError
from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.stationary import Transitions, Walker, stationary_rows
from mfrank.store import FactorStore, check_finite, ranks_by_factors

Floats = NDArray[np.float64]

_CELLS_AT_ONCE = 1 << 21
_PRIOR_TOLERANCE = 1e-12  # scores use its logarithm, so rare items must be accurate too


@dataclass(frozen=True, eq=False)
class ItemWalk(MadeOfFields):
    """Step probabilities of a walk on items, and the weights of items as restarts.

    Attributes
    ----------
    steps : csr_array, float64, shape (n_items, n_items)
        Entry (a, b) is the probability of the step from a to b; a walk restarts from an empty row.
    bases : float64, shape (n_items,)
        >= 0, <phi1, V_i> of each item i; 0 outside the graph. Restart weights of the walk of a user
        without known items.
    recency : float
        >= 0, weight of an item's recency among the restarts of a user.
    """

    steps: sp.csr_array
    bases: Floats
    recency: float = 0.0

    @classmethod
    def of(cls, graphs: Graphs, weights: Floats, n_items: int, *, has_recency: bool) -> ItemWalk:
        """Merge the graphs of all queries into one walk, for given feature weights.

        The weight of an edge is the sum of its weights in the graphs; the weight of an item is the
        mean of its nodes' weights. With ``has_recency``, the last node feature is the recency.
        """
        walk = Transitions.of(graphs, weights)
        of_edges = walk.steps * walk.node_sums[graphs.sources]
        ends = graphs.pages[graphs.sources], graphs.pages[graphs.links.indices]
        links = sp.csr_array((of_edges, ends), (n_items, n_items))
        links.eliminate_zeros()
        links.data /= np.repeat(links.sum(axis=1), np.diff(links.indptr))
        m1 = graphs.n_features[0]
        of_nodes = (graphs.node_features * walk.weights[:m1]).sum(axis=1)
        counts = np.bincount(graphs.pages, minlength=n_items)
        bases = np.bincount(graphs.pages, of_nodes, n_items) / np.maximum(counts, 1)
        return cls(links, bases, float(walk.weights[m1 - 1]) if has_recency else 0.0)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.bases)

    @lazy
    def dangling(self) -> NDArray[np.bool_]:
        """Items without steps from them, bool, shape (n_items,)."""
        return np.asarray(np.diff(self.steps.indptr) == 0)

    def starts(self, recencies: sp.csr_array) -> sp.csr_array:
        """Restart probabilities, one row per row of ``recencies``; empty rows stay empty.

        The weight of an item with recency c is its base + c times :attr:`recency`; if a row's
        weights are all 0, its items are equally likely.
        """
        weights = self.bases[recencies.indices] + self.recency * recencies.data
        counts = np.diff(recencies.indptr)
        row = np.repeat(np.arange(len(counts)), counts)
        totals = np.bincount(row, weights, len(counts))[row]
        chances = np.where(totals > 0, weights / np.where(totals > 0, totals, 1), 1 / counts[row])
        return sp.csr_array((chances, recencies.indices, recencies.indptr), recencies.shape)

    def blocks(self, n_rows: int) -> Iterator[slice]:
        """Blocks of rows whose walks are computed together, for bounded memory."""
        size = max(1, _CELLS_AT_ONCE // self.n_items)
        yield from (slice(at, min(at + size, n_rows)) for at in range(0, n_rows, size))

    def rank(self, starts: sp.csr_array, tolerance: float, walker: Walker) -> Floats:
        """Stationary probabilities of the walk from each row of ``starts``, shape (rows, n_items).

        A row of the result does not depend on the other rows.

        Parameters
        ----------
        starts : csr_array, float64, shape (rows, n_items)
            Restart probabilities, as from :meth:`starts`; empty rows restart by ``bases``.
        tolerance : float
            > 0, bound on the sum of absolute errors of each row.
        """
        blank = np.diff(starts.indptr) == 0
        if blank.any():  # users without known items
            some = sp.csr_array((self.bases / self.bases.sum())[None])
            starts = starts + sp.csr_array(blank[:, None] * 1.0) @ some
        rows = CSR.from_scipy(sp.csr_array(starts), np.float64)
        return stationary_rows(self._moves, rows, tolerance, walker)

    def prior(self, walker: Walker) -> Floats:
        """Probabilities of the walk of a user without known items, shape (n_items,)."""
        return self.rank(sp.csr_array((1, self.n_items)), _PRIOR_TOLERANCE, walker).ravel()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to save, by name."""
        return {
            "indptr": self.steps.indptr.astype(np.int64),
            "indices": self.steps.indices.astype(np.int32),
            "steps": self.steps.data,
            "bases": self.bases,
            "recency": np.array([self.recency]),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> ItemWalk:
        """Rebuild the walk from :meth:`to_arrays`; reads and checks all arrays.

        Raises
        ------
        KeyError, ValueError
            An array is missing or invalid.
        """
        steps, indices, indptr = (arrays[name] for name in ("steps", "indices", "indptr"))
        bases, recency = arrays["bases"], arrays["recency"]
        for name, values in (("steps", steps), ("bases", bases), ("recency", recency)):
            if values.dtype != np.float64 or values.ndim != 1:
                raise InputValueError(f"`{name}` must be float64 of shape (n,), got {values.dtype}")
            check_finite(name, values)
        if len(recency) != 1:
            raise InputValueError(f"`recency` must be one number, got {len(recency)}")
        n = len(bases)
        check_csr(indptr, indices, n, n, "steps", data=steps)
        return cls(sp.csr_array((steps, indices, indptr), (n, n)), bases, float(recency[0]))

    @lazy
    def _moves(self) -> Moves:
        return Moves.of(self.steps)


# The paths by which a walk reaches an item.


LONGEST = 3
"""Maximum number of steps of a path."""

_Paths = tuple[NDArray[np.int64], NDArray[np.float64]]


class Path(NamedTuple):
    """Items on a path, from the restart to its end, and the probability mass of the path."""

    items: tuple[Any, ...]
    mass: float


def heaviest_paths(
    walk: ItemWalk,
    start: sp.csr_array,
    values: NDArray[np.float64],
    item: int,
    alpha: float,
    n: int,
) -> list[Path]:
    """The ``n`` paths of up to three steps that contribute most to an item's probability.

    A walk restarts at the rate c = alpha + (1 - alpha) (probability of the dangling items). Hence
    pi = c sum_k (1 - alpha)^k (P')^k pi0, a sum over all paths to the item. The mass of a path is c
    pi0(seed), times (1 - alpha) and the step's probability for each step.

    Parameters
    ----------
    walk : ItemWalk
    start : csr_array, shape (1, n_items)
        Restart probabilities, pi0.
    values : float64, shape (n_items,)
        Stationary probabilities of the walk, pi.
    item : int
        Row of the item.
    alpha : float
        Probability of a restart, in (0, 1).
    n : int
        Maximum number of paths.

    Returns
    -------
    list of Path
        By descending mass; items are rows.
    """
    rate = alpha + (1 - alpha) * float(values @ walk.dangling)
    seeds = start.indices.astype(np.int64)[:, None], rate * start.data
    best: list[Path] = []
    for nodes, masses in _paths(walk.steps, seeds, item, 1 - alpha):
        first = np.argsort(-masses, kind="stable")[:n]
        best += [Path(tuple(nodes[at].tolist()), float(masses[at])) for at in first]
    return sorted(best, key=lambda path: -path.mass)[:n]


def _paths(steps: sp.csr_array, seeds: _Paths, item: int, damping: float) -> Iterator[_Paths]:
    """Yield all paths to the item with 0, 1, 2 and 3 steps."""
    nodes, masses = seeds
    there = nodes[:, 0] == item
    yield nodes[there], masses[there]
    last = np.array([item])
    to_item = steps[:, last]
    before = np.flatnonzero(np.diff(to_item.indptr))  # items with a step to the item
    every = np.arange(steps.shape[0])
    moves = [(steps, every), (steps[:, before], before), (to_item, last)]
    for length in range(1, LONGEST + 1):
        paths = seeds
        for move, columns in moves[-length:]:
            paths = _extended(paths, move, columns, damping)
        yield paths


def _extended(
    paths: _Paths, move: sp.csr_array, columns: NDArray[np.int64], damping: float
) -> _Paths:
    nodes, masses = paths
    taken = move[nodes[:, -1]]
    counts = np.diff(taken.indptr)
    ends = columns[taken.indices]
    longer = np.column_stack([np.repeat(nodes, counts, axis=0), ends])
    return longer, np.repeat(masses, counts) * (damping * taken.data)


# Adds the log of an item prior, such as a walk's, to the scores of factors.


def with_prior(store: FactorStore, weight: float, prior: FactorStore | None = None) -> FactorStore:
    """Return the store with ``weight`` times the log of the item prior added to its item biases.

    Scores become p_x . q_y + b_y + weight log(prior of y); ``Recommender.of(with_prior(als.store,
    0.1, page_rank.store))`` ranks by them. The best weight depends on the scale of the scores: tune
    it on validation data, as in the example. A prior of 0 is replaced by half of the smallest
    positive prior.

    Parameters
    ----------
    store : FactorStore
        Store of a model that ranks by its factors, or of a blend.
    weight : float
        >= 0.
    prior : FactorStore, optional
        Store with the ``item_prior`` of the same items; default: ``store`` itself.

    Raises
    ------
    TypeError, ValueError
        There is no prior, its items differ from the store's, or the weight is invalid; or the model
        of the store does not rank by its factors, such as :class:`mfrank.EASE`.

    Examples
    --------
    Choose the weight, possibly 0, that gives the best NDCG on the validation part:

    >>> import dataclasses, mfrank
    >>> from mfrank.pagerank.item_walk import with_prior
    >>> data = mfrank.synthetic(60, 40, 600, random_state=0)
    >>> split = mfrank.by_ratio(data, random_state=0)
    >>> als = mfrank.ALS(factors=4, iterations=3, random_state=0).fit(split.train).store
    >>> by_users = als.counts.items / als.counts.items.sum()  # or a SupervisedPageRank's store
    >>> known = dataclasses.replace(als, item_prior=by_users)
    >>> def ndcg(weight):
    ...     blended = mfrank.Recommender.of(with_prior(als, weight, known))
    ...     return mfrank.evaluate(blended, split.valid, train=split.train)["ndcg@10"].value
    >>> best = max((0, 0.01, 0.03, 0.1, 0.3), key=ndcg)
    """
    check_at_least_zero(weight=weight)
    source = store if prior is None else prior
    for name, one in (("store", store), ("prior", source)):
        check_instance(name, one, FactorStore, "a FactorStore, such as model.store")
    if not ranks_by_factors(store):
        raise InputValueError(
            f"`store` is of {store.fitter['name']}, which ranks by other things than its factors, "
            "so that a prior would change nothing",
            "give a model with factors, such as ALS, or a blend",
        )
    source, store = source.on_host(), store.on_host()
    if source.item_prior is None:
        raise InputValueError(
            f"there is no `item_prior` in {shown(source)}", "a SupervisedPageRank's store has one"
        )
    if source.item_ids != store.item_ids:
        raise InputValueError(
            f"`prior` and `store` have different items ({len(source.item_ids)} and "
            f"{len(store.item_ids)})",
            "fit both to data with the same item ids",
        )
    values = source.item_prior.astype(np.float64)
    if values.min() < 0 or values.max() <= 0:
        raise InputValueError("`item_prior` must be >= 0, with at least one value above 0")
    logs = np.log(np.where(values > 0, values, values[values > 0].min() / 2))
    own = 0.0 if store.item_biases is None else store.item_biases.astype(np.float64)
    return replace(store, item_biases=own + weight * logs, item_prior=source.item_prior)
