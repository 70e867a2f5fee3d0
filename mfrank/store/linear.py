"""A fitted linear scorer as arrays, saved as a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.scaling import Scaling
from mfrank.store.checks import fitter_of, history_record
from mfrank.store.folder import read, write
from mfrank.store.manifest import Contents, Format, check_keys

__all__ = ["FORMAT", "LinearStore"]

FORMAT = Format("mfrank.linear_ranker", version=1)


@dataclass(frozen=True, eq=False)
class LinearStore:
    """Weights w of scaled features: a document scores scaled(x) . w.

    Attributes
    ----------
    weights : float64, shape (n_features,)
    scaling : Scaling
    fitter : mapping
        Name and options of what fitted them, as JSON.
    history : sequence of mappings
        One record an epoch.
    """

    weights: NDArray[np.float64]
    scaling: Scaling
    fitter: Mapping[str, Any]
    history: Sequence[Mapping[str, float | int | None]]

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """Weights of the features as they are given."""
        return self.weights * self.scaling.factors

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Save in place of a scorer saved there, whole or not at all; nothing is pickled."""
        arrays = {
            "weights": self.weights,
            "means": self.scaling.means,
            "factors": self.scaling.factors,
        }
        history = [history_record(record) for record in self.history]
        metadata = {"fitter": fitter_of(self.fitter), "history": history}
        write(Path(folder), Contents(arrays, metadata), FORMAT)
        return Path(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, verify: bool = False) -> LinearStore:
        """Load what :meth:`save` saved; ``verify`` compares every file with its checksum."""
        contents = read(Path(folder), FORMAT, verify=verify)
        check_keys(f"metadata of {folder}", contents.metadata, {"fitter", "history"})
        arrays = contents.arrays
        check_keys(folder, arrays, {"weights", "means", "factors"})
        one_length = len({array.shape for array in arrays.values()}) == 1
        if not one_length or arrays["weights"].ndim != 1:
            raise ValueError(f"{folder} is damaged: its arrays must be of one length")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError(f"{folder} is damaged: its numbers must be finite")
        scaling = Scaling(arrays["means"], arrays["factors"])
        return cls(arrays["weights"], scaling, **contents.metadata)
