"""CatBoost, from which all that comes in and goes out is arrays and bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Growth", "check", "from_bytes", "grow", "scores", "to_bytes"]


@dataclass(frozen=True, slots=True)
class Growth:
    """How trees are grown; names as in :class:`mfrank.reranking.reranker.Reranker`."""

    loss: str
    iterations: int
    learning_rate: float
    depth: int
    seed: int
    n_threads: int


def check(growth: Growth) -> None:
    """Raise where CatBoost is missing or refuses the options, before there is anything to grow.

    Raises
    ------
    ModuleNotFoundError
        Without the package catboost.
    ValueError
        CatBoost does not know the loss, or its parameters, or takes no such tree.
    """
    features = np.array([[0], [1], [0], [1]], dtype=np.float32)
    alternating, groups = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    try:
        _grow(growth, 1, features, alternating, groups, ["feature"])
    except _catboost().CatBoostError as error:
        raise ValueError(
            f"loss, learning_rate or depth is none of CatBoost's: got loss={growth.loss!r}, "
            f"learning_rate={growth.learning_rate}, depth={growth.depth}; CatBoost says: {error}"
        ) from None


def grow(
    growth: Growth,
    features: NDArray[np.float32],
    labels: NDArray[np.bool_],
    groups: NDArray[np.int64],
    names: Sequence[str],
) -> Any:
    """Fit CatBoost to pairs, those of one group one after the other.

    Parameters
    ----------
    growth : Growth
    features : shape (pairs, features)
    labels : shape (pairs,)
        Which are relevant.
    groups : shape (pairs,)
        User of each.
    names : of the features
    """
    return _grow(growth, growth.iterations, features, labels, groups, names)


def scores(trees: Any, features: NDArray[np.float32], n_threads: int) -> NDArray[np.float64]:
    """Scores of pairs, shape (pairs,)."""
    predicted: NDArray[np.float64] = trees.predict(features, thread_count=n_threads or -1)
    return predicted


def to_bytes(trees: Any) -> NDArray[np.uint8]:
    """CatBoost's own model file (cbm)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trees.cbm"
        trees.save_model(str(file), format="cbm")
        return np.fromfile(file, dtype=np.uint8)


def from_bytes(cbm: NDArray[np.uint8], names: Sequence[str]) -> Any:
    """Trees of CatBoost's own model file, grown on features of these names.

    Raises
    ------
    ModuleNotFoundError
        Without the package catboost.
    ValueError
        It is no such file, or of other features.
    """
    catboost = _catboost()
    try:
        trees = catboost.CatBoost().load_model(blob=cbm.tobytes())
    except catboost.CatBoostError as error:
        raise ValueError(f"CatBoost cannot read the trees: {error}") from None
    if list(trees.feature_names_) != list(names):
        raise ValueError(f"the trees were grown on {trees.feature_names_}, not on {list(names)}")
    return trees


def _grow(
    growth: Growth,
    iterations: int,
    features: NDArray[np.float32],
    labels: NDArray[Any],
    groups: NDArray[np.int64],
    names: Sequence[str],
) -> Any:
    catboost = _catboost()
    pool = catboost.Pool(
        features, labels.astype(np.float32), group_id=groups, feature_names=list(names)
    )
    trees = catboost.CatBoost(
        {
            "loss_function": growth.loss,
            "iterations": iterations,
            "learning_rate": growth.learning_rate,
            "depth": growth.depth,
            "random_seed": growth.seed,
            "thread_count": growth.n_threads or -1,
            "allow_writing_files": False,  # else it leaves a folder where the process runs
            "metric_period": iterations,  # nobody reads the metric, and it costs time
            "logging_level": "Silent",
        }
    )
    return trees.fit(pool)


def _catboost() -> Any:
    try:
        import catboost
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "re-ranking needs the package catboost: pip install mfrank[rerank]"
        ) from error
    return catboost
