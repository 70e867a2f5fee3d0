"""The estimators that users meet: fit, then everything a :class:`Recommender` does."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from mfrank import objectives
from mfrank.als import HalfSteps, als, initial_factors, refuse_dislikes
from mfrank.amounts import check_count
from mfrank.backends import Factors, SolveOptions, Solver, choose
from mfrank.csr import CSR
from mfrank.factors import FactorStore
from mfrank.folding import Explanation, FoldIn
from mfrank.interactions import Interactions
from mfrank.objectives import RG2
from mfrank.options import Parameters, describe, restore
from mfrank.partial import refit
from mfrank.progress import follow
from mfrank.quadratic import QuadraticObjective
from mfrank.recommender import Answer, Recommender
from mfrank.seeds import Seed, generator
from mfrank.sides import Matrix, Raw, given_rows, is_single, sides

__all__ = ["ALS", "Callback", "load"]

Callback = Callable[[int, float, float | None], object]
"""Called after epoch i = 0, 1, ... with (i, seconds, objective or None); true stops the fit."""

_DEFAULT_OBJECTIVE = RG2()


@dataclass(eq=False)
class ALS(Parameters, Recommender):
    """Matrix factorization by exact alternating least squares, under any quadratic objective.

    Parameters
    ----------
    objective : QuadraticObjective, default RG2()
        ``WRMF``, ``IALS``, ``EALS``, ``RG2``, ``RGX``, ``RG2Sampled`` or ``RGXPrinted``.
    factors : int, default 64
        Width of the factors, >= 1.
    iterations : int, default 15
        Epochs of a fit, >= 1 (implicit's default).
    solver : {"auto", "cholesky", "cg"}, default "auto"
        ``"cholesky"`` solves every row exactly. ``"cg"`` takes ``cg_steps`` of conjugate
        gradients from the row's last factors. ``"auto"`` is exact to rounding, by whichever is
        cheaper.
    cg_steps : int, default 3
        Conjugate gradient steps a row takes under ``"cg"`` (implicit's default).
    dtype : {"float32", "float64"}, default "float32"
        Of the factors.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the first factors. The same seed gives the same bits, whatever ``n_threads``.
    n_threads : int, default 0
        0 takes every core this process may use.
    backend : {"auto", "cpu", "reference"}, default "auto"
        Where to compute.
    track_objective : bool, default False
        Whether the history has the objective of every epoch: one more pass over the data each.

    Attributes
    ----------
    user_factors, item_factors : shape (n_users, factors), (n_items, factors)
        The fitted arrays. Empty users have zero factors.
    store : FactorStore
        The same with ids, counts and history.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> model = mfrank.ALS(mfrank.IALS(), factors=8, random_state=0).fit(data)
    >>> ids, scores = model.recommend(data.user_ids.raw([0, 1]), N=5)
    >>> ids.shape
    (2, 5)
    """

    objective: QuadraticObjective = _DEFAULT_OBJECTIVE
    factors: int = 64
    iterations: int = 15
    solver: Solver = "auto"
    cg_steps: int = 3
    dtype: DTypeLike = "float32"
    random_state: Seed = None
    n_threads: int = 0
    backend: str = "auto"
    track_objective: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.objective, QuadraticObjective):
            raise TypeError(
                "objective must be one of mfrank's, such as mfrank.RG2() or mfrank.WRMF(alpha=40); "
                f"got {self.objective!r}"
            )
        for name, least in (("factors", 1), ("iterations", 1), ("cg_steps", 1), ("n_threads", 0)):
            check_count(name, getattr(self, name), least)
        if self.solver not in get_args(Solver):
            raise ValueError(f"solver must be auto, cholesky or cg; got {self.solver!r}")
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype!r}")
        generator(self.random_state)
        choose(self.backend)

    def fit(
        self,
        user_items: Any,
        *,
        start: Recommender | FactorStore | None = None,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit to interactions, from new random factors unless ``start`` is given.

        Parameters
        ----------
        user_items : Interactions, scipy sparse (users x items), or DataFrame
        start : model or FactorStore, optional
            Warm start: go on from its factors. Its width must be ``factors``; users and items are
            matched by their ids, new ones start at random. Without labels the shapes must agree.
        callback : function, optional
            Called after every epoch with its number from 0, its seconds, and the objective or
            None. This model already holds the epoch's factors. A true result stops the fit.
        show_progress : bool, default False
            Show epochs and time left on stderr.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any work: data the objective cannot use, or a start that does not fit.
            KeyboardInterrupt (Ctrl-C) leaves this model with the last complete epoch.
        """
        self.__post_init__()
        data = Interactions.of(user_items)
        refuse_dislikes(self.objective, data.user_items.data)
        user_factors, item_factors = self._first_factors(data, start)
        options = SolveOptions(self.solver, self.cg_steps, n_threads=self.n_threads)
        steps = als(
            data.user_rows(self.dtype),
            data.item_rows(self.dtype),
            HalfSteps(self.objective, data.counts, choose(self.backend), options),
            user_factors,
            item_factors,
            iterations=self.iterations,
            track_objective=self.track_objective,
        )
        if show_progress:
            steps = follow(steps, self.iterations)
        history: list[dict[str, float | int | None]] = []
        for step in steps:
            history.append(step.record())
            self._seen = data.user_items
            self._store = FactorStore(
                step.user_factors,
                step.item_factors,
                data.user_ids,
                data.item_ids,
                counts=data.counts,
                fitter=describe(self),
                history=history,
            )
            if callback and callback(step.epoch - 1, step.seconds, step.objective):
                break
        return self

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """Factors of one or many users solved from their rows; nothing is stored.

        Equal to the fit's own half-step against these item factors: for a fitted user's own row,
        the fitted factors.

        Parameters
        ----------
        userid : id, or 1-D array-like of ids
            Users need not be known to the model.
        user_items : Interactions or scipy sparse
            All rows of the matrix, or one for each user, with everything the user has.

        Returns
        -------
        array of shape (factors,) for one user, (users, factors) for many
        """
        users, items = sides(self.store, by_row=by_row)
        rows = self._kernel_rows(given_rows(user_items, userid, users, items, "user_items"))
        solved = self._folding.users(rows)
        return solved[0] if is_single(userid) else solved

    def recalculate_item(self, itemid: Raw, item_users: Matrix, *, by_row: bool = False) -> Factors:
        """Factors of one or many items solved from their rows, as :meth:`recalculate_user`."""
        users, items = sides(self.store, by_row=by_row)
        rows = self._kernel_rows(given_rows(item_users, itemid, items, users, "item_users"))
        solved = self._folding.items(rows)
        return solved[0] if is_single(itemid) else solved

    def recommend_from_items(
        self,
        itemids: Any,
        N: int = 10,
        *,
        values: Any = None,
        filter_items: Any = None,
        items: Any = None,
        by_row: bool = False,
        n_threads: int = 0,
    ) -> Answer:
        """Best items for somebody the model does not know, from the items they like.

        Parameters
        ----------
        itemids : 1-D array-like of ids
            What they have; not recommended again.
        N, filter_items, items, by_row, n_threads
            As in :meth:`recommend`.
        values : shape (len(itemids),), optional
            Strength of each, as in the data of the fit; default 1.

        Returns
        -------
        ids, scores : arrays of shape (N,)
        """
        side = sides(self.store, by_row=by_row)[1]
        columns = side.rows(itemids, "itemids")
        liked = Interactions.from_arrays(
            np.zeros_like(columns), columns, values, shape=(1, len(side.ids))
        )
        return self.recommend(
            -1 if by_row or self.user_ids.table is None else "",
            liked.user_items,
            N,
            filter_items=filter_items,
            recalculate_user=True,
            items=items,
            by_row=by_row,
            n_threads=n_threads,
        )

    def partial_fit_users(self, userids: Raw, user_items: Matrix, *, by_row: bool = False) -> Self:
        """Solve users anew from their rows and store them; users the model does not know join it.

        Item factors stay as they are. Rows hold everything a user has, not what is new. Where
        row numbers are the ids, new users continue the numbering.
        """
        users, items = sides(self.store, by_row=by_row)
        rows = given_rows(user_items, userids, users, items, "user_items")
        solved = self._folding.users(self._kernel_rows(rows))
        self._store, self._seen = refit(self.store, self._seen, users, userids, rows, solved)
        return self

    def partial_fit_items(self, itemids: Raw, item_users: Matrix, *, by_row: bool = False) -> Self:
        """Solve items anew from their rows and store them, as :meth:`partial_fit_users`."""
        users, items = sides(self.store, by_row=by_row)
        rows = given_rows(item_users, itemids, items, users, "item_users")
        solved = self._folding.items(self._kernel_rows(rows))
        self._store, self._seen = refit(self.store, self._seen, items, itemids, rows, solved)
        return self

    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> Explanation:
        """Split a user's score of an item into what each item they have adds to it.

        The factors of a user are linear in their items (Hu, Koren & Volinsky 2008, section 5), so
        the score is a sum over them, plus the objective's background.

        Parameters
        ----------
        userid, itemid : id
        user_items : Interactions, scipy sparse, or None
            Holds the user's row; None takes the interactions of the fit.
        N : int, default 10
            Contributions to list, greatest first.

        Returns
        -------
        Explanation
            ``(score, contributions, baseline)``.
        """
        check_count("N", N, 1)
        users, items = sides(self.store, by_row=by_row)
        row = self._kernel_rows(self._seen_by(userid, user_items, users, items))
        score, parts, baseline = self._folding.explain(row, int(items.rows(itemid, "itemid")[0]))
        best = np.argsort(-parts, kind="stable")[:N]
        labels = items.answer(row.indices[best])
        listed = list(zip(labels.tolist(), parts[best].tolist(), strict=True))
        return Explanation(score, listed, baseline)

    def _first_factors(
        self, data: Interactions, start: Recommender | FactorStore | None
    ) -> tuple[Factors, Factors]:
        random = generator(self.random_state)
        shapes = (data.n_users, self.factors), (data.n_items, self.factors)
        users, items = (initial_factors(shape, random, self.dtype) for shape in shapes)
        if start is None:
            return users, items
        store = start.store if isinstance(start, Recommender) else start
        if store.factors != self.factors:
            raise ValueError(f"start has {store.factors} factors, this model {self.factors}")
        for new, ids, old, old_ids, name in (
            (users, data.user_ids, store.user_factors, store.user_ids, "users"),
            (items, data.item_ids, store.item_factors, store.item_ids, "items"),
        ):
            if (ids.table is None or old_ids.table is None) and ids != old_ids:
                raise ValueError(
                    f"start has {len(old_ids)} {name}, the data {len(ids)}: without labels to "
                    "match them by, they must agree. Fit without start, or give both ids"
                )
            rows = old_ids.rows(ids.labels, missing=-1)
            new[rows >= 0] = old[rows[rows >= 0]]
        return users, items

    @property
    def _folding(self) -> FoldIn:
        return FoldIn(self.objective, self.store, self.backend, self.n_threads)

    def _kernel_rows(self, rows: sp.csr_array) -> CSR:
        clean = Interactions.from_sparse(rows).user_items
        refuse_dislikes(self.objective, clean.data)
        return CSR.from_scipy(clean, self.store.dtype)

    @classmethod
    def _from_store(cls, store: FactorStore) -> Self:
        if store.fitter["name"] != cls.__name__:
            raise ValueError(
                f"the store was fitted by {store.fitter['name']}, not {cls.__name__}; "
                "mfrank.load takes any"
            )
        model: Self = restore(store.fitter, _CLASSES)
        model._adopt(store)
        return model


_CLASSES: dict[str, type[Any]] = {
    "ALS": ALS,
    **{name: getattr(objectives, name) for name in objectives.__all__},
}


def load(
    folder: str | os.PathLike[str], *, mmap: bool = False, verify: bool = False
) -> Recommender:
    """Load any saved model as the class that saved it; see :meth:`mfrank.FactorStore.load`."""
    store = FactorStore.load(folder, mmap=mmap, verify=verify)
    if store.fitter["name"] in _CLASSES:
        return _CLASSES[store.fitter["name"]]._from_store(store)  # type: ignore[no-any-return]
    return Recommender._from_store(store)
