"""mfrank's baselines once more in PyTorch, forward only; see torch_losses.py.

Each takes scores of likes (B, L) and others (B, M), lists and memory to a number for each user.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from ranking_losses.torch.lists import Lists, Memory
from torch import Tensor
from torch.nn.functional import softplus

from mfrank.arrays import key_of, random_units


def bpr(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """BPR()."""
    pairs = softplus(negatives[:, None, :] - positives[:, :, None])
    return (lists.positive_weights * pairs.mean(2)).sum(1)


def sampled_softmax(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """SampledSoftmax()."""
    total = (negatives - lists.log_expected_counts).logsumexp(1, keepdim=True)
    return (lists.positive_weights * softplus(total - positives)).sum(1)


def list_net(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """ListNet()."""
    unfilled = torch.where(lists.filled, positives, -torch.inf)
    total = torch.cat([unfilled, negatives], 1).logsumexp(1)
    each = math.e * lists.filled
    wanted = (each * positives).sum(1) + negatives.sum(1)
    return total - wanted / (each.sum(1) + negatives.shape[1])


def approx_ndcg(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """ApproxNDCG()."""
    to_likes = (positives[:, None, :] - positives[:, :, None]).sigmoid() * lists.filled[:, None, :]
    to_others = (negatives[:, None, :] - positives[:, :, None]).sigmoid().sum(2)
    places = 2 + to_likes.sum(2) - 0.5 * lists.filled + to_others
    return -(lists.filled / places.log2()).sum(1) / lists.ideal


def bce(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """BCE()."""
    return (lists.positive_weights * softplus(-positives)).sum(1) + softplus(negatives).mean(1)


def softmax(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """Softmax()."""
    there = torch.where(lists.filled, positives, -torch.inf)
    total = torch.cat([there, negatives], 1).logsumexp(1)
    return total - (lists.positive_weights * positives).sum(1)


def sparsemax(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """Sparsemax(): of the projection p, held fixed, p h - p^2 / 2 has its slopes."""
    scores = torch.cat([positives, negatives], 1)
    with torch.no_grad():
        there = torch.where(lists.filled, positives, -torch.inf)
        falling = torch.cat([there, negatives], 1).sort(1, descending=True).values
        finite = falling.clamp(min=torch.finfo(falling.dtype).min / falling.shape[1])
        sums = finite.cumsum(1)
        places = torch.arange(1, falling.shape[1] + 1)
        inside = (1 + places * finite > sums).sum(1, keepdim=True)
        threshold = (sums.gather(1, inside - 1) - 1) / inside
        shares = torch.cat([(there - threshold).relu(), (negatives - threshold).relu()], 1)
    kept = (shares * scores).sum(1) - (shares.square().sum(1) - 1) / 2
    return kept - (lists.positive_weights * positives).sum(1)


def list_mle(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """ListMLE(), by the same shuffles."""
    key = key_of(0, int(memory["batches"]))
    memory["batches"] += 1
    shape = tuple(positives.shape)
    units = torch.from_numpy(random_units(key, np.arange(positives.numel())))
    units = units.to(positives.device).view(shape)
    order = torch.where(lists.filled, units, 2).argsort(dim=1, stable=True)
    filled = lists.filled.gather(1, order)
    scores = torch.where(filled, positives.gather(1, order), -torch.inf)
    left = torch.logaddexp(
        scores.flip(1).logcumsumexp(1).flip(1), negatives.logsumexp(1, keepdim=True)
    )
    return torch.where(filled, left - torch.where(filled, scores, 0), 0).sum(1)


def lambda_rank(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """LambdaRank(), of likes that are worth the same."""
    with torch.no_grad():
        scores = torch.cat([torch.where(lists.filled, positives, -torch.inf), negatives], 1)
        ranks = scores.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
        discounts = 1 / (2 + ranks).to(scores.dtype).log2()
        width = positives.shape[1]
        moved = (discounts[:, :width, None] - discounts[:, None, width:]).abs()
        weights = moved * lists.filled[:, :, None] / lists.ideal[:, None, None]
    return (weights * softplus(negatives[:, None, :] - positives[:, :, None])).sum((1, 2))


def smooth_ap(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """SmoothAP()."""
    cold = 100.0
    to_likes = (cold * (positives[:, None, :] - positives[:, :, None])).sigmoid() * lists.filled[
        :, None, :
    ]
    to_others = (cold * (negatives[:, None, :] - positives[:, :, None])).sigmoid().sum(2)
    among_positives = 0.5 + to_likes.sum(2)
    return 1 - (lists.positive_weights * among_positives / (among_positives + to_others)).sum(1)


def uib(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """UIB()."""
    boundary = memory["boundaries"][lists.users][:, None]
    below, above = (1 + boundary - positives).relu(), (1 + negatives - boundary).relu()
    with torch.no_grad():
        slope = (lists.positive_weights * (below > 0)).sum(1) - (above > 0).to(above.dtype).mean(1)
        memory["boundaries"][lists.users] -= 0.1 * slope
    return (lists.positive_weights * below).sum(1) + above.mean(1)


def sml(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """SML(), without the margins' own part, which has no slope in the scores."""
    item_weight, margin_weight, rate = 0.01, 0.02, 0.1
    of_users, of_items = memory["user_margins"], memory["item_margins"]
    user_margins, item_margins = of_users[lists.users][:, None], of_items[lists.positive_items]
    near_user = (negatives[:, None, :] + (user_margins - positives)[:, :, None]).relu()
    near_item = (lists.pair_scores + (item_margins - positives)[:, :, None]).relu()
    with torch.no_grad():
        part_user, part_item = (
            (near > 0).to(positives.dtype).mean(2) for near in (near_user, near_item)
        )
        on_user = (lists.positive_weights * (part_user - margin_weight)).sum(1)
        on_item = lists.positive_weights * (item_weight * part_item - margin_weight)
        of_users.index_add_(0, lists.users, on_user, alpha=-rate).clamp_(0, 1)
        of_items.index_add_(0, lists.positive_items.ravel(), on_item.ravel(), alpha=-rate).clamp_(
            0, 1
        )
    pairs = near_user.mean(2) + item_weight * near_item.mean(2)
    return (lists.positive_weights * pairs).sum(1)
