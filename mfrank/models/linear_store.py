"""The arrays of a fitted linear scorer, saved as a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.scaling import Scaling
from mfrank.files.folder import read, write
from mfrank.files.manifest import Contents, Format, check_keys
from mfrank.files.regular import path_of
from mfrank.store.checks import check_finite, fitter_of, history_of

__all__ = ["FORMAT", "LinearStore"]

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
        Columns of the fit's features, if these were a table.
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
        """Save atomically, replacing a scorer saved there; nothing is pickled.

        Raises
        ------
        ValueError
            Before anything is written: a number is not finite, or the folder contains anything but
            a saved scorer.
        """
        arrays = {
            "weights": self.weights,
            "means": self.scaling.means,
            "factors": self.scaling.factors,
        }
        _check(arrays, "the ranker cannot be saved")
        history = list(history_of(self.history))
        metadata: dict[str, Any] = {"fitter": fitter_of(self.fitter), "history": history}
        if self.feature_names is not None:
            metadata["feature_names"] = list(self.feature_names)
        write(path_of(folder), Contents(arrays, metadata), FORMAT)
        return path_of(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> LinearStore:
        """Load a scorer saved by :meth:`save`; ``verify`` checks the checksum of every file.

        Raises
        ------
        FileNotFoundError, ValueError
            The folder does not exist, contains something else, or is damaged.
        """
        contents = read(path_of(folder), FORMAT, verify=verify)
        arrays, metadata = contents.arrays, dict(contents.metadata)
        names = metadata.pop("feature_names", None)
        check_keys(f"metadata of {folder}", metadata, {"fitter", "history"})
        check_keys(folder, arrays, {"weights", "means", "factors"})
        _check(arrays, f"{folder} is damaged")
        scaling = Scaling(arrays["means"], arrays["factors"])
        try:
            fitter = fitter_of(metadata["fitter"])
            history = history_of(metadata["history"])
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{folder} is damaged: {error}") from error
        if names is not None:
            sound = isinstance(names, list) and all(isinstance(name, str) for name in names)
            if not sound or len(names) != len(arrays["weights"]):
                raise ValueError(f"{folder} is damaged: feature_names must name each weight")
        return cls(
            arrays["weights"], scaling, fitter, history, None if names is None else tuple(names)
        )


def _check(arrays: Mapping[str, NDArray[Any]], problem: str) -> None:
    """Raise ValueError, with ``problem``, unless all arrays are finite float64 of one length."""
    for name, array in arrays.items():
        has_length = array.ndim == 1 and array.shape == arrays["weights"].shape
        if not has_length or array.dtype != np.float64:
            raise ValueError(f"{problem}: {name} must be float64, one for each weight")
        check_finite(f"{problem}: {name}", array)
