"""The least time an exact epoch can take: its arithmetic and its traffic at the machine's best.

Multiply-adds of a half-step that solves R rows of n_r entries against S fixed rows, K factors:

    sum_r min(n_r^2 K/2 + n_r^3/6,  n_r K^2/2 + K^3/6)      the cheaper of dual and primal
    + S K^2/2                                               the Gram matrix
    + S K^2                                                 one rotation into its eigenbasis

and 4 nnz K bytes of gathered float32 factors. The floor is the longer of two times: the
multiply-adds at the rate of a large matrix product, and the bytes at the rate of a copy far beyond
the caches. Gathers that the caches serve may beat the second, and a kernel with wider vectors than
numpy's BLAS the first.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from mfrank.data import Counts

_PRODUCT = 2048
_COPIED = 1 << 28
_TRIALS = 15


@dataclass(frozen=True, slots=True)
class Work:
    """Multiply-adds and gathered bytes of an exact epoch."""

    multiply_adds: float
    gathered: float

    @classmethod
    def of_epoch(cls, counts: Counts, factors: int) -> Work:
        """Both half-steps."""
        sides = counts.users, counts.items
        arithmetic = _half_step(*sides, factors) + _half_step(*sides[::-1], factors)
        return cls(arithmetic, 2 * 4 * factors * float(counts.users.sum()))


@dataclass(frozen=True, slots=True)
class Machine:
    """What it reaches at best, in units a second."""

    multiply_adds: float
    copied: float

    @classmethod
    def measured(cls, threads: int) -> Machine:
        """Best of some trials of float32 products and of copies (read and written bytes)."""
        return cls(_product_rate(threads), _copy_rate(threads))

    def floor(self, work: Work) -> dict[str, float]:
        """The least seconds for the work, and what they follow from."""
        arithmetic, traffic = work.multiply_adds / self.multiply_adds, work.gathered / self.copied
        return {
            "seconds": max(arithmetic, traffic),
            "multiply_adds": work.multiply_adds,
            "multiply_adds_per_second": self.multiply_adds,
            "gathered_bytes": work.gathered,
            "copied_bytes_per_second": self.copied,
        }


def _half_step(solved: NDArray[np.int64], fixed: NDArray[np.int64], factors: int) -> float:
    n, k = solved.astype(np.float64), float(factors)
    dual, primal = n**2 * k / 2 + n**3 / 6, n * k**2 / 2 + k**3 / 6
    return float(np.minimum(dual, primal).sum() + 1.5 * len(fixed) * k**2)


def _product_rate(threads: int) -> float:
    left, right = np.random.default_rng(0).random((2, _PRODUCT, _PRODUCT), np.float32)
    out = np.empty_like(left)
    with threadpool_limits(threads, "blas"):
        return _PRODUCT**3 / _best_seconds(lambda: np.matmul(left, right, out=out))


def _copy_rate(threads: int) -> float:
    source, target = np.ones((2, _COPIED), np.uint8)
    parts = list(zip(*(np.array_split(a, threads) for a in (target, source)), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        seconds = _best_seconds(lambda: list(pool.map(np.copyto, *zip(*parts, strict=True))))
    return 2 * _COPIED / seconds


def _best_seconds(work: Callable[[], Any]) -> float:
    def once() -> float:
        began = perf_counter()
        work()
        return perf_counter() - began

    return min(once() for _ in range(_TRIALS))
