"""Learning to rank: a linear scorer over features of documents, under any ranking loss."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Seed,
    check_at_least_zero,
    check_count,
    check_flags,
    check_instance,
    floats_of,
    generator,
    in_turn,
    progress_bar,
    refuse_labels,
)
from mfrank.data import Judged, Scaling, feature_matrix, feature_names
from mfrank.descent import Adam, Optimizer, QueryLists, descend_linear
from mfrank.errors import InputValueError, unreadable
from mfrank.files import Contents, Format, check_keys, path_of, read, write
from mfrank.losses import ListNet, Loss
from mfrank.models.factor_model import Callback, after_epoch, note
from mfrank.models.options import OPTION_KINDS, check_kind, option_classes, warn_if_slow
from mfrank.models.parameters import FitFacts, Parameters, describe, restore
from mfrank.retrieval import NotFittedError
from mfrank.store import IMPORTED, OwnClasses, check_finite, fitter_of, history_of

# The arrays of a fitted linear scorer, saved as a folder.


FORMAT = Format("mfrank.linear_ranker", version=1)


@dataclass(frozen=True, eq=False)
class LinearStore:
    """Weights w of the scaled features: the score of a document is scaled(x) . w.

    Attributes
    ----------
    weights : float64, shape (n_features,)
    scaling : Scaling
    fitter : mapping
        Name and options of the estimator, as JSON.
    history : sequence of mappings
        One record per epoch.
    feature_names : tuple of str, or None
        Columns of the fit's features, if they were a table.
    """

    weights: NDArray[np.float64]
    scaling: Scaling
    fitter: Mapping[str, Any]
    history: Sequence[Mapping[str, float | int | None]]
    feature_names: tuple[str, ...] | None = None

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """Weights of the unscaled features, float64, shape (n_features,)."""
        return self.weights * self.scaling.factors

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save atomically, replacing an older scorer; nothing is pickled.

        Raises
        ------
        ValueError
            Before anything is written: a number is not finite, or the folder contains something
            other than a saved scorer.
        """
        arrays = {
            "weights": self.weights,
            "means": self.scaling.means,
            "factors": self.scaling.factors,
        }
        try:
            _check(arrays)
        except ValueError as error:
            raise unreadable("the ranker", "cannot be saved", error, "") from None
        history = list(history_of(self.history))
        metadata: dict[str, Any] = {"fitter": fitter_of(self.fitter), "history": history}
        if self.feature_names is not None:
            metadata["feature_names"] = list(self.feature_names)
        write(path_of(folder, "folder"), Contents(arrays, metadata), FORMAT)
        return path_of(folder, "folder")

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> LinearStore:
        """Load a scorer saved by :meth:`save`; ``verify`` checks the checksum of every file.

        Raises
        ------
        FileNotFoundError, ValueError
            The folder does not exist, contains something else, or is damaged.
        """
        contents = read(path_of(folder, "folder"), FORMAT, verify=verify)
        arrays, metadata = contents.arrays, dict(contents.metadata)
        names = metadata.pop("feature_names", None)
        check_keys(f"metadata of {folder}", metadata, {"fitter", "history"})
        check_keys(folder, arrays, {"weights", "means", "factors"})
        scaling = Scaling(arrays["means"], arrays["factors"])
        try:
            _check(arrays)
            fitter = fitter_of(metadata["fitter"])
            history = history_of(metadata["history"])
        except (AttributeError, TypeError, ValueError) as error:
            raise unreadable(folder, "is damaged", error) from error
        if names is not None:
            sound = isinstance(names, list) and all(isinstance(name, str) for name in names)
            if not sound or len(names) != len(arrays["weights"]):
                raise unreadable(folder, "is damaged", "`feature_names` must name each weight")
        return cls(
            arrays["weights"], scaling, fitter, history, None if names is None else tuple(names)
        )


def _check(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless all arrays are finite float64 of one length."""
    for name, array in arrays.items():
        has_length = array.ndim == 1 and array.shape == arrays["weights"].shape
        if not has_length or array.dtype != np.float64:
            raise InputValueError(f"`{name}` must be float64, one for each weight")
        check_finite(name, array)


Floats = NDArray[np.float64]

_DEFAULT_LOSS, _DEFAULT_OPTIMIZER = ListNet(), Adam(0.01)
_MOST_RELEVANT = 1000  # 2^1000 fits in a float64, 2^1024 does not


@dataclass(eq=False, repr=False)
class LinearRanker(Parameters):
    """A linear scorer x . w of document features x, fitted to judged documents by a ranking loss.

    A query's list consists of all its documents. Documents with relevance above 0 are its
    positives, with gain 2^relevance - 1; queries without positives are skipped. Losses for binary
    relevance (BPR, SOPRC, SmoothAP, SOLC, sparsemax) treat all positives as equal; other losses
    also rank the positives by grade. Weights start at 0. There is no intercept, because it does not
    affect rankings.

    Parameters
    ----------
    loss : Loss, default ListNet()
        Any loss of ``mfrank.losses`` except SML, or your own. If it has a cutoff k, the ideal gain
        covers the first k positions.
    optimizer : Optimizer, default Adam(0.01)
        An optimizer of ``mfrank.descent.optimizers``, or ``Langevin``.
    iterations : int, default 50
        Epochs of a fit, >= 1.
    batch_size : int, default 32
        Queries per batch, >= 1; the batch loss is their mean.
    weight_decay : float, default 0.0
        >= 0. Multiple of the weights that is added to their gradient.
    scale : bool, default True
        Whether to scale features to mean 0 and standard deviation 1 over the training documents;
        constant features are then ignored. The optimizer and weight decay apply to the weights of
        the scaled features.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the batches. The same seed gives the same bits.

    Attributes
    ----------
    coefficients : float64, shape (n_features,)
        Weights of the unscaled features.
    history : list of dict
        Epoch, seconds and mean loss of each epoch.

    Examples
    --------
    >>> features = [[1.0, 5], [0, 4], [2, 5], [1, 1]]
    >>> judged = Judged(features, relevance=[1, 0, 2, 0], queries=[1, 1, 2, 2])
    >>> ranker = LinearRanker(random_state=0).fit(judged)
    >>> ranker.rank([[0.0, 0], [3, 0], [1, 0]]).tolist()
    [1, 2, 0]
    """

    loss: Loss = _DEFAULT_LOSS
    optimizer: Optimizer = _DEFAULT_OPTIMIZER
    iterations: int = 50
    batch_size: int = 32
    weight_decay: float = 0.0
    scale: bool = True
    random_state: Seed = None
    _store: LinearStore | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_kind("loss", self.loss, Loss, "mfrank.ListNet()")
        check_kind("optimizer", self.optimizer, Optimizer, "mfrank.Adam(0.01)")
        if self.loss.pair_scores:
            raise InputValueError(
                f"loss {type(self.loss).__name__} needs distances between item factors, which "
                "documents do not have",
                "use another, such as `mfrank.ListNet()`",
            )
        for name in ("iterations", "batch_size"):
            check_count(name, getattr(self, name), 1)
        check_at_least_zero(weight_decay=self.weight_decay)
        check_flags(scale=self.scale)
        generator(self.random_state)

    @in_turn
    def fit(
        self,
        judged: Judged,
        *,
        start: ArrayLike | None = None,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit to judged documents.

        Parameters
        ----------
        judged : Judged
        start : array-like, shape (n_features,), optional
            Initial coefficients, such as another ranker's; default 0.
        callback : function, optional
            Called after every epoch with the epoch (from 0), its seconds and the mean loss. The
            ranker has the epoch's weights by then. Returning true stops the fit.
        show_progress : bool, default False
            Show epochs and the remaining time on stderr.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            Before any work: no document is relevant, a relevance is above 1000 (gains are
            2^relevance - 1), or ``start`` has the wrong shape or is not finite.
        FloatingPointError
            The fit diverges. The ranker has the last complete epoch.
        """
        self.__post_init__()
        after = after_epoch(callback)
        queries = _query_lists(judged, self.loss)
        warn_if_slow()
        scaling = Scaling.of(judged.features) if self.scale else Scaling.none(judged.n_features)
        steps = descend_linear(
            scaling.apply(judged.features),
            queries,
            self.loss,
            _first_weights(start, scaling),
            self.optimizer,
            iterations=self.iterations,
            batch_size=self.batch_size,
            decay=self.weight_decay,
            random=generator(self.random_state),
        )
        history: list[dict[str, float | int | None]] = []
        with progress_bar(self.iterations, "fit", "epoch", shown=show_progress) as advance:
            for step in steps:
                advance(1, note(step.objective))
                history.append(step.record())
                self._store = LinearStore(
                    step.user_factors[0],
                    scaling,
                    describe(self),
                    tuple(history),
                    judged.feature_names,
                )
                if after and after(step.epoch - 1, step.seconds, step.objective, None):
                    break
        return self

    @property
    def store(self) -> LinearStore:
        """The fitted weights with their feature scaling and history."""
        if self._store is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._store

    @property
    def coefficients(self) -> Floats:
        """Weights of the unscaled features, float64, shape (n_features,)."""
        return self.store.coefficients

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per epoch."""
        return [dict(record) for record in self.store.history]

    def score(self, features: Judged | ArrayLike) -> Floats:
        """Score documents, float64, shape (n_documents,); comparable only within a query.

        Parameters
        ----------
        features : Judged, or array-like of shape (n_documents, n_features)
            Columns of a table are matched by their names in the fit.

        Raises
        ------
        ValueError, TypeError
            ``features`` are not finite numbers, or have other columns than the fit.
        """
        coefficients = self.coefficients
        if isinstance(features, Judged):
            given, names = features.features, features.feature_names
        else:
            given, names = feature_matrix(features), feature_names(features)
        if given.shape[1] != len(coefficients):
            raise InputValueError(
                f"`features` must have the fit's {len(coefficients)} columns, got shape "
                f"{given.shape}"
            )
        if names is not None:
            given = given[:, _columns(names, self.store.feature_names)]
        scores: Floats = given @ coefficients - self.store.scaling.means @ coefficients
        return scores

    def rank(self, features: ArrayLike) -> NDArray[np.int64]:
        """Rank one query's documents: rows of ``features``, best first, ties by lower row."""
        return np.argsort(-self.score(features), kind="stable")

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save as a folder of arrays with a manifest, replacing an older ranker.

        The save is atomic: the folder has either the old ranker or the new one. Nothing is pickled.

        Raises
        ------
        ValueError
            A weight is not finite, the loss could not be loaded again, or the folder contains
            something other than a saved ranker.
        """
        store = self.store
        try:
            self._restored(store, IMPORTED)
        except ValueError as error:
            raise unreadable(
                "the ranker", "cannot be saved, because it could not be loaded", error, ""
            ) from error
        self._tell_set_since(store.fitter)
        return store.save(folder)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        verify: bool = False,
        classes: Iterable[type] = (),
        trust: bool = False,
    ) -> Self:
        """Load a ranker saved by :meth:`save`; ``verify`` checks the checksum of every file.

        ``classes`` and ``trust`` are as in :func:`mfrank.load`.

        Raises
        ------
        FileNotFoundError, ValueError
            The folder does not exist, contains something else, or is damaged; or the loss is a
            class that may not be imported.
        """
        own = OwnClasses.of(classes, trust, folder)
        store = LinearStore.load(folder, verify=verify)
        try:
            return cls._restored(store, own)
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(
                f"the options saved in {folder}", "cannot be restored", error, "fit it again"
            ) from error

    @classmethod
    def _restored(cls, store: LinearStore, own: OwnClasses) -> Self:
        known = {cls.__name__: cls, **option_classes()}
        ranker: Self = restore(store.fitter, known, OPTION_KINDS, own)
        ranker._store = store
        return ranker

    def _fit_told(self) -> FitFacts | None:
        if self._store is None:
            return None
        return FitFacts(f"{len(self._store.weights):,} features", self._store.history)


def _query_lists(judged: Judged, loss: Loss) -> QueryLists:
    """The queries' lists; raise if a fit cannot learn from them."""
    check_instance(
        "judged", judged, Judged, "a Judged, such as Judged(features, relevance, queries)"
    )
    most = judged.relevance.max()
    if most == 0:
        raise InputValueError("no document is relevant: `relevance` must be above 0 for some")
    if most > _MOST_RELEVANT:
        raise InputValueError(
            f"`relevance` must be at most {_MOST_RELEVANT}, as gains are 2^relevance - 1; got "
            f"{most:g}:",
            "turn counts into grades, such as 0 to 4",
        )
    return QueryLists(judged.relevance, judged.query_rows, judged.n_queries, loss.cutoff)


def _columns(names: tuple[str, ...], known: tuple[str, ...] | None) -> list[int]:
    """Where each column of the fit is in a table with these names."""
    if known is None:
        raise InputValueError(
            f"`features` are a table with columns {', '.join(names[:5])}, and those of the fit "
            "had no names:",
            "pass features.to_numpy() if its columns have their order",
        )
    if set(names) != set(known):
        lacks, extra = (sorted(set(a) - set(b)) for a, b in ((known, names), (names, known)))
        told = f"they lack {lacks[0]!r}" if lacks else f"they also have {extra[0]!r}"
        raise InputValueError(f"`features` must have the columns of the fit; {told}")
    return [names.index(name) for name in known]


def _first_weights(start: ArrayLike | None, scaling: Scaling) -> Floats:
    """Weights of the scaled features that correspond to ``start``, shape (1, n_features)."""
    n_features = len(scaling.factors)
    if start is None:
        return np.zeros((1, n_features))
    refuse_labels("start", start, "bring it into the order of the features")
    given = floats_of("start", start)
    if given.shape != (n_features,) or not np.isfinite(given).all():
        raise InputValueError(
            f"`start` must be {n_features} finite coefficients, such as another ranker's; got "
            f"shape {given.shape}"
        )
    varies = scaling.factors > 0
    with np.errstate(over="ignore"):
        weights = np.where(varies, given / np.where(varies, scaling.factors, 1), 0)
        length = (weights**2).sum()  # what a fit must keep finite
    if not np.isfinite(length):
        raise InputValueError(
            "`start` has coefficients so large that scores overflow", "scale them down"
        )
    return weights[None]
