"""Models of other packages that rank by weights between items, as contenders of a comparison.

RP3beta is irspack's, and SANSA has a package of its own; neither is needed by anything else.
"""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import usable_cores

_CELLS_AT_ONCE = 1 << 22


class ItemWeights(ABC):
    """A model whose scores are a user's items times weights between items, by ``fit``.

    Which items users have counts, and not the values.
    """

    package: ClassVar[str]
    """What must be installed, by the name of its distribution and of its module."""

    weights: tuple[sp.csr_array, ...] = ()
    """Multiplied in turn, they are the weights, shape (n_items, n_items)."""

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the package is there."""
        return find_spec(cls.package) is not None

    def fit(
        self,
        user_items: Any,
        *,
        show_progress: bool = False,
        callback: Callable[..., object] | None = None,
    ) -> Self:
        """Fit to a matrix of users x items; the callback is called once, at the end."""
        began = perf_counter()
        self.likes = sp.csr_matrix((sp.csr_matrix(user_items) > 0).astype(np.float32))
        self.weights = tuple(map(sp.csr_array, self._weights(self.likes)))
        if callback is not None:
            callback(0, perf_counter() - began, None)
        return self

    @abstractmethod
    def _weights(self, likes: sp.csr_matrix) -> tuple[Any, ...]:
        """The weights by the package, as factors of a product."""

    def recommend(self, users: NDArray[Any], user_items: Any, N: int = 10) -> Any:
        """Ids and scores of the best items of users, without the entries of ``user_items``.

        An item without a link from the user's items is in no list: its id is -1.
        """
        seen, n_items = sp.csr_array(user_items), self.likes.shape[1]
        ids = np.full((len(users), min(N, n_items)), -1, np.int32)
        scores = np.full(ids.shape, -np.inf, np.float32)
        step = max(1, _CELLS_AT_ONCE // n_items)
        for begin in range(0, len(users), step):
            part = slice(begin, begin + step)
            found = sp.csr_array(self.likes[users[part]])
            for weights in self.weights:
                found = found @ weights
            table = found.toarray()
            table[table == 0] = -np.inf
            rows = np.repeat(np.arange(len(table)), np.diff(seen.indptr[begin : begin + step + 1]))
            own = seen.indices[seen.indptr[begin] : seen.indptr[begin + len(table)]]
            table[rows, own] = -np.inf
            best = np.argsort(-table, axis=1, kind="stable")[:, : ids.shape[1]]
            scores[part] = np.take_along_axis(table, best, axis=1)
            ids[part] = np.where(np.isneginf(scores[part]), -1, best)
        return ids, scores


@dataclass(eq=False)
class RP3beta(ItemWeights):
    """The walk of three steps of Paudel et al. (2017), by irspack.

    Attributes
    ----------
    beta : float, default 0.3
        The power of an item's popularity by which its score is divided.
    neighbors : int, default 500
        Strongest weights of each item that are kept.
    n_threads : int, default 0
    """

    beta: float = 0.3
    neighbors: int = 500
    n_threads: int = 0
    package = "irspack"

    def _weights(self, likes: sp.csr_matrix) -> tuple[Any, ...]:
        with _quiet("irspack"):
            from irspack.recommenders import RP3betaRecommender

        threads = self.n_threads or usable_cores()
        model = RP3betaRecommender(
            likes, beta=self.beta, top_k=min(self.neighbors, likes.shape[1]), n_threads=threads
        )
        return (model.learn().W,)


@dataclass(eq=False)
class SANSA(ItemWeights):
    """EASE by a sparse approximate inverse (Spisak et al. 2023), by its authors' package.

    Attributes
    ----------
    l2 : float, default 20
        Its regularization; of the scaled matrix if it is factorized incompletely.
    neighbors : int, default 100
        Weights an item, on average; the package's ``weight_matrix_density``.
    """

    l2: float = 20.0
    neighbors: int = 100
    package = "sansa"

    whole = 10_000
    """Items up to which the package factorizes the whole matrix (CHOLMOD) before it drops entries;
    beyond, it factorizes incompletely (ICF)."""

    def _weights(self, likes: sp.csr_matrix) -> tuple[Any, ...]:
        with _quiet("sansa"):
            import sansa

            n_items = likes.shape[1]
            factorizer = (
                sansa.CHOLMODGramianFactorizerConfig()
                if n_items <= self.whole
                else sansa.ICFGramianFactorizerConfig()
            )
            density = min(1.0, self.neighbors / n_items)
            config = sansa.SANSAConfig(
                self.l2, density, factorizer, sansa.UMRUnitLowerTriangleInverterConfig()
            )
            left, right = sansa.SANSA(config).fit(likes).weights
        return left, right


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without what a package logs and warns of, and what its import sets for all loggers."""
    root, own = logging.getLogger(), logging.getLogger(name)
    handlers, level = list(root.handlers), root.level
    own.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


OPPONENTS: tuple[type[ItemWeights], ...] = (RP3beta, SANSA)
