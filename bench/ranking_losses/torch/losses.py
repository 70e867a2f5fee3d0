"""mfrank's losses once more in PyTorch, forward only: slopes are autograd's, on every batch anew.

Each takes scores and gives a number for each user whose slopes are mfrank's; where a moving average
stands in for an estimate, only the slopes are, not the number. Averages are kept as mfrank keeps
them, NaN before the first. All other items of a list are there; liked ones may be padding.
"""

from __future__ import annotations

import math

import torch
from ranking_losses.torch import baselines as baselines
from ranking_losses.torch import soft_ranks as soft_ranks
from ranking_losses.torch.lists import Lists, Memory, TorchLoss
from torch import Tensor, nn

__all__ = ["LOSSES", "libauc"]


def averaged(memory: Memory, name: str, places: Tensor, new: Tensor, there: Tensor) -> Tensor:
    """Moving averages, of decay .1, with new estimates in them; kept where they are there."""
    before = memory[name][places]
    average = torch.where(before.isnan(), new, 0.9 * before + 0.1 * new)
    memory[name][places[there]] = average[there]
    return average


def hinge_means(positives: Tensor, negatives: Tensor, lists: Lists) -> Tensor:
    """SONG's g_i, stratified."""
    filled, n_positives = lists.filled, lists.n_positives[:, None]
    count = filled.sum(1, keepdim=True)
    of_positive = torch.where(count > 1, (n_positives - 1) / (count - 1).clamp(min=1), n_positives)
    of_itself = torch.where(count > 1, torch.ones_like(n_positives), n_positives)
    margins = 1 - positives[:, :, None]
    to_likes = (margins + positives[:, None, :]).relu().square() * filled[:, None, :]
    to_others = (margins + negatives[:, None, :]).relu().square().mean(2)
    on_positives = of_positive * to_likes.sum(2) + of_itself - of_positive
    sums = on_positives + (lists.n_items - n_positives) * to_others
    return torch.where(filled, sums / lists.n_items, of_itself / lists.n_items)


def rank_slopes(means: Tensor, lists: Lists, ideal: Tensor) -> Tensor:
    """Minus the derivative by g_i of what each like adds to NDCG."""
    places = 1 + lists.n_items * means
    worth = lists.positive_weights * lists.n_positives[:, None] / ideal[:, None]
    return worth * lists.n_items / (math.log(2) * places * places.log2().square())


def song(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """SONG()."""
    found = hinge_means(positives, negatives, lists)
    means = averaged(memory, "means", lists.cells, found.detach(), lists.filled)
    return (rank_slopes(means, lists, lists.ideal) * found).sum(1)


def ksong(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """KSONG(), practical."""
    found = hinge_means(positives, negatives, lists)
    means = averaged(memory, "means", lists.cells, found.detach(), lists.filled)
    with torch.no_grad():
        threshold = newton_threshold(positives, negatives, lists, memory["thresholds"][lists.users])
        every = torch.ones_like(threshold, dtype=torch.bool)
        threshold = averaged(memory, "thresholds", lists.users, threshold, every)
        chosen = (2 * (positives - threshold[:, None])).sigmoid()
        gradients = chosen * rank_slopes(means, lists, lists.ideal)
    return (gradients * found).sum(1)


def newton_threshold(positives: Tensor, negatives: Tensor, lists: Lists, start: Tensor) -> Tensor:
    """K-SONG's threshold: Newton's steps in a bracket, as mfrank's."""
    smoothing_1, smoothing_2, share = 0.01, 1e-4, 10.5 / lists.n_items
    n_positives = lists.n_positives[:, None]
    on_negatives = ((lists.n_items - n_positives) / negatives.shape[1]).expand(negatives.shape)
    weights = torch.cat([lists.positive_weights * n_positives, on_negatives], 1) / lists.n_items
    scores = torch.cat([positives, negatives], 1)
    low = torch.where(weights > 0, scores, torch.inf).amin(1) - 40 * smoothing_1
    low = torch.minimum(low, (weights.sum(1) - share) / smoothing_2)
    high = torch.where(weights > 0, scores, -torch.inf).amax(1) + 40 * smoothing_1
    high = high.clamp(min=-share / smoothing_2)
    place = torch.where(start.isnan(), (low + high) / 2, torch.clamp(start, low, high))
    last = high - low
    # Beyond a thousandth of the smoothing float32 has no digits left.
    tolerance = smoothing_1 * (1e-9 if place.dtype == torch.float64 else 1e-3)
    for _ in range(60):
        above = ((scores - place[:, None]) / smoothing_1).sigmoid()
        mass = weights * above
        slope = share + smoothing_2 * place - mass.sum(1)
        bend = (mass * (1 - above)).sum(1) / smoothing_1
        low, high = torch.where(slope < 0, place, low), torch.where(slope < 0, high, place)
        step = -slope / (smoothing_2 + bend)
        near = step.abs() <= tolerance
        trusted = (low <= place + step) & (place + step <= high) & (2 * step.abs() <= last)
        ahead = torch.where(near | trusted, place + step, (low + high) / 2)
        place, last = ahead, (ahead - place).abs()
        if near.all():
            break
    return place


def soprc(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """SOPRC(), of cosines."""
    hinge, smoothing = 0.1, 0.001
    behind = negatives[:, None, :] - positives[:, :, None]
    false_rate = ((behind + hinge).relu().square() - behind.relu().square()).mean(2) / hinge**2
    x = (positives[:, :, None] - positives.detach()[:, None, :]) / (2 * smoothing)
    counted = lists.filled[:, None, :] & (x < 0)
    l2 = torch.where(counted, torch.tanh(-x), 0).sum(2)
    true_rate = (1 + l2) / (1 + lists.filled.sum(1, keepdim=True))
    odds = ((lists.n_items - lists.n_positives) / lists.n_positives)[:, None]
    ratio = odds * false_rate / (odds * false_rate + true_rate)
    mean = (lists.positive_weights * positives).sum(1, keepdim=True)
    below = (lists.positive_weights * (mean - positives).relu().square()).sum(1)
    above = (negatives - negatives.mean(1, keepdim=True)).relu().square().mean(1)
    return (lists.positive_weights * ratio).sum(1) + below + 5 * above


def solc(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
    """SOLC(): exp(found - total) has the slopes of the whole, and total none."""
    per_like = (lists.positive_weights * lists.n_positives[:, None]).log()
    per_other = ((lists.n_items - lists.n_positives) / negatives.shape[1]).log()[:, None]
    found = torch.cat([positives + per_like, negatives + per_other], 1).logsumexp(1)
    with torch.no_grad():
        before = memory["log_sums"][lists.users]
        known = torch.where(before.isnan(), found, before)
        total = torch.logaddexp(math.log(0.9) + known, math.log(0.1) + found)
        memory["log_sums"][lists.users] = total
    return (found - total).exp() - (lists.positive_weights * positives).sum(1)


LOSSES: dict[str, TorchLoss] = {
    "SONG": song,
    "KSONG": ksong,
    "SOPRC": soprc,
    "SOLC": solc,
    "BPR": baselines.bpr,
    "BCE": baselines.bce,
    "SampledSoftmax": baselines.sampled_softmax,
    "Softmax": baselines.softmax,
    "Sparsemax": baselines.sparsemax,
    "ListNet": baselines.list_net,
    "ListMLE": baselines.list_mle,
    "LambdaRank": baselines.lambda_rank,
    "ApproxNDCG": baselines.approx_ndcg,
    "SmoothAP": baselines.smooth_ap,
    "UIB": baselines.uib,
    "SML": baselines.sml,
    "NeuralNDCG": soft_ranks.neural_ndcg,
    "StochasticRank": soft_ranks.stochastic_rank(soft_ranks.normals),
}
"""By the names of mfrank's."""


def libauc(topk: int, n_cells: int, n_users: int, n_items: int, n_positives: int) -> TorchLoss:
    """LibAUC's own SONG, or K-SONG where topk is above 0; ImportError where it is not installed."""
    from libauc.losses import NDCGLoss

    own: nn.Module = NDCGLoss(
        n_cells,
        n_users,
        n_items,
        n_positives,
        gamma0=0.1,
        topk=topk,
        topk_version="prac",
        device=torch.device("cpu"),
    )

    def loss(positives: Tensor, negatives: Tensor, lists: Lists, memory: Memory) -> Tensor:
        given = {
            "rating": lists.filled.to(positives.dtype),
            "user_id": lists.users,
            "num_pos_items": lists.n_positives,
            "ideal_dcg": lists.ideal,
            "user_item_id": lists.cells,
        }
        own.u = own.u.to(positives.dtype)
        mean: Tensor = own(torch.cat([positives, negatives], 1), given)
        return mean.expand(len(positives))

    return loss
