"""SML: the chain of hinges between items, and margins that take steps and stay in their bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from both_sums import EITHER
from loss_lists import SIZES, Scores, derivative, gradients, whole_lists

from mfrank.losses import SML, ListSums, Memory

LOSS = SML(item_weight=0.6, margin_weight=0.3, largest_margin=2.0, margin_learning_rate=0.7)


def margins() -> Memory:
    rng = np.random.default_rng(5)
    return {
        "user_margins": rng.uniform(0.5, 1.5, SIZES.users),
        "item_margins": rng.uniform(0.5, 1.5, SIZES.items),
    }


@EITHER
def test_the_loss_is_the_mean_over_pairs(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    memory = margins()
    for user in range(3):
        m, terms = memory["user_margins"][user], []
        for i in np.flatnonzero(lists.positives[user]):
            n = memory["item_margins"][lists.positive_items[user, i]]
            for j in np.flatnonzero(lists.negatives[user]):
                by_user = max(0, negatives[user, j] - positives[user, i] + m)
                by_item = max(0, lists.pair_scores[user, i, j] - positives[user, i] + n)
                terms.append(by_user + 0.6 * by_item - 0.3 * (m + n))
        found = LOSS.gradients(lists, positives, negatives, margins()).loss[user]
        assert found == pytest.approx(np.mean(terms))


@EITHER
def test_slopes_between_items_are_the_derivatives_of_the_loss(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)

    def value(pair_scores: Scores) -> float:
        return float(
            gradients(
                LOSS, replace(lists, pair_scores=pair_scores), positives, negatives
            ).loss.sum()
        )

    found = gradients(LOSS, lists, positives, negatives).pair_scores
    np.testing.assert_allclose(found, derivative(value, lists.pair_scores), atol=1e-7)
    assert found.any()


@EITHER
@pytest.mark.parametrize("name", ["user_margins", "item_margins"])
def test_margins_take_a_step_against_their_derivative(name: str, sums: ListSums) -> None:
    """An item that two users like takes the steps of both."""
    lists, positives, negatives = whole_lists(sums=sums)

    def value(at: Scores) -> float:
        memory = margins() | {name: at.copy()}
        return float(LOSS.gradients(lists, positives, negatives, memory).loss.sum())

    start, memory = margins(), margins()
    LOSS.gradients(lists, positives, negatives, memory)
    expected = start[name] - 0.7 * derivative(value, start[name])
    assert (np.abs(expected - start[name]) > 0.01).sum() >= 3
    np.testing.assert_allclose(memory[name], np.clip(expected, 0, 2), atol=1e-8)


@EITHER
@pytest.mark.parametrize(("rival", "bound"), [(-50.0, 2.0), (50.0, 0.0)])
def test_margins_stay_in_their_bounds(rival: float, bound: float, sums: ListSums) -> None:
    """Wide where all rivals are far away, none where they are all near."""
    lists, positives, negatives = whole_lists(sums=sums)
    lists, memory = replace(lists, pair_scores=np.full_like(lists.pair_scores, rival)), margins()
    for _ in range(100):
        LOSS.gradients(lists, positives, np.full_like(negatives, rival), memory)
    np.testing.assert_array_equal(memory["user_margins"], bound)
    liked = np.unique(lists.positive_items[lists.positives])
    np.testing.assert_array_equal(memory["item_margins"][liked], bound)


@EITHER
def test_padding_moves_no_margin(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    sizes = SIZES._replace(items=9)
    lists = replace(lists, positive_items=np.where(lists.positives, lists.positive_items, 8))
    memory = LOSS.memory(sizes)
    LOSS.gradients(lists, positives, negatives, memory)
    assert (memory["item_margins"][:5] != LOSS.largest_margin).any()
    assert memory["item_margins"][8] == LOSS.largest_margin


@EITHER
def test_a_list_without_others_moves_nothing(sums: ListSums) -> None:
    lists, positives, negatives = whole_lists(sums=sums)
    lists = replace(lists, negatives=np.zeros_like(lists.negatives))
    memory = margins()
    found = LOSS.gradients(lists, positives, negatives, memory)
    assert not any(part.any() for part in found)
    for name, kept in memory.items():
        np.testing.assert_array_equal(kept, margins()[name])
