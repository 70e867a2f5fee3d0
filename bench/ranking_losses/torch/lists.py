"""What a loss of PyTorch sees of a batch: as mfrank's, in tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["NOTHING", "Lists", "Memory", "TorchLoss"]

NOTHING = torch.empty(0)


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """As :class:`mfrank.losses.Lists`, in tensors; ``filled`` marks the likes that are there."""

    filled: Tensor
    n_positives: Tensor
    n_items: int
    ideal: Tensor
    cells: Tensor
    users: Tensor
    log_expected_counts: Tensor
    positive_items: Tensor
    pair_scores: Tensor = field(default_factory=lambda: NOTHING)

    @property
    def positive_weights(self) -> Tensor:
        """Part of its user's liked places that each like is."""
        return self.filled / self.filled.sum(1, keepdim=True)


Memory = dict[str, Tensor]
TorchLoss = Callable[[Tensor, Tensor, Lists, Memory], Tensor]
"""Scores of likes (B, L) and others (B, M), lists and memory to a number for each user."""
