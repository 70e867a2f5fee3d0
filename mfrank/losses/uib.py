"""UIB (Zhuo et al. 2022): a learned boundary per user between positives and negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.arrays import Array, check_above_zero, check_at_least_zero
from mfrank.losses.contract import Gradients, Lists, Loss, Memory, Sizes, count_filled, where_filled


@dataclass(frozen=True)
class UIB(Loss):
    """Mean over positives of phi(b_u - h_i) plus mean over negatives of phi(h_j - b_u).

    phi(x) = max(0, margin + x). Each user's boundary b_u starts at 0. Every batch with the user
    updates it by a step of plain gradient descent, after the gradients of the scores.

    Parameters
    ----------
    margin : float, default 1.0
        > 0, of the hinge. The default is from the RG2 paper's appendix B, where UIB is a baseline.
    boundary_learning_rate : float, default 0.1
        >= 0, of the boundaries; 0 leaves them at 0.
    """

    remembers_users: ClassVar[bool] = True

    margin: float = 1.0
    boundary_learning_rate: float = 0.1

    def __post_init__(self) -> None:
        check_above_zero(margin=self.margin)
        check_at_least_zero(boundary_learning_rate=self.boundary_learning_rate)

    def memory(self, sizes: Sizes) -> Memory:
        """Boundary of each user."""
        return {"boundaries": np.zeros(sizes.users)}

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`; a batch has at most one list per user."""
        boundary = memory["boundaries"][lists.users][:, None].astype(positives.dtype)
        on_positives, above = _hinges(self.margin + boundary - positives, lists.positives)
        on_negatives, below = _hinges(self.margin - boundary + negatives, lists.negatives)
        by_boundary = np.einsum("bn->b", on_positives) - np.einsum("bn->b", on_negatives)
        memory["boundaries"][lists.users] -= self.boundary_learning_rate * by_boundary
        return Gradients(-on_positives, on_negatives, above + below)


def _hinges(x: Array, filled: Array) -> tuple[Array, Array]:
    """Derivatives by x (B, N) of the mean of max(0, x) over the filled places, and that mean."""
    weight = (1 / count_filled(filled).clip(1)).astype(x.dtype)
    gradients = where_filled(filled, weight * (x > 0))
    return gradients, np.einsum("bn,bn->b", gradients, x)
