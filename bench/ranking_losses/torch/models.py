"""Factors of users and items in PyTorch, and their scores, in one of three ways.

sparse   nn.Embedding(sparse=True) of the drawn items, SparseAdam
dense    nn.Embedding of the drawn items, fused Adam over all rows
product  one matrix product for all items, of which those drawn are gathered; fused Adam
"""

from __future__ import annotations

import torch
from ranking_losses.torch.lists import NOTHING
from torch import Tensor, nn
from torch.nn.functional import embedding, normalize

from mfrank.losses import Scores

__all__ = ["MODELS", "WAYS", "Model", "adam"]

WAYS = "sparse", "dense", "product"


class Model(nn.Module):
    """Dot products."""

    def __init__(self, n_users: int, n_items: int, factors: int, way: str) -> None:
        super().__init__()
        self.users, self.items = (
            nn.Embedding(rows, factors, sparse=way == "sparse") for rows in (n_users, n_items)
        )
        self._way = way
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)
        self.project_rows()

    def forward(
        self, users: Tensor, items: Tensor, n_positives: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of each user's first items, of the others, and of the first against the others.

        The last are empty but for distances.
        """
        queries = self._scaled(self.users(users))
        if self._way == "product":
            scores = (queries @ self._scaled(self.items.weight).T).gather(1, items)
        else:
            scores = torch.bmm(self._scaled(self.items(items)), queries[:, :, None])[:, :, 0]
        return scores[:, :n_positives], scores[:, n_positives:], NOTHING

    def project_rows(self) -> None:
        """Draw rows back to where they are kept."""

    def _scaled(self, rows: Tensor) -> Tensor:
        return rows


class Cosine(Model):
    """Dot products of rows that are divided by their lengths."""

    def _scaled(self, rows: Tensor) -> Tensor:
        return normalize(rows, dim=-1)


class Distance(Model):
    """Squared distances, negative, of rows in the unit ball: (p, 1) . (2 q, -|q|^2) - |p|^2."""

    def forward(
        self, users: Tensor, items: Tensor, n_positives: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See :meth:`Model.forward`; users and likes ask at once, so that others are met once."""
        rows = torch.cat([self.users(users)[:, None], self.items(items[:, :n_positives])], 1)
        asking = torch.cat([rows, torch.ones_like(rows[:, :, :1])], 2)
        if self._way == "product":
            every = asking @ self._answers(self.items.weight).T
            products = every.gather(2, items[:, None].expand(-1, 1 + n_positives, -1))
        elif self._way == "dense":
            products = asking @ embedding(items, self._answers(self.items.weight)).mT
        else:
            products = asking @ self._answers(self.items(items)).mT
        scores = products - rows.square().sum(2, keepdim=True)
        return scores[:, 0, :n_positives], scores[:, 0, n_positives:], scores[:, 1:, n_positives:]

    def project_rows(self) -> None:
        """See :meth:`Model.project_rows`."""
        with torch.no_grad():
            for table in (self.users.weight, self.items.weight):
                table.renorm_(2, 0, 1)

    def _answers(self, rows: Tensor) -> Tensor:
        return torch.cat([2 * rows, -rows.square().sum(-1, keepdim=True)], -1)


MODELS: dict[Scores, type[Model]] = {"dot": Model, "cosine": Cosine, "distance": Distance}


def adam(model: Model, way: str) -> torch.optim.Optimizer:
    """Adam as the way asks for it, at mfrank's learning rate."""
    if way == "sparse":
        return torch.optim.SparseAdam(model.parameters(), lr=1e-3)
    return torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
