"""mfrank's losses of soft and of noisy orders once more in PyTorch; see torch_losses.py.

NeuralNDCG makes its logits as one product, scales vectors, and goes over a few lists at a time, so
that arrays of all pairs of places stay in the cache; StochasticRank looks at the first places only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from ranking_losses.torch.lists import Lists, Memory, TorchLoss
from torch import Tensor

__all__ = ["neural_ndcg", "normals", "stochastic_rank"]

_BLOCK = 8  # lists at a time: all 256 at once take three times as long


def neural_ndcg(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """NeuralNDCG()."""
    of_lists = positives, negatives, lists.filled, lists.ideal
    blocks = zip(*(part.split(_BLOCK) for part in of_lists), strict=True)
    return torch.cat([_soft_ndcg(*block) for block in blocks])


def _soft_ndcg(positives: Tensor, negatives: Tensor, there: Tensor, ideal: Tensor) -> Tensor:
    """Sinkhorn's scaling of the soft order S in vectors, diag(u) S diag(v)."""
    scores, filled = torch.cat([positives, negatives], 1), _filled(there, negatives)
    count = filled.sum(1, keepdim=True, dtype=scores.dtype)
    places = torch.arange(1, scores.shape[1] + 1, dtype=scores.dtype)
    at_places = torch.stack([count + 1 - 2 * places, torch.ones_like(scores)], 2)
    of_items = (-_distances(scores, filled)).masked_fill(~filled, -torch.inf)
    soft = (at_places @ torch.stack([scores, of_items], 1)).softmax(2)
    taken = (places <= count).to(scores.dtype)[:, None, :]
    u, padding = taken, (~filled)[:, None, :]
    for _ in range(10):
        v = 1 / (u @ soft + padding)
        u = taken / (soft @ v.mT).mT
    gains = u * (soft @ (_liked(there, negatives)[:, :, None] * v.mT)).mT
    return -(gains[:, 0] / (1 + places).log2()).sum(1) / ideal


def _distances(scores: Tensor, filled: Tensor) -> Tensor:
    """Sums over the filled places of the distances from each score."""
    ordered, order = scores.sort(1)
    weights = filled.gather(1, order).to(scores.dtype)
    below, sums = weights.cumsum(1), (weights * ordered).cumsum(1)
    distances = ordered * (2 * below - below[:, -1:]) - 2 * sums + sums[:, -1:]
    return torch.empty_like(scores).scatter(1, order, distances)


def stochastic_rank(noise: Callable[[Tensor, Memory], Tensor]) -> TorchLoss:
    """StochasticRank(), whose slopes no autograd makes: as they are written, by a noise."""
    k = 10
    discounts = 1 / torch.arange(2, k + 2, dtype=torch.float64).log2()
    heights = discounts - torch.cat([discounts[1:], torch.zeros(1)])
    ranks, places = torch.arange(k)[:, None], torch.arange(k)
    besides = places + (places >= ranks)  # places of the first k others of the item at a rank

    @torch.no_grad()
    def gradients(scores: Tensor, liked: Tensor, filled: Tensor, drawn: Tensor) -> Tensor:
        drawn, count = drawn * filled, filled.sum(1, keepdim=True, dtype=scores.dtype)
        levels, first = (scores + drawn).masked_fill(~filled, -torch.inf).topk(k + 1)
        spread = (2 * count / (count - 1)).sqrt()
        centers = (scores + (drawn.sum(1, keepdim=True) - drawn) / (count - 1)) / spread
        levels, passed = levels / spread, liked.gather(1, first)
        n_ideal = liked.sum(1, keepdim=True).long().clamp(max=k)
        ideal = discounts.to(scores.device).cumsum(0)[n_ideal - 1]
        jumps = (heights.to(scores.device) / (ideal * math.sqrt(math.pi) * spread)).to(scores.dtype)

        density = (levels[:, None, :k] - centers[:, :, None]).square_().neg_().exp_()
        on_positive, on_any = (density @ torch.stack([jumps, jumps * passed[:, :k]], 2)).unbind(2)
        own, first = passed[:, :k, None], first[:, :k]
        near = (levels[:, besides] - centers.gather(1, first)[:, :, None]).square_().neg_().exp_()
        of_first = (near * jumps[:, None] * (own - passed[:, besides])).sum(2)
        return -(liked * on_positive - on_any).scatter(1, first, of_first) * filled

    def loss(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
        scores, filled = torch.cat([positives, negatives], 1), _filled(lists.filled, negatives)
        descent = gradients(scores, _liked(lists.filled, negatives), filled, noise(scores, memory))
        return (descent * scores).sum(1)

    return loss


def normals(scores: Tensor, memory: Memory) -> Tensor:
    """Standard normal noise for scores, PyTorch's own."""
    return torch.randn_like(scores)


def _filled(there: Tensor, negatives: Tensor) -> Tensor:
    """Which places are filled, likes first."""
    return torch.cat([there, torch.ones_like(negatives, dtype=torch.bool)], 1)


def _liked(there: Tensor, negatives: Tensor) -> Tensor:
    """1 at likes that are there, else 0, of the scores' type."""
    return torch.cat([there.to(negatives.dtype), torch.zeros_like(negatives)], 1)
