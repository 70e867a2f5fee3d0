"""Losses are the sums that their docstrings print, list by list, with nothing of how they are made.

Lists have one place, two and more, and gains in no order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from both_sums import EITHER
from loss_lists import Scores, derivative, gradients, whole_lists

from mfrank.losses import (
    BCE,
    BPR,
    SONG,
    UIB,
    ApproxNDCG,
    ListMLE,
    ListNet,
    Lists,
    ListSums,
    Loss,
    NeuralNDCG,
    SampledSoftmax,
    SmoothAP,
    Softmax,
    Sparsemax,
)

Value = Callable[[Scores, Scores, Scores, float], float]
"""Of the scores of a list's positives and negatives, the gains, and the ideal DCG."""


def sigmoid(x: Scores) -> Scores:
    return 1 / (1 + np.exp(-x))


def softplus(x: Scores) -> Scores:
    return np.log(1 + np.exp(x))


def approx_ndcg(p: Scores, n: Scores, gains: Scores, ideal: float) -> float:
    ranks = [0.5 + sigmoid(2 * (np.r_[p, n] - h)).sum() for h in p]  # less sigmoid(0), plus 1
    return -float((gains / ideal / np.log2(1 + np.array(ranks))).sum())


def list_mle(p: Scores, n: Scores, gains: Scores, ideal: float) -> float:
    drawn = np.argsort(-gains)
    left = [np.log(np.exp(np.r_[p[drawn[place:]], n]).sum()) for place in range(len(p))]
    return float((left - p[drawn]).sum())


def list_net(p: Scores, n: Scores, gains: Scores, ideal: float) -> float:
    target = np.exp(np.r_[np.log2(1 + gains), 0 * n])
    scores = np.r_[p, n]
    return -float((target / target.sum() * (scores - np.log(np.exp(scores).sum()))).sum())


def neural_ndcg(p: Scores, n: Scores, gains: Scores, ideal: float) -> float:
    h, places = np.r_[p, n], np.arange(1, len(p) + len(n) + 1)
    logits = (len(h) + 1 - 2 * places)[:, None] * h - np.abs(h[:, None] - h).sum(0)
    soft = np.exp(logits / 0.9)
    soft /= soft.sum(1, keepdims=True)
    for _ in range(3):
        soft /= soft.sum(0)
        soft /= soft.sum(1, keepdims=True)
    return -float((soft @ np.r_[gains, 0 * n] / np.log2(1 + places)).sum() / ideal)


def smooth_ap(p: Scores, n: Scores, gains: Scores, ideal: float) -> float:
    among_likes = np.array([0.5 + sigmoid((p - h) / 0.3).sum() for h in p])
    among_all = among_likes + [sigmoid((n - h) / 0.3).sum() for h in p]
    return 1 - float((among_likes / among_all).mean())


def song(p: Scores, n: Scores, gains: Scores, ideal: float) -> float:
    ranks = [(np.maximum(np.r_[p, n] - h + 1.2, 0) ** 2).sum() for h in p]
    return -float((gains / ideal / np.log2(1 + np.array(ranks))).sum())


def sparsemax(p: Scores, n: Scores, gains: Scores, ideal: float) -> float:
    """With the support S within which all values are above t, and none outside."""
    falling = -np.sort(-np.r_[p, n])
    for size in range(1, len(falling) + 1):
        top = (falling[:size].sum() - 1) / size
        if falling[size - 1] > top and not (falling[size:] > top).any():
            return float(((falling[:size] ** 2 - top**2).sum() + 1) / 2 - p.mean())
    raise AssertionError


def uib(margin: float, p: Scores, n: Scores, gains: Scores, ideal: float) -> float:
    return float(np.maximum(margin - p, 0).mean() + np.maximum(margin + n, 0).mean())


PRINTED: dict[str, tuple[Loss, Value]] = {
    "approx ndcg": (ApproxNDCG(sharpness=2.0), approx_ndcg),
    "bce": (BCE(), lambda p, n, *_: softplus(-p).mean() + softplus(n).mean()),
    "bpr": (BPR(), lambda p, n, *_: softplus(n - p[:, None]).mean()),
    "list mle": (ListMLE(), list_mle),
    "list net": (ListNet(), list_net),
    "neural ndcg": (NeuralNDCG(temperature=0.9, rounds=3), neural_ndcg),
    "sampled softmax": (
        SampledSoftmax(temperature=2.0),
        lambda p, n, *_: np.mean([np.log(np.exp(h / 2) + np.exp(n / 2).sum()) - h / 2 for h in p]),
    ),
    "smooth ap": (SmoothAP(temperature=0.3), smooth_ap),
    "softmax": (
        Softmax(),
        lambda p, n, gains, _: np.log(np.exp(np.r_[p, n]).sum()) - gains @ p / gains.sum(),
    ),
    "song": (SONG(decay=1.0, margin=1.2), song),
    "sparsemax": (Sparsemax(), sparsemax),
    "uib": (UIB(margin=0.8), partial(uib, 0.8)),
    "uib of wide margins": (UIB(margin=20.0), partial(uib, 20.0)),
}


def of_lists(value: Value, lists: Lists, positives: Scores, negatives: Scores) -> Scores:
    return np.array(
        [
            value(
                positives[user][lists.positives[user]],
                negatives[user][lists.negatives[user]],
                lists.gains[user][lists.positives[user]],
                lists.ideal[user],
            )
            for user in range(3)
        ]
    )


@EITHER
@pytest.mark.parametrize("sizes", [((2, 1, 4), (1, 8, 2)), ((4, 4, 4), (8, 8, 8))], ids=str)
@pytest.mark.parametrize("name", PRINTED)
def test_losses_and_their_slopes_are_those_of_the_printed_sum(
    name: str, sizes: tuple[tuple[int, ...], tuple[int, ...]], sums: ListSums
) -> None:
    loss, value = PRINTED[name]
    lists, positives, negatives = whole_lists(3, sums, *sizes)
    lists = replace(lists, gains=np.where(lists.positives, [3.0, 7.0, 1.0, 15.0], 0))
    negatives = 2 * negatives
    found = gradients(loss, lists, positives, negatives)
    np.testing.assert_allclose(found.loss, of_lists(value, lists, positives, negatives), rtol=1e-9)
    np.testing.assert_allclose(
        found.positives,
        derivative(lambda p: of_lists(value, lists, p, negatives).sum(), positives),
        atol=1e-7,
    )
    np.testing.assert_allclose(
        found.negatives,
        derivative(lambda n: of_lists(value, lists, positives, n).sum(), negatives),
        atol=1e-7,
    )
