"""What iterations owe to the accuracy of the loss and of its gradient that a method asks for.

Either step counts that do on any graph, as Lemmas 1 and 2 have them, or tolerances of each query's
iteration, which then ends by its certificate, mostly much sooner.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mfrank.pagerank.loss import Pairs
from mfrank.pagerank.stationary import Stationary

__all__ = [
    "loss_error",
    "steps_for_gradient",
    "steps_for_loss",
    "tolerances_for_gradient",
    "tolerances_for_loss",
]

Floats = NDArray[np.float64]


def steps_for_loss(n_pairs: int, error: float, alpha: float) -> int:
    """N of Lemma 1, |f~ - f| <= ``error`` by Nesterov and Nemirovski's method.

    ``n_pairs`` is r, the most pairs of a query. The lemma holds for margins up to 1: its proof
    takes (A pi + b)_+ for at most 1, where it is at most 1 + b, but has a factor 2 to spare.
    """
    return _steps(8 * n_pairs / error, alpha)


def steps_for_gradient(
    n_pairs: int, sensitivity: float, error: float, alpha: float
) -> tuple[int, int]:
    """N1 and N2 of Lemma 2, no component of g~ further than ``error`` from the gradient's.

    ``sensitivity`` is beta1, see :func:`mfrank.pagerank.gradient.sensitivity`.
    """
    ratio = sensitivity * n_pairs / (alpha * error)
    return _steps(24 * ratio, alpha), _steps(8 * ratio, alpha)


def tolerances_for_loss(pairs: Pairs, error: float) -> Floats:
    """Errors of each query's pi, in the 1-norm, that leave f within ``error``; at most 1.

    With lags u = (A pi + b)_+ <= most, and at most deg pairs of a node, an error e of pi changes
    the query's loss by 2 e deg most + deg e^2 at most.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(1.0, error / (pairs.degrees * (2 * pairs.most + 1))))


def tolerances_for_gradient(
    pairs: Pairs, sensitivity: float, error: float, alpha: float
) -> tuple[Floats, Floats]:
    """Errors of each query's pi (1-norm) and lam (spread) that leave the gradient within ``error``.

    Half of ``error`` for each in :func:`mfrank.pagerank.gradient.gradient_error`, where the spread
    of lam is at most that of c over alpha, and that 2 deg most.
    """
    half = error / (2 * sensitivity)
    of_pi = 2 * pairs.degrees * ((1 - alpha) * pairs.most + 1) / alpha
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, half / of_pi), np.full(len(of_pi), half)


def loss_error(pairs: Pairs, pi: Stationary) -> float:
    """Bound of |f~ - f| from the errors of pi; rounding apart."""
    errors = 2 * pi.errors * pairs.loads(pi.values) + pairs.degrees * pi.errors**2
    return float(errors.mean())


def _steps(ratio: float, alpha: float) -> int:
    return max(0, math.ceil(math.log(ratio) / alpha) - 1)
