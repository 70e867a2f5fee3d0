"""Stationary distributions of the walks, each with a bound on its error.

pi = alpha pi0 + (1 - alpha) P' pi (Supervised PageRank, 3.2). One step of
x <- alpha pi0 + (1 - alpha) P' x contracts the 1-norm of a difference by the factor 1 - alpha.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.csr import CSR
from mfrank.backends import Backend
from mfrank.backends.walks import Moves, Until, Walked
from mfrank.pagerank.transitions import Transitions

__all__ = [
    "Stationary",
    "Walker",
    "nesterov_nemirovski",
    "power",
    "power_steps",
    "settled",
    "steps_within",
]

Floats = NDArray[np.float64]


class Walker(NamedTuple):
    """Settings of the iterations.

    Attributes
    ----------
    alpha : float
        Probability of a restart, in (0, 1); 0.15 is the classical value (Page et al. 1999).
    backend : Backend
    n_threads : int
        0 takes every core this process may use.
    """

    alpha: float
    backend: Backend
    n_threads: int = 0


class Stationary(NamedTuple):
    """Stationary distributions of all queries.

    Attributes
    ----------
    values : float64, shape (n_nodes,)
    errors : float64, shape (n_queries,)
        Bound on the 1-norm of each query's error, without rounding errors.
    steps : int64, shape (n_queries,)
        Iterations of each query.
    """

    values: Floats
    errors: Floats
    steps: NDArray[np.int64]


def nesterov_nemirovski(transitions: Transitions, steps: int, walker: Walker) -> Stationary:
    """The method of Nesterov and Nemirovski (4.1, 4.2), N = ``steps``.

    pi_N = alpha / (1 - t) sum_{k <= N} (1 - alpha)^k (P')^k pi0 with t = (1 - alpha)^(N + 1). N
    steps of s <- alpha pi0 + (1 - alpha) P' s from s = alpha pi0 compute alpha times the sum. The
    error is at most 2t, which a directed cycle attains.
    """
    begin = walker.alpha * transitions.restarts[:, None]
    walked = walker.backend.walk(
        transitions.forward, begin, begin, 1 - walker.alpha, Until(steps), walker.n_threads
    )
    left = (1 - walker.alpha) ** (steps + 1)
    errors = np.full(transitions.graphs.n_queries, 2 * left)
    return Stationary(walked.values[:, 0] / (1 - left), errors, walked.steps)


def power(
    transitions: Transitions,
    tolerance: float | Floats,
    walker: Walker,
    start: Floats | None = None,
) -> Stationary:
    """Power iteration until the errors are at most ``tolerance``, by certificate.

    For a step from x to x', |x - pi| <= |x' - x| / alpha, so |x' - pi| <= (1 - alpha) / alpha
    |x' - x|. No query takes more steps than the worst case needs: from pi0, |x_N - pi| <=
    2 (1 - alpha)^(N + 1), the bound of :func:`nesterov_nemirovski`; from another start, one more.

    Parameters
    ----------
    tolerance : float, or float64 of shape (n_queries,)
        > 0, bound on the 1-norm of each query's error.
    start : float64, shape (n_nodes,), optional
        Distributions to start from; default pi0.
    """
    alpha, late = walker.alpha, 0 if start is None else 1
    allowed = np.broadcast_to(np.asarray(tolerance, np.float64), transitions.graphs.n_queries)
    most = steps_within(float(allowed.min()), alpha) + late
    until = Until(most, alpha / (1 - alpha) * allowed)
    x = transitions.restarts if start is None else start
    values, changes, steps = _iterated(transitions, x, until, walker)
    worst = 2 * (1 - alpha) ** (steps + 1 - late)
    return Stationary(values, np.minimum((1 - alpha) / alpha * changes, worst), steps)


def power_steps(transitions: Transitions, steps: int, walker: Walker) -> Stationary:
    """Power iteration from pi0 with exactly ``steps`` steps."""
    values, changes, taken = _iterated(transitions, transitions.restarts, Until(steps), walker)
    worst = 2 * (1 - walker.alpha) ** (taken + 1)
    by_change = (1 - walker.alpha) / walker.alpha * changes
    return Stationary(values, np.minimum(by_change, worst), taken)


def settled(moves: Moves, restarts: CSR, tolerance: float, walker: Walker) -> Floats:
    """Stationary distributions of walks on one graph, shape (k, n), one per row of ``restarts``.

    The sweeps of :meth:`mfrank.backends.Backend.stationary` mostly converge in about half the steps
    of power iteration, but only the latter has a bound that holds on any graph. So rows that do not
    converge in as many sweeps, for example because the tolerance is below the rounding error, are
    computed by power iteration.
    """
    most = steps_within(tolerance, walker.alpha)
    values, errors, _ = walker.backend.stationary(
        moves, restarts, walker.alpha, tolerance, most, walker.n_threads
    )
    for row in np.flatnonzero(~(errors <= tolerance)):
        nodes, chances = restarts.row(int(row))
        begin = np.zeros((len(moves.order), 1))
        begin[moves.place[nodes], 0] = chances
        walked = walker.backend.walk(
            moves.chain(begin),
            walker.alpha * begin,
            begin,
            1 - walker.alpha,
            Until(most, np.array([walker.alpha / (1 - walker.alpha) * tolerance])),
            walker.n_threads,
        )
        values[row, moves.order] = walked.values[:, 0]
    return values


def _iterated(transitions: Transitions, x: Floats, until: Until, walker: Walker) -> Walked:
    """Values (n_nodes,), changes and steps of power iteration."""
    walked = walker.backend.walk(
        transitions.forward,
        walker.alpha * transitions.restarts[:, None],
        x[:, None],
        1 - walker.alpha,
        until,
        walker.n_threads,
    )
    return walked._replace(values=walked.values[:, 0])


def steps_within(tolerance: float, alpha: float) -> int:
    """Least N >= 1 with 2 (1 - alpha)^(N + 1) <= tolerance: enough steps on any graph."""
    steps = math.ceil(math.log(min(tolerance, 2.0) / 2) / math.log1p(-alpha)) - 1
    return min(max(steps, 1), 2**30)  # at alpha = 1e-8, longer than anyone would wait
