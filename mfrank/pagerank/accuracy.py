"""Step counts and tolerances that guarantee an accuracy of the loss and of its gradient.

Step counts (Lemmas 1 and 2) are sufficient on any graph. Tolerances are per query, for iterations
that end by certificate, mostly much sooner.
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
    """N of Lemma 1: steps of Nesterov and Nemirovski's method until |f~ - f| <= ``error``.

    ``n_pairs`` is r, the largest number of pairs of a query. The lemma holds for margins up to 1:
    its proof bounds (A pi + b)_+ by 1 instead of 1 + b, but has a factor 2 to spare.
    """
    return _steps(8 * n_pairs / error, alpha)


def steps_for_gradient(
    n_pairs: int, sensitivity: float, error: float, alpha: float
) -> tuple[int, int]:
    """N1 and N2 of Lemma 2: steps until no component of g~ is off by more than ``error``.

    ``sensitivity`` is beta1, see :func:`mfrank.pagerank.gradient.sensitivity`.
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

    Each gets half of ``error`` in :func:`mfrank.pagerank.gradient.gradient_error`. The spread of
    lam is at most that of c over alpha, and the spread of c at most 2 deg most.
    """
    half = error / (2 * sensitivity)
    of_pi = 2 * pairs.degrees * ((1 - alpha) * pairs.most + 1) / alpha
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, half / of_pi), np.full(len(of_pi), half)


def loss_error(pairs: Pairs, pi: Stationary) -> float:
    """Bound on |f~ - f| from the errors of pi, without rounding errors."""
    errors = 2 * pi.errors * pairs.loads(pi.values) + pairs.degrees * pi.errors**2
    return float(errors.mean())


def _steps(ratio: float, alpha: float) -> int:
    return max(0, math.ceil(math.log(ratio) / alpha) - 1)
