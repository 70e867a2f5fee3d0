"""The loss as a function of the feature weights, and its gradient, to any requested accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import (
    check_at_least_zero,
    check_choice,
    check_threads,
    lazy,
    share,
    single_threaded,
)
from mfrank.backends import Until, choose
from mfrank.errors import InputValueError
from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.stationary import (
    StationaryOfQueries,
    Transitions,
    Walker,
    nesterov_nemirovski,
    power,
    power_steps,
    steps_within,
)

# The square loss with margins over pairs of graded pages (Supervised PageRank, 3.1 and 3.5).


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Sign = Literal["margin", "tolerance"]


@dataclass(frozen=True, eq=False)
class SquareLoss:
    """Mean over queries of the sum over pairs of (pi_worse - pi_better + b)_+ squared.

    The paper writes the sign of b in two ways, which agree only for b = 0:

    - "margin": (A pi + b)_+ as in (3.5); the loss is 0 if the better page leads by at least b.
    - "tolerance": (A pi - b)_+ as in (3.1), min(pi_better - pi_worse + b, 0); the loss is 0 if the
      better page trails by at most b.

    Parameters
    ----------
    margin : float or mapping, default 0.0
        b >= 0, or b_{j1 j2} by pair of labels, ``{(worse, better): b}``, with 0 for all other
        pairs. Probabilities of pages are of the order 1 / n_nodes; the paper has no values.
    sign : {"margin", "tolerance"}, default "margin"
        Sign of b, as above.
    """

    margin: float | Mapping[tuple[float, float], float] = 0.0
    sign: Sign = "margin"

    def __post_init__(self) -> None:
        check_choice("sign", self.sign, get_args(Sign))
        margins = self.margin if isinstance(self.margin, Mapping) else {"margin": self.margin}
        for labels, value in margins.items():
            check_at_least_zero(**{f"margin of {labels}": value})

    def pairs(self, graphs: Graphs) -> Pairs:
        """All pairs of pages of the same query with different labels.

        Raises
        ------
        ValueError
            No query has such a pair.
        """
        worse, better = _pairs(graphs)
        if not len(worse):
            raise InputValueError(
                "no query has pages with different labels, so there is nothing to learn",
                "pass at least two different ones of some query to graphs.with_labels",
            )
        if isinstance(self.margin, Mapping):
            margins = np.zeros(len(worse))
            for (low, high), value in self.margin.items():
                margins[(graphs.labels[worse] == low) & (graphs.labels[better] == high)] = value
        else:
            margins = np.full(len(worse), float(self.margin))
        return Pairs(worse, better, margins if self.sign == "margin" else -margins, graphs.nodes)


def _pairs(graphs: Graphs) -> tuple[Ints, Ints]:
    """Worse and better nodes of all pairs, ordered by query and better label."""
    judged = np.flatnonzero(np.isfinite(graphs.labels))
    query, label = graphs.query_of[judged], graphs.labels[judged]
    order = np.lexsort((label, query))
    judged, query, label = judged[order], query[order], label[order]
    grade = np.concatenate([[0], np.cumsum((np.diff(query) != 0) | (np.diff(label) != 0))])
    first_of_query = np.searchsorted(query, query)
    n_worse = np.searchsorted(grade[: len(judged)], grade[: len(judged)]) - first_of_query
    ends = np.cumsum(n_worse)
    within = np.arange(n_worse.sum()) - np.repeat(ends - n_worse, n_worse)
    return judged[np.repeat(first_of_query, n_worse) + within], np.repeat(judged, n_worse)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of nodes to compare: A and b of (3.5).

    Attributes
    ----------
    worse, better : int64, shape (n_pairs,)
        A has a row e_worse - e_better for each.
    margins : float64, shape (n_pairs,)
        b, negated for a tolerance.
    nodes : int64, shape (n_queries + 1,)
        Offsets of the queries' nodes, as in :class:`Graphs`.
    """

    worse: Ints
    better: Ints
    margins: Floats
    nodes: Ints

    def losses(self, values: Floats) -> Floats:
        """Loss of each query, given the nodes' probabilities, shape (n_queries,)."""
        losses = np.bincount(self._query, self.lags(values) ** 2, len(self.nodes) - 1)
        return np.asarray(losses, dtype=np.float64)

    def gradients(self, values: Floats) -> Floats:
        """Gradients of the queries' losses by pi, 2 A'(A pi + b)_+, shape (n_nodes,)."""
        lags, size = 2 * self.lags(values), int(self.nodes[-1])
        gradients = np.bincount(self.worse, lags, size) - np.bincount(self.better, lags, size)
        return np.asarray(gradients, dtype=np.float64)

    def lags(self, values: Floats) -> Floats:
        """(A pi + b)_+ of each pair, shape (n_pairs,)."""
        return np.maximum(values[self.worse] - values[self.better] + self.margins, 0.0)

    def loads(self, values: Floats) -> Floats:
        """For each query, the largest sum of (A pi + b)_+ over the pairs of one node."""
        lags, size = self.lags(values), int(self.nodes[-1])
        sums = np.bincount(self.worse, lags, size) + np.bincount(self.better, lags, size)
        return np.asarray(np.maximum.reduceat(sums, self.nodes[:-1]))

    @lazy
    def counts(self) -> Ints:
        """Number of pairs of each query; the largest is the paper's r."""
        return np.bincount(self._query, minlength=len(self.nodes) - 1)

    @lazy
    def degrees(self) -> Ints:
        """For each query, the largest number of pairs with one node."""
        size = int(self.nodes[-1])
        touched = np.bincount(self.worse, minlength=size) + np.bincount(self.better, minlength=size)
        return np.asarray(np.maximum.reduceat(touched, self.nodes[:-1]))

    @property
    def most(self) -> float:
        """Upper bound on (A pi + b)_+."""
        return 1 + max(0.0, float(self.margins.max()))

    @lazy
    def _query(self) -> Ints:
        return np.searchsorted(self.nodes, self.worse, side="right") - 1


# The gradient of the loss by the feature weights, from one more linear system: the adjoint.
#
# With c = dl/dpi and lam = c + (1 - alpha) P lam, c' dpi/dphi = lam' Pi0, where Pi0 is (3.4). The
# columns of Pi0 sum to 0, so lam matters only up to a constant, and the iteration contracts its
# spread, (max - min) / 2. The paper iterates all m columns of dpi/dphi instead
# (``tests/support/jacobian.py``).


class Adjoint(NamedTuple):
    """Solutions of lam = c + (1 - alpha) P lam of all queries.

    Attributes
    ----------
    values : float64, shape (n_nodes,)
    errors : float64, shape (n_queries,)
        Bound on the spread of each query's error, without rounding errors.
    steps : int64, shape (n_queries,)
        Iterations of each query.
    """

    values: Floats
    errors: Floats
    steps: NDArray[np.int64]


def adjoint(transitions: Transitions, gradients: Floats, until: Until, walker: Walker) -> Adjoint:
    """Iterate lam <- c + (1 - alpha) P lam from lam = c; N2 steps sum N2 + 1 terms of the series.

    The spread of the error is at most (1 - alpha) / alpha times the spread of the last change.
    """
    walked = walker.backend.walk(
        transitions.backward,
        gradients[:, None],
        gradients[:, None],
        1 - walker.alpha,
        until._replace(norm="spread"),
        walker.n_threads,
    )
    begins = transitions.graphs.nodes
    left = (1 - walker.alpha) ** (walked.steps + 1) / walker.alpha * _spreads(gradients, begins)
    by_change = (1 - walker.alpha) / walker.alpha * walked.changes
    return Adjoint(walked.values[:, 0], np.minimum(left, by_change), walked.steps)


def adjoint_within(
    transitions: Transitions, gradients: Floats, tolerance: Floats, walker: Walker
) -> Adjoint:
    """Iterate until the spread of each query's error is certified to be at most ``tolerance``."""
    spreads = _spreads(gradients, transitions.graphs.nodes)
    part = np.divide(
        walker.alpha * tolerance, spreads, out=np.ones_like(spreads), where=spreads > 0
    )
    change = walker.alpha / (1 - walker.alpha) * tolerance
    until = Until(steps_within(2 * float(part.min()), walker.alpha), change)
    return adjoint(transitions, gradients, until, walker)


def gradient(transitions: Transitions, values: Floats, lam: Floats, alpha: float) -> Floats:
    """Gradient of the mean loss over queries, lam' Pi0 / |Q|, shape (m1 + m2,).

    A walk restarts from nodes without edges, so their rows of P also depend on phi1: their
    probability pi_D adds to the probability of restarts ((2.4) and (A.11) of the paper omit it).
    """
    graphs, keep = transitions.graphs, 1 - alpha
    seeds, query = graphs.seeds, graphs.query_of[graphs.seeds]
    dangling = transitions.per_query(values * graphs.dangling)
    means = transitions.per_query(lam * transitions.restarts)
    pull = ((alpha + keep * dangling) / transitions.seed_sums)[query] * (lam[seeds] - means[query])

    ahead = lam[graphs.links.indices]
    mean_ahead = np.bincount(graphs.sources, transitions.steps * ahead, graphs.n_nodes)
    per_weight = np.divide(
        keep * values, transitions.node_sums, out=np.zeros(graphs.n_nodes), where=~graphs.dangling
    )
    along = per_weight[graphs.sources] * (ahead - mean_ahead[graphs.sources])
    with single_threaded():
        of_nodes = graphs.node_features[seeds].T @ pull
        of_edges = graphs.edge_features.T @ along
    return np.concatenate([of_nodes, of_edges]) / graphs.n_queries


def sensitivity(transitions: Transitions) -> float:
    """Bound on the 1-norm of every column of Pi0, beta1 = 2 / min phi.

    Because features are >= 0, the norm for weight j is at most 2 (alpha + (1 - alpha) pi_D) / phi_j
    for node features and 2 (1 - alpha) (1 - pi_D) / phi_j for edge features. The paper's (A.11)
    sums over all nodes.

    Raises
    ------
    ValueError
        A weight is 0.
    """
    least = float(transitions.weights.min())
    if least <= 0:
        raise InputValueError(
            "`weights` must be > 0 for a gradient of known accuracy, as the learners ensure"
        )
    return 2 / least


def gradient_error(
    transitions: Transitions, pairs: Pairs, pi: StationaryOfQueries, lam: Adjoint, alpha: float
) -> float:
    """Bound on every component's error from the errors of both iterations, without rounding errors.

    Let e1 = |pi~ - pi|, and e2 the spread of lam~'s error. Pi0 is off by beta (1 - alpha) e1, and c
    by 2 deg e1, which adds 2 deg e1 / alpha to e2.
    """
    spreads = _spreads(lam.values, transitions.graphs.nodes)
    of_lam = lam.errors + 2 * pairs.degrees * pi.errors / alpha
    per_query = (1 - alpha) * pi.errors * spreads + of_lam
    return sensitivity(transitions) * float(per_query.mean())


def _spreads(values: Floats, nodes: NDArray[np.int64]) -> Floats:
    begins = nodes[:-1]
    return (np.maximum.reduceat(values, begins) - np.minimum.reduceat(values, begins)) / 2


# Step counts and tolerances that guarantee an accuracy of the loss and of its gradient.
#
# Step counts (Lemmas 1 and 2) are sufficient on any graph. Tolerances are per query, for iterations
# that end by certificate, mostly much sooner.


def steps_for_loss(n_pairs: int, error: float, alpha: float) -> int:
    """N of Lemma 1: steps of Nesterov and Nemirovski's method until |f~ - f| <= ``error``.

    ``n_pairs`` is r, the largest number of pairs of a query. The lemma holds for margins up to 1:
    its proof bounds (A pi + b)_+ by 1 instead of 1 + b, but has a factor 2 to spare.
    """
    return _steps(8 * n_pairs / error, alpha)


def steps_for_gradient(
    n_pairs: int, sensitivity: float, error: float, alpha: float
) -> tuple[int, int]:
    """N1 and N2 of Lemma 2: steps until no component of g~ is off by more than ``error``.

    ``sensitivity`` is beta1, see :func:`mfrank.pagerank.problem.sensitivity`.
    """
    ratio = sensitivity * n_pairs / (alpha * error)
    return _steps(24 * ratio, alpha), _steps(8 * ratio, alpha)


def tolerances_for_loss(pairs: Pairs, error: float) -> Floats:
    """Allowed 1-norm errors of each query's pi, so that f is within ``error``; at most 1.

    With (A pi + b)_+ <= most and at most deg pairs per node, an error e of pi changes the query's
    loss by at most 2 e deg most + deg e^2.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(1.0, error / (pairs.degrees * (2 * pairs.most + 1))))


def tolerances_for_gradient(
    pairs: Pairs, sensitivity: float, error: float, alpha: float
) -> tuple[Floats, Floats]:
    """Allowed errors of each query's pi (1-norm) and lam (spread) for a gradient within ``error``.

    Each gets half of ``error`` in :func:`mfrank.pagerank.problem.gradient_error`. The spread of
    lam is at most that of c over alpha, and the spread of c at most 2 deg most.
    """
    half = error / (2 * sensitivity)
    of_pi = 2 * pairs.degrees * ((1 - alpha) * pairs.most + 1) / alpha
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, half / of_pi), np.full(len(of_pi), half)


def loss_error(pairs: Pairs, pi: StationaryOfQueries) -> float:
    """Bound on |f~ - f| from the errors of pi, without rounding errors."""
    errors = 2 * pi.errors * pairs.loads(pi.values) + pairs.degrees * pi.errors**2
    return float(errors.mean())


def _steps(ratio: float, alpha: float) -> int:
    return max(0, math.ceil(math.log(ratio) / alpha) - 1)


Accuracy = Literal["certificate", "theory"]

_LOSS = SquareLoss()


class ValueAndGradient(NamedTuple):
    """Loss and gradient, shape (m1 + m2,), at some weights."""

    loss: float
    gradient: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimize the mean loss of the queries over the weights (3.7).

    Attributes
    ----------
    graphs : Graphs
    square : SquareLoss
        The loss.
    pairs : Pairs
        Pairs of nodes that the loss compares.
    walker : Walker
    accuracy : {"certificate", "theory"}
        Stopping rule of iterations. "certificate": as soon as bounds computed along the way
        guarantee the accuracy. "theory": after the steps of Lemmas 1 and 2, by Nesterov and
        Nemirovski's method.
    """

    graphs: Graphs
    square: SquareLoss
    pairs: Pairs
    walker: Walker
    accuracy: Accuracy = "certificate"

    @classmethod
    def of(
        cls,
        graphs: Graphs,
        loss: SquareLoss = _LOSS,
        *,
        alpha: float = 0.15,
        accuracy: Accuracy = "certificate",
        backend: str = "auto",
        n_threads: int = 0,
    ) -> Problem:
        """Make the problem of labeled graphs.

        Parameters
        ----------
        alpha : float, default 0.15
            Probability of a restart, in (0, 1) (the classical value).

        Raises
        ------
        ValueError, TypeError
            No query has two different labels, the weights of a query's seeds or a node's edges sum
            to 0, or an option is invalid.
        """
        check_choice("accuracy", accuracy, get_args(Accuracy))
        check_threads(n_threads)
        walker = Walker(share("alpha", alpha), choose(backend), n_threads)
        Transitions.of(graphs)  # checks the sums at weights 1, and so at any weights > 0
        return cls(graphs, loss, loss.pairs(graphs), walker, accuracy)

    @property
    def n_weights(self) -> int:
        """Number of weights, m = m1 + m2."""
        return sum(self.graphs.n_features)

    def part(self, queries: NDArray[np.int64]) -> Problem:
        """The problem restricted to some queries, by their index in the graphs."""
        graphs = self.graphs.take(queries)
        return replace(self, graphs=graphs, pairs=self.square.pairs(graphs))

    def loss(self, weights: Floats, error: float) -> float:
        """f~ with |f~ - f| <= ``error``."""
        walk, walker = Transitions.of(self.graphs, weights), self.walker
        if self.accuracy == "theory":
            steps = steps_for_loss(int(self.pairs.counts.max()), error, walker.alpha)
            return self._mean(nesterov_nemirovski(walk, steps, walker).values)
        return self._mean(power(walk, tolerances_for_loss(self.pairs, error), walker).values)

    def value_and_gradient(
        self, weights: Floats, loss_error: float, gradient_error: float
    ) -> ValueAndGradient:
        """f~ as in :meth:`loss`, and g~ with all components within ``gradient_error``."""
        walk, walker, pairs = Transitions.of(self.graphs, weights), self.walker, self.pairs
        alpha, beta = walker.alpha, sensitivity(walk)
        if self.accuracy == "theory":
            r = int(pairs.counts.max())
            n1, n2 = steps_for_gradient(r, beta, gradient_error, alpha)
            n1 = max(n1, steps_for_loss(r, loss_error, alpha))
            values = nesterov_nemirovski(walk, n1, walker).values
            lam = adjoint(walk, pairs.gradients(values), Until(n2), walker)
        else:
            e1, e2 = tolerances_for_gradient(pairs, beta, gradient_error, alpha)
            e1 = np.minimum(e1, tolerances_for_loss(pairs, loss_error))
            values = power(walk, e1, walker).values
            lam = adjoint_within(walk, pairs.gradients(values), e2, walker)
        return ValueAndGradient(self._mean(values), gradient(walk, values, lam.values, alpha))

    def value_and_gradient_after(self, weights: Floats, steps: int) -> ValueAndGradient:
        """Loss and gradient after ``steps`` power iterations, and as many for the adjoint."""
        walk = Transitions.of(self.graphs, weights)
        values = power_steps(walk, steps, self.walker).values
        lam = adjoint(walk, self.pairs.gradients(values), Until(steps), self.walker)
        return ValueAndGradient(
            self._mean(values), gradient(walk, values, lam.values, self.walker.alpha)
        )

    def _mean(self, values: Floats) -> float:
        return float(self.pairs.losses(values).mean())
