"""An epoch of descent: whom it visits, the loss and the seconds it tells, and at which rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Literal

import numpy as np
import pytest
from problems import toy

from mfrank.arrays import CSR
from mfrank.backends import choose
from mfrank.descent import (
    SGD,
    Batches,
    Constant,
    DescentPlan,
    FactorTables,
    ListDrawer,
    Sampling,
    Schedule,
    descend,
)
from mfrank.losses import BPR
from mfrank.store import Step

ROWS = CSR.from_scipy(toy(20, 15), None)
STILL = SGD(1e-12)  # no step moves a loss by more than its rounding
Of = Literal["users", "positives"]


def epochs(
    of: Of,
    schedule: Schedule | None = None,
    watch: Callable[[int, int, float], object] | None = None,
    rule: SGD = STILL,
) -> tuple[FactorTables, list[Step]]:
    """Two epochs in batches of 8, over whole lists."""
    rng = np.random.default_rng(0)
    backend = choose("reference")
    tables = FactorTables(rng.normal(size=(20, 3)), rng.normal(size=(15, 3)), None, backend)
    plan = DescentPlan(BPR(), rule, schedule or Constant(), 2, Batches(of, 8), 0.0, None, 0)
    drawer = ListDrawer(ROWS, Sampling(None, None), backend)
    return tables, list(descend(drawer, ROWS.counts, plan, tables, {}, watch=watch))


def visits(of: Of) -> int:
    return int(ROWS.counts.sum() if of == "positives" else np.count_nonzero(ROWS.counts))


@pytest.mark.parametrize("of", ["users", "positives"])
def test_the_objective_is_the_mean_loss_of_all_lists(of: Of) -> None:
    """Every user who likes something is visited once, or every cell."""
    tables, steps = epochs(of)
    scores, losses = tables.users @ tables.items.T, []
    for user in np.flatnonzero(ROWS.counts):
        likes = ROWS.row(int(user))[0]
        others = np.delete(scores[user], likes)
        each = [np.log1p(np.exp(others - scores[user, item])).mean() for item in likes]
        losses += each if of == "positives" else [np.mean(each)]
    assert len(losses) == visits(of)
    for step in steps:
        assert step.objective == pytest.approx(np.mean(losses), rel=1e-9)


def test_a_step_is_of_the_mean_over_its_batch() -> None:
    """So each user's first step tells the size of the batch, also of the last, smaller one."""
    rate = 1e-6
    (begin, _), (_, (first, _)) = epochs("users"), epochs("users", rule=SGD(rate))
    scores, sizes = begin.users @ begin.items.T, []
    for user in np.flatnonzero(ROWS.counts):
        likes = ROWS.row(int(user))[0]
        others = np.setdiff1d(np.arange(15), likes)
        behind = 1 / (1 + np.exp(scores[user, likes][:, None] - scores[user, others]))
        apart = begin.items[others] - begin.items[likes][:, None]
        slope = (behind[:, :, None] * apart).mean((0, 1))
        moved = begin.users[user] - first.user_factors[user]
        sizes.append(rate * np.linalg.norm(slope) / np.linalg.norm(moved))
    last = visits("users") % 8
    assert last > 0
    np.testing.assert_allclose(sorted(sizes), [last] * last + [8] * (len(sizes) - last), rtol=1e-3)


@pytest.mark.parametrize("of", ["users", "positives"])
def test_whoever_watches_is_told_after_every_batch(of: Of) -> None:
    calls, began = list[tuple[int, int, float]](), perf_counter()
    _, steps = epochs(of, watch=lambda *call: calls.append(call))
    passed, total = perf_counter() - began, visits(of)
    ends = [*range(8, total, 8), total]
    assert [(done, of_all) for done, of_all, _ in calls] == [(end, total) for end in ends] * 2
    for own, step in zip((calls[: len(ends)], calls[len(ends) :]), steps, strict=True):
        seconds = [0.0, *(at for *_, at in own), step.seconds]
        assert all(one <= next_one for one, next_one in pairwise(seconds))
    assert 0 < sum(step.seconds for step in steps) <= passed


@dataclass(frozen=True)
class Asked(Schedule):
    """Remembers where it was asked."""

    at: set[float] = field(default_factory=set)

    def multiplier(self, progress: float) -> float:
        self.at.add(round(progress, 9))
        return 1.0


@pytest.mark.parametrize("of", ["users", "positives"])
def test_a_batch_has_the_rate_of_its_place_in_the_fit(of: Of) -> None:
    asked, total = Asked(), visits(of)
    epochs(of, asked)
    begins = [(epoch + begin / total) / 2 for epoch in (0, 1) for begin in range(0, total, 8)]
    assert asked.at == {round(begin, 9) for begin in begins}
