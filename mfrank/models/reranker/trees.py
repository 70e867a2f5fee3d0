"""A thin interface to CatBoost, with arrays and bytes as inputs and outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import needs
from mfrank.errors import InputValueError


@dataclass(frozen=True, slots=True)
class Growth:
    """CatBoost options, named as in :class:`mfrank.models.reranker.reranker.Reranker`."""

    loss: str
    iterations: int
    learning_rate: float
    depth: int
    seed: int
    n_threads: int


def check(growth: Growth) -> None:
    """Check the options by training one tree on four rows, before the expensive work.

    Raises
    ------
    ModuleNotFoundError
        The package catboost is not installed.
    ValueError
        CatBoost refuses the loss, its parameters, the learning rate or the depth.
    """
    features = np.array([[0], [1], [0], [1]], dtype=np.float32)
    alternating, groups = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    try:
        grow(replace(growth, iterations=1), features, alternating, groups, ["feature"])
    except _catboost().CatBoostError as error:
        raise InputValueError(
            f"CatBoost refuses `loss`, `learning_rate` or `depth`: got loss={growth.loss!r}, "
            f"learning_rate={growth.learning_rate}, depth={growth.depth}; CatBoost says: {error}"
        ) from None


def grow(
    growth: Growth,
    features: NDArray[np.float32],
    labels: NDArray[Any],
    groups: NDArray[np.int64],
    names: Sequence[str],
) -> Any:
    """Fit CatBoost to pairs and return its model.

    Parameters
    ----------
    growth : Growth
    features : float32, shape (pairs, features)
    labels : bool or 0 and 1, shape (pairs,)
        Whether the pair's item is relevant.
    groups : int64, shape (pairs,)
        The pair's user; the pairs of a user must be consecutive.
    names : sequence of str
        Names of the features.
    """
    catboost = _catboost()
    pool = catboost.Pool(
        features, labels.astype(np.float32), group_id=groups, feature_names=list(names)
    )
    trees = catboost.CatBoost(
        {
            "loss_function": growth.loss,
            "iterations": growth.iterations,
            "learning_rate": growth.learning_rate,
            "depth": growth.depth,
            "random_seed": growth.seed,
            "thread_count": growth.n_threads or -1,
            "allow_writing_files": False,  # otherwise it leaves a folder in the working directory
            "metric_period": growth.iterations,  # the metric is not used and costs time
            "logging_level": "Silent",
        }
    )
    return trees.fit(pool)


def scores(trees: Any, features: NDArray[np.float32], n_threads: int) -> NDArray[np.float64]:
    """Scores of pairs, float64, shape (pairs,)."""
    predicted: NDArray[np.float64] = trees.predict(features, thread_count=n_threads or -1)
    return predicted


def shares(trees: Any, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """SHAP values of pairs, shape (pairs, features + 1): each row sums to its score."""
    pool = _catboost().Pool(features, feature_names=trees.feature_names_)
    values: NDArray[np.float64] = trees.get_feature_importance(
        pool, type="ShapValues", thread_count=1
    )
    return values


def to_bytes(trees: Any) -> NDArray[np.uint8]:
    """The trees as the bytes of CatBoost's own model file (cbm)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trees.cbm"
        trees.save_model(str(file), format="cbm")
        return np.fromfile(file, dtype=np.uint8)


def from_bytes(cbm: NDArray[np.uint8], names: Sequence[str]) -> Any:
    """Read the trees from the bytes of CatBoost's own model file (cbm).

    Raises
    ------
    ModuleNotFoundError
        The package catboost is not installed.
    ValueError
        The bytes are not such a file, or the trees were trained on other features than ``names``.
    """
    catboost = _catboost()
    try:
        trees = catboost.CatBoost().load_model(blob=cbm.tobytes())
    except catboost.CatBoostError as error:
        raise ValueError(f"CatBoost cannot read the trees: {error}") from None
    if list(trees.feature_names_) != list(names):
        raise ValueError(f"the trees were trained on {trees.feature_names_}, not on {list(names)}")
    return trees


def _catboost() -> Any:
    with needs("rerank", "re-ranking needs the package catboost"):
        import catboost
    return catboost
