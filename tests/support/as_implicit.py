"""A pytest plugin that puts mfrank behind implicit's ALS, for implicit's own tests.

The adapter renames options and passes the rest on; it hides no difference in behavior.
"""

from __future__ import annotations

from typing import Any

import implicit.als
import numpy as np

import mfrank


class AlternatingLeastSquares:
    """implicit's constructor and ``fit`` over a ``mfrank.ALS``; all else is the model's."""

    def __init__(
        self,
        factors: int = 100,
        regularization: float = 0.01,
        alpha: float = 1.0,
        dtype: Any = np.float32,
        use_native: bool = True,
        use_cg: bool = True,
        use_gpu: bool = False,
        iterations: int = 15,
        calculate_training_loss: bool = False,
        num_threads: int = 0,
        random_state: Any = None,
    ) -> None:
        self.model = mfrank.ALS(
            mfrank.WRMF(alpha=alpha, regularization=regularization),
            factors=factors,
            iterations=iterations,
            solver="cg" if use_cg else "cholesky",
            dtype=np.dtype(dtype).name,
            random_state=random_state,
            n_threads=num_threads,
            track_objective=calculate_training_loss,
        )

    def fit(self, user_items: Any, show_progress: bool = True, callback: Any = None) -> None:
        """Fit; the progress bar is off, as in all of implicit's tests."""
        self.model.fit(user_items, callback=callback)

    def load(self, file: Any) -> Any:
        """The ``load`` of implicit is a class method of the model."""
        return mfrank.load(file)

    def __getattr__(self, name: str) -> Any:
        if name == "model":  # while pickle makes an object without __init__
            raise AttributeError(name)
        return getattr(self.model, name)


implicit.als.AlternatingLeastSquares = AlternatingLeastSquares
