"""Learning to rank: a linear scorer over features of documents, under any ranking loss."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.amounts import check_at_least_zero, check_count
from mfrank.data.judged import Judged, feature_matrix
from mfrank.data.scaling import Scaling
from mfrank.linear_descent import descend_linear
from mfrank.models.options import check_kind, option_classes, warn_if_slow
from mfrank.optimisers import Adam, Optimiser
from mfrank.options import Parameters, describe, restore
from mfrank.progress import follow
from mfrank.query_lists import QueryLists
from mfrank.retrieval.recommender import NotFittedError
from mfrank.seeds import Seed, generator
from mfrank.store.linear import LinearStore
from mfrank.trainers import Loss
from mfrank.trainers.list_net import ListNet

__all__ = ["LinearRanker"]

Floats = NDArray[np.float64]

_DEFAULT_LOSS, _DEFAULT_OPTIMISER = ListNet(), Adam(0.01)
_MOST_RELEVANT = 1000  # 2^1000 is a float, 2^1024 none


@dataclass(eq=False)
class LinearRanker(Parameters):
    """Scores x . w of documents with features x, fitted to judged documents by any ranking loss.

    A query's list is all of its documents: those of relevance above 0 are its likes, of gain
    2^relevance - 1. The fit skips queries with nothing relevant. Losses of binary relevance (BPR,
    SOPRC, SmoothAP, SOLC, sparsemax) take all likes as equal; the others rank likes by their grades
    too. Weights start at 0; there is no intercept, which would rank nothing.

    Parameters
    ----------
    loss : Loss, default ListNet()
        Of ``mfrank.trainers``. Where it looks at the first k places only, the ideal gain is that of
        these.
    optimiser : Optimiser, default Adam(0.01)
        Of ``mfrank.optimisers``, or ``Langevin``.
    iterations : int, default 50
        Epochs of a fit, >= 1.
    batch_size : int, default 32
        Queries of a batch, over whose losses is averaged.
    weight_decay : float, default 0.0
        >= 0, times the weights added to the slopes.
    scale : bool, default True
        Whether features are brought to mean 0 and deviation 1 of the training documents; what is
        constant there counts for nothing. Optimiser and weight decay see scaled features.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the batches. The same seed gives the same bits.

    Attributes
    ----------
    coefficients : float64, shape (n_features,)
        Weights of the features as they are given.
    history : list of dict
        Epoch, seconds and mean loss.

    Examples
    --------
    >>> features = [[1.0, 5], [0, 4], [2, 5], [1, 1]]
    >>> judged = Judged(features, relevance=[1, 0, 2, 0], queries=[1, 1, 2, 2])
    >>> ranker = LinearRanker(random_state=0).fit(judged)
    >>> ranker.rank([[0.0, 0], [3, 0], [1, 0]]).tolist()
    [1, 2, 0]
    """

    loss: Loss = _DEFAULT_LOSS
    optimiser: Optimiser = _DEFAULT_OPTIMISER
    iterations: int = 50
    batch_size: int = 32
    weight_decay: float = 0.0
    scale: bool = True
    random_state: Seed = None
    _store: LinearStore | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_kind("loss", self.loss, Loss, "mfrank.ListNet()")
        check_kind("optimiser", self.optimiser, Optimiser, "mfrank.Adam(0.01)")
        if self.loss.between:
            raise ValueError(
                f"loss {type(self.loss).__name__} is of distances between items, which documents "
                "have no factors for; take another, such as mfrank.ListNet()"
            )
        for name in ("iterations", "batch_size"):
            check_count(name, getattr(self, name), 1)
        check_at_least_zero(weight_decay=self.weight_decay)
        if not isinstance(self.scale, bool):
            raise TypeError(f"scale must be True or False, got {self.scale!r}")
        generator(self.random_state)

    def fit(
        self,
        judged: Judged,
        *,
        start: ArrayLike | None = None,
        callback: Callable[[int, float, float | None], object] | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit to judged documents.

        Parameters
        ----------
        judged : Judged
        start : array-like, shape (n_features,), optional
            Coefficients to go on from, such as another ranker's; default 0.
        callback : function, optional
            Called after every epoch with its number from 0, its seconds and the mean loss. This
            ranker already holds the epoch's weights. A true result stops the fit.
        show_progress : bool, default False
            Show epochs and time left on stderr.

        Raises
        ------
        TypeError, ValueError
            Before any work: nothing is relevant, relevance is beyond what gains 2^relevance - 1 can
            tell apart, or a start that does not fit.
        FloatingPointError
            The fit diverges. The ranker keeps the last complete epoch.
        """
        self.__post_init__()
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function or None, got {callback!r}")
        queries = _query_lists(judged, self.loss)
        warn_if_slow()
        scaling = Scaling.of(judged.features) if self.scale else Scaling.none(judged.n_features)
        steps = descend_linear(
            scaling.apply(judged.features),
            queries,
            self.loss,
            _first_weights(start, scaling),
            self.optimiser,
            iterations=self.iterations,
            batch_size=self.batch_size,
            decay=self.weight_decay,
            random=generator(self.random_state),
        )
        history: list[dict[str, float | int | None]] = []
        for step in follow(steps, self.iterations) if show_progress else steps:
            history.append(step.record())
            self._store = LinearStore(step.user_factors[0], scaling, describe(self), tuple(history))
            if callback and callback(step.epoch - 1, step.seconds, step.objective):
                break
        return self

    @property
    def store(self) -> LinearStore:
        """The fitted weights with their scaling and history."""
        if self._store is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._store

    @property
    def coefficients(self) -> Floats:
        """Weights of the features as they are given, float64, shape (n_features,)."""
        return self.store.coefficients

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record an epoch."""
        return [dict(record) for record in self.store.history]

    def score(self, features: Judged | ArrayLike) -> Floats:
        """Scores of documents, shape (n_documents,); they compare within a query only.

        Parameters
        ----------
        features : Judged, or array-like of shape (n_documents, n_features)
        """
        coefficients = self.coefficients
        given = features.features if isinstance(features, Judged) else feature_matrix(features)
        if given.shape[1] != len(coefficients):
            raise ValueError(
                f"features must have the fit's {len(coefficients)} columns, got shape {given.shape}"
            )
        scores: Floats = given @ coefficients - self.store.scaling.means @ coefficients
        return scores

    def rank(self, features: ArrayLike) -> NDArray[np.int64]:
        """One query's documents, the best first, as rows of ``features``; ties by lower row."""
        return np.argsort(-self.score(features), kind="stable")

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save as a folder of arrays with a manifest, in place of a ranker saved there.

        Whatever happens, the folder holds either the old ranker or the new one; nothing is pickled.

        Raises
        ------
        ValueError
            The folder holds anything else.
        """
        return self.store.save(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> Self:
        """Load what :meth:`save` saved; ``verify`` compares every file with its checksum.

        Raises
        ------
        FileNotFoundError, ValueError
            There is no such folder; or it holds something else, or is damaged.
        """
        store = LinearStore.load(folder, verify=verify)
        try:
            ranker: Self = restore(store.fitter, {cls.__name__: cls, **option_classes()})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the options saved in {folder} are damaged: {error}") from error
        ranker._store = store
        return ranker


def _query_lists(judged: Judged, loss: Loss) -> QueryLists:
    """Lists of the queries, if a fit can learn from them."""
    if not isinstance(judged, Judged):
        raise TypeError(
            f"judged must be a mfrank.Judged(features, relevance, queries), got {judged!r}"
        )
    most = judged.relevance.max()
    if most == 0:
        raise ValueError("no document is relevant: relevance must be above 0 for some")
    if most > _MOST_RELEVANT:
        raise ValueError(
            f"relevance must be at most {_MOST_RELEVANT}, as gains are 2^relevance - 1; got "
            f"{most:g}: turn counts into grades, such as 0 to 4"
        )
    cutoff = getattr(loss, "k", None)
    return QueryLists(judged.relevance, judged.query_rows, judged.n_queries, cutoff)


def _first_weights(start: ArrayLike | None, scaling: Scaling) -> Floats:
    """Weights of scaled features that give the coefficients, shape (1, n_features)."""
    n_features = len(scaling.factors)
    if start is None:
        return np.zeros((1, n_features))
    given = np.asarray(start, dtype=np.float64)
    if given.shape != (n_features,) or not np.isfinite(given).all():
        raise ValueError(
            f"start must be {n_features} finite coefficients, such as another ranker's; got shape "
            f"{given.shape}"
        )
    varies = scaling.factors > 0
    return np.where(varies, given / np.where(varies, scaling.factors, 1), 0)[None]
