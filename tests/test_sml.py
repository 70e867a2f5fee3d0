"""SML: the chain of hinges between items, and margins that take steps and stay in their bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loss_lists import SIZES, Scores, derivative, slopes, whole_lists

from mfrank.trainers import Memory
from mfrank.trainers.sml import SML

LOSS = SML(item_weight=0.6, margin_weight=0.3, largest_margin=2.0, margin_learning_rate=0.7)


def margins() -> Memory:
    rng = np.random.default_rng(5)
    return {
        "user_margins": rng.uniform(0.5, 1.5, SIZES.users),
        "item_margins": rng.uniform(0.5, 1.5, SIZES.items),
    }


def test_the_loss_is_the_mean_over_pairs() -> None:
    lists, likes, others = whole_lists()
    memory = margins()
    for user in range(3):
        m, terms = memory["user_margins"][user], []
        for i in np.flatnonzero(lists.likes[user]):
            n = memory["item_margins"][lists.liked_items[user, i]]
            for j in np.flatnonzero(lists.others[user]):
                by_user = max(0, others[user, j] - likes[user, i] + m)
                by_item = max(0, lists.between[user, i, j] - likes[user, i] + n)
                terms.append(by_user + 0.6 * by_item - 0.3 * (m + n))
        found = LOSS.slopes(lists, likes, others, margins()).loss[user]
        assert found == pytest.approx(np.mean(terms))


def test_slopes_between_items_are_the_derivatives_of_the_loss() -> None:
    lists, likes, others = whole_lists()

    def value(between: Scores) -> float:
        return float(slopes(LOSS, replace(lists, between=between), likes, others).loss.sum())

    found = slopes(LOSS, lists, likes, others).between
    np.testing.assert_allclose(found, derivative(value, lists.between), atol=1e-7)
    assert found.any()


@pytest.mark.parametrize("name", ["user_margins", "item_margins"])
def test_margins_take_a_step_against_their_derivative(name: str) -> None:
    """An item that two users like takes the steps of both."""
    lists, likes, others = whole_lists()

    def value(at: Scores) -> float:
        memory = margins() | {name: at.copy()}
        return float(LOSS.slopes(lists, likes, others, memory).loss.sum())

    start, memory = margins(), margins()
    LOSS.slopes(lists, likes, others, memory)
    expected = start[name] - 0.7 * derivative(value, start[name])
    assert (np.abs(expected - start[name]) > 0.01).sum() >= 3
    np.testing.assert_allclose(memory[name], np.clip(expected, 0, 2), atol=1e-8)


@pytest.mark.parametrize(("rival", "bound"), [(-50.0, 2.0), (50.0, 0.0)])
def test_margins_stay_in_their_bounds(rival: float, bound: float) -> None:
    """Wide where all rivals are far away, none where they are all near."""
    lists, likes, others = whole_lists()
    lists, memory = replace(lists, between=np.full_like(lists.between, rival)), margins()
    for _ in range(100):
        LOSS.slopes(lists, likes, np.full_like(others, rival), memory)
    np.testing.assert_array_equal(memory["user_margins"], bound)
    liked = np.unique(lists.liked_items[lists.likes])
    np.testing.assert_array_equal(memory["item_margins"][liked], bound)


def test_padding_moves_no_margin() -> None:
    lists, likes, others = whole_lists()
    sizes = SIZES._replace(items=9)
    lists = replace(lists, liked_items=np.where(lists.likes, lists.liked_items, 8))
    memory = LOSS.memory(sizes)
    LOSS.slopes(lists, likes, others, memory)
    assert (memory["item_margins"][:5] != LOSS.largest_margin).any()
    assert memory["item_margins"][8] == LOSS.largest_margin


def test_a_list_without_others_moves_nothing() -> None:
    lists, likes, others = whole_lists()
    lists = replace(lists, others=np.zeros_like(lists.others))
    memory = margins()
    found = LOSS.slopes(lists, likes, others, memory)
    assert not any(part.any() for part in found)
    for name, kept in memory.items():
        np.testing.assert_array_equal(kept, margins()[name])
