"""Small hard inputs that several test files share, and each objective's loss as it is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from numpy.typing import NDArray

import mfrank
from mfrank.als import Eigenbasis, QuadraticObjective
from mfrank.backends import Gram, RowProblem, SolveOptions

Dense = NDArray[np.float64]


def toy(
    n_users: int = 9, n_items: int = 7, density: float = 0.4, seed: int = 0, values: str = "counts"
) -> sp.csr_array:
    """A random matrix with an empty user and an empty item; values 1, counts, or with dislikes."""
    rng = np.random.default_rng(seed)
    dense = (rng.random((n_users, n_items)) < density).astype(np.float64)
    if values != "ones":
        dense *= rng.integers(1, 6, size=dense.shape)
    if values == "dislikes":
        dense *= rng.choice([1.0, 1.0, -1.0], size=dense.shape)
    dense[n_users // 2] = 0
    dense[:, n_items // 3] = 0
    return sp.csr_array(dense)


def rows_of(counts: Sequence[int], n_columns: int = 300, seed: int = 1) -> sp.csr_array:
    """Rows of so many entries, from 1 to 4, at random columns."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((len(counts), n_columns))
    for row, count in zip(dense, counts, strict=True):
        row[rng.permutation(n_columns)[:count]] = rng.integers(1, 5, count)
    return sp.csr_array(dense)


OBJECTIVES: dict[str, QuadraticObjective] = {
    "wrmf": mfrank.WRMF(alpha=2.5, regularization=0.3),
    "wrmf below one": mfrank.WRMF(alpha=0.1, regularization=0.2),
    "wrmf hu": mfrank.WRMF(alpha=1.5, regularization=0.1, confidence="1+alpha*r"),
    "wrmf scaled": mfrank.WRMF(alpha=2.0, regularization=0.05, nu=0.7),
    "ials": mfrank.IALS(alpha0=0.3, regularization=0.02, nu=1.0),
    "ials nu": mfrank.IALS(alpha0=0.1, regularization=0.05, nu=0.5),
    "eals": mfrank.EALS(c0=3.0, exponent=0.5, regularization=0.1),
    "ials weighted": mfrank.IALS(alpha0=0.2, regularization=0.05, nu=0.6, weighted=True),
    "eals weighted": mfrank.EALS(c0=3.0, exponent=0.5, regularization=0.1, weighted=True),
    "rg2 pure": mfrank.RG2(alpha=0.0, regularization=0.1),
    "rg2": mfrank.RG2(alpha=0.2, regularization=0.1),
    "rg2 nu": mfrank.RG2(alpha=0.2, regularization=0.1, nu=0.6),
    "rg2 authors": mfrank.RG2(alpha=0.2, regularization=0.1, ridge="authors"),
    "rg2 weighted": mfrank.RG2(alpha=0.2, regularization=0.1, weighted=True),
    "rg2 sampled": mfrank.RG2Sampled(negatives=2, regularization=0.05),
    "rgx pure": mfrank.RGX(alpha=0.0, regularization=0.1),
    "rgx": mfrank.RGX(alpha=0.2, regularization=0.1),
    "rgx weighted": mfrank.RGX(alpha=0.2, regularization=0.1, weighted=True),
    "rgx authors": mfrank.RGX(alpha=0.3, regularization=0.05, ridge="authors"),
    "rgx printed": mfrank.RGXPrinted(alpha=0.2, regularization=0.1, beta=0.3),
}


def stated_loss(objective: QuadraticObjective, r: Dense) -> Callable[[Dense, Dense], float]:
    """The loss as the paper or docstring prints it, cell by cell, as a function of P and Q."""
    users, items = r.shape
    d, n, m = r != 0, (r != 0).sum(1), (r != 0).sum(0)
    lam = objective.regularization
    w = abs(r) if objective.weighted else 1.0 * d  # the weights of cells, and their sums
    n_w, m_w = w.sum(1), w.sum(0)

    def ridge(rho: Dense, sigma: Dense, p: Dense, q: Dense) -> float:
        return float(lam * (rho @ (p**2).sum(1) + sigma @ (q**2).sum(1)))

    def wrmf(p: Dense, q: Dense) -> float:
        o = objective
        assert isinstance(o, mfrank.WRMF)
        base = 1.0 if o.confidence == "1+alpha*r" else 0.0
        c = np.where(d, base + o.alpha * abs(r), 1.0)
        rho, sigma = np.where(d, c - 1, 0).sum(1) + items, np.where(d, c - 1, 0).sum(0) + users
        fit = (c * ((r > 0) - p @ q.T) ** 2).sum()
        return float(fit) + ridge(rho**o.nu, sigma**o.nu, p, q)

    def ials(p: Dense, q: Dense) -> float:
        o = objective
        assert isinstance(o, mfrank.IALS)
        s = p @ q.T
        rho, sigma = (n_w + o.alpha0 * items) ** o.nu, (m_w + o.alpha0 * users) ** o.nu
        fit = (w * ((r > 0) - s) ** 2).sum() + o.alpha0 * (s**2).sum()
        return float(fit) + ridge(rho, sigma, p, q)

    def eals(p: Dense, q: Dense) -> float:
        o = objective
        assert isinstance(o, mfrank.EALS)
        s, popular = p @ q.T, m**o.exponent / (m**o.exponent).sum()
        fit = (w * ((r > 0) - s) ** 2).sum() + o.c0 * (popular * s**2).sum()
        rho, sigma = (n_w + o.c0) ** o.nu, (m_w + o.c0 * users * popular) ** o.nu
        return float(fit) + ridge(rho, sigma, p, q)

    def rg(p: Dense, q: Dense) -> float:
        o = objective
        assert isinstance(o, mfrank.RG2)
        s = p @ q.T
        pushed = np.sign(r) * s  # dislikes the other way
        loss = (w * (-pushed + o.alpha * (1 - pushed) ** 2)).sum()
        loss += (n[:, None] / (2 * items) * (s + 1) ** 2).sum()
        if isinstance(o, mfrank.RGX):
            loss -= (n / (2 * items**2) * s.sum(1) ** 2).sum()
        if isinstance(o, mfrank.RGXPrinted):
            loss -= o.beta * (n / (2 * items) * (s**2).sum(1)).sum()
        own = o.ridge == "own"
        rho = n / 2 + o.alpha * (n_w if own else items)
        sigma = n.sum() / (2 * items) + o.alpha * (m_w if own else users)
        return float(loss) + ridge(rho**o.nu, np.broadcast_to(sigma**o.nu, items), p, q)

    def sampled(p: Dense, q: Dense) -> float:
        o = objective
        assert isinstance(o, mfrank.RG2Sampled)
        w = np.where(d, n[:, None], (n * (o.negatives + 1) / items)[:, None])
        target = np.where(d, items / np.maximum(n, 1)[:, None], 0.0) - 1.0
        fit = (w * (target - p @ q.T) ** 2).sum()
        return float(fit) + ridge(w.sum(1), w.sum(0), p, q)

    if isinstance(objective, mfrank.RG2):
        return rg
    losses = {"WRMF": wrmf, "IALS": ials, "EALS": eals, "RG2Sampled": sampled}
    return losses[type(objective).__name__]


def gradient(f: Callable[[Dense], float], at: Dense, h: float = 1e-5) -> Dense:
    """Central finite differences of a scalar function, shape of ``at``."""
    slope = np.zeros_like(at)
    for i in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[i] = h
        slope[i] = (f(at + step) - f(at - step)) / (2 * h)
    return slope


def solve_turned(
    backend: Any,
    problem: RowProblem,
    fixed: NDArray[Any],
    gram: Gram,
    start: NDArray[Any],
    **how: Any,
) -> NDArray[Any]:
    """A backend's solution for factors in any basis: turned, solved, turned back in float64."""
    at, turned, out = Eigenbasis.of(gram), np.empty_like(fixed), start.copy()
    at.turn(backend, fixed, turned)
    gain = backend.solve_rows(problem, turned, at.shared, out, SolveOptions(**how), turn=at.basis)
    assert gain.shape == (problem.rows.n_rows,)
    return np.asarray(out.astype(np.float64) @ at.basis.T)


def solve_plainly(
    problem: RowProblem, fixed: NDArray[Any], gram: Gram, magnitudes: bool = False
) -> Dense:
    """The rows' systems as they are written, each by least squares in float64.

    With ``magnitudes``, right-hand sides are sums of their terms' magnitudes.
    """
    wide, c, d = fixed.astype(np.float64), problem.curvature(), problem.pull()
    out = np.zeros((problem.rows.n_rows, fixed.shape[1]))
    for r, (begin, end) in enumerate(pairwise(problem.rows.indptr)):
        f = wide[problem.rows.row(r)[0]]
        matrix = problem.weight[r] * gram.matrix + (f.T * c[begin:end]) @ f
        matrix += problem.ridge[r] * np.eye(len(matrix))
        pulls, shared = f.T * d[begin:end], problem.weight[r] * gram.vector
        if magnitudes:
            pulls, shared = np.abs(pulls), np.abs(shared)
        out[r] = np.linalg.lstsq(matrix, pulls.sum(axis=1) + shared)[0]
    return out


def iterate_plainly(
    problem: RowProblem, fixed: NDArray[Any], gram: Gram, start: NDArray[Any], steps: int
) -> Dense:
    """Conjugate gradients of so many steps, preconditioned with what rows share, in float64."""
    wide, c, d = fixed.astype(np.float64), problem.curvature(), problem.pull()
    out = start.astype(np.float64)
    for r, (begin, end) in enumerate(pairwise(problem.rows.indptr)):
        f = wide[problem.rows.row(r)[0]]
        shared = problem.weight[r] * gram.matrix + problem.ridge[r] * np.eye(f.shape[1])
        matrix = shared + (f.T * c[begin:end]) @ f
        residual = f.T @ d[begin:end] + problem.weight[r] * gram.vector - matrix @ out[r]
        direction, power = np.zeros_like(residual), np.inf
        for _ in range(steps):
            improved = np.linalg.solve(shared, residual)
            power, previous = residual @ improved, power
            direction = improved + power / previous * direction
            length = power / (direction @ matrix @ direction)
            out[r] += length * direction
            residual -= length * matrix @ direction
    return out


@st.composite
def matrices(draw: st.DrawFn) -> sp.csr_array:
    """Up to 12 x 40, from no rows to full, each row of a density of its own, some r < 0."""
    shape = draw(st.integers(0, 12)), draw(st.integers(3, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = rng.choice([0.0, 0.1, 0.5, 1.0], size=(shape[0], 1))
    dense = rng.integers(1, 6, size=shape) * (rng.random(shape) < density)
    return sp.csr_array(dense.astype(np.float64))
