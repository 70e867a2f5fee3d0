"""UIB (Zhuo et al. 2022): a boundary of each user between what it likes and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mfrank.amounts import check_above_zero, check_at_least_zero
from mfrank.lists import Array, Lists, count_filled, where_filled
from mfrank.trainers import Loss, Memory, Sizes, Slopes

__all__ = ["UIB"]


@dataclass(frozen=True)
class UIB(Loss):
    """Mean over likes of phi(b_u - h_i) plus that over others of phi(h_j - b_u).

    phi(x) = max(0, margin + x). The boundary b_u begins at 0, is remembered by user, and takes a
    step of its own against its derivative, after the slopes, in every batch with its user.

    Parameters
    ----------
    margin : float, default 1.0
        Of the hinge (that of the RG2 paper's appendix B, where the boundary is a baseline).
    boundary_learning_rate : float, default 0.1
        Of plain gradient descent on the boundary; 0 leaves it at 0.
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

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`; each user stands in a batch once at most."""
        boundary = memory["boundaries"][lists.users][:, None].astype(likes.dtype)
        on_likes, above = _hinges(self.margin + boundary - likes, lists.likes)
        on_others, below = _hinges(self.margin - boundary + others, lists.others)
        by_boundary = np.einsum("bn->b", on_likes) - np.einsum("bn->b", on_others)
        memory["boundaries"][lists.users] -= self.boundary_learning_rate * by_boundary
        return Slopes(-on_likes, on_others, above + below)


def _hinges(x: Array, filled: Array) -> tuple[Array, Array]:
    """Slopes of the mean of max(0, x) over the filled places of each list (B, N), and that mean."""
    share = (1 / count_filled(filled).clip(1)).astype(x.dtype)
    slopes = where_filled(filled, share * (x > 0))
    return slopes, np.einsum("bn,bn->b", slopes, x)
