"""Reports of experiments against brute force, and against what simulated users would do."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank import serving
from mfrank.cli.main import main
from mfrank.retrieval import Answer
from mfrank.serving import Event, EventJournal
from mfrank.serving.arm_report import attributed
from mfrank.serving.counterfactual import JudgedArm
from mfrank.serving.exploration import Explorer
from mfrank.serving.list_log import ListLog, ListShown, ListSource
from tests.support.errors import refuses

FAR = 4e9
"""A time from which no list is too old."""


def source(arm: str = "a", share: float | None = 0.5, version: str = "v") -> ListSource:
    return ListSource("1", arm, version, share)


def journal_of(folder: Path, lists: list[ListShown], events: list[Event]) -> EventJournal:
    journal = EventJournal(folder)
    log = ListLog(journal, 1e9)
    for each in lists:
        log.add(each)
    log.stop()
    journal.append(events)
    return journal


ITEMS = st.lists(st.sampled_from("xyz"), max_size=3, unique=True)


@settings(max_examples=40)
@given(
    lists=st.lists(st.tuples(st.integers(0, 9), ITEMS), max_size=5),
    clicks=st.lists(st.tuples(st.integers(0, 12), st.sampled_from("wxyz")), max_size=6),
    within=st.integers(1, 6),
)
def test_a_click_is_one_on_the_last_list_that_had_the_item(
    lists: list[Any], clicks: list[Any], within: int
) -> None:
    shown = [ListShown("u", at, source(), items) for at, items in sorted(lists, key=lambda e: e[0])]
    expected: set[tuple[int, str]] = set()
    for at, item in clicks:
        having = [n for n, each in enumerate(shown) if item in each.items and each.time <= at]
        if having and at - shown[having[-1]].time <= within:
            expected.add((having[-1], item))
    found = {
        (n, item)
        for n, each in enumerate(attributed(shown, sorted(clicks), within))
        for item, is_clicked in zip(each.shown.items, each.clicks, strict=True)
        if is_clicked
    }
    assert found == expected


def simulated(rng: np.random.Generator, rates: dict[str, float], n_users: int) -> Any:
    """Lists and clicks of users who have more or fewer lists, and click more or less."""
    lists, events, sums = [], [], {name: [] for name in rates}
    for user in range(n_users):
        arm = list(rates)[user % len(rates)]
        rate, n = rates[arm] * rng.uniform(0.5, 1.5), int(rng.integers(1, 6))
        clicks = rng.random((n, 3)) < rate
        for at, row in enumerate(clicks):
            lists.append(ListShown(user, FAR + 100 * at, source(arm, 1 / len(rates)), [1, 2, 3]))
            events += [
                Event(user, item + 1, "click", 1.0, FAR + 100 * at + 1, f"{user}-{at}-{item}")
                for item in np.flatnonzero(row).tolist()
            ]
        sums[arm].append((n, clicks.sum()))
    return lists, events, {name: np.array(each, float) for name, each in sums.items()}


def test_rates_and_differences_are_of_users(tmp_path: Path) -> None:
    lists, events, sums = simulated(np.random.default_rng(0), {"a": 0.2, "b": 0.4}, 60)
    found = serving.report(journal_of(tmp_path, lists, events))
    jackknife = {}
    for name, (n, clicks) in ((name, each.T) for name, each in sums.items()):
        score = found.arms[name].scores["clicks"]
        assert score.value == pytest.approx(clicks.sum() / n.sum())
        left = (clicks.sum() - clicks) / (n.sum() - n)
        jackknife[name] = math.sqrt((len(n) - 1) / len(n) * ((left - left.mean()) ** 2).sum())
        assert score.standard_error == pytest.approx(jackknife[name], rel=0.1)
        assert (found.arms[name].n_lists, found.arms[name].n_clicks) == (n.sum(), clicks.sum())
    difference = found.differences["b"]["clicks"]
    scores = {name: arm.scores["clicks"] for name, arm in found.arms.items()}
    assert difference.mean == pytest.approx(scores["b"].value - scores["a"].value)
    assert difference.p_value < 0.01
    assert found.division_p == pytest.approx(1.0)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["differences"]["b"]["clicks"]["p_value"] == difference.p_value
    assert "b minus a, clicks a list: " in str(found)


def test_with_one_list_a_user_it_is_welchs_test() -> None:
    from mfrank.evaluation import Score

    rng = np.random.default_rng(1)
    first, second = rng.random(30), rng.random(20) ** 2
    one, two = (Score.of_users(each, np.ones(len(each))) for each in (first, second))
    found, expected = one.unpaired(two, "x"), scipy.stats.ttest_ind(first, second, equal_var=False)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    low, high = one.interval
    assert (low, high) == pytest.approx(
        scipy.stats.t.interval(0.95, 29, first.mean(), first.std(ddof=1) / math.sqrt(30))
    )
    assert math.isnan(Score.of_users(first[:1], np.ones(1)).unpaired(two, "x").p_value)


def test_without_a_difference_p_values_are_uniform() -> None:
    """Of users who have lists and habits of their own: lists are no independent trials."""
    from mfrank.serving.arm_report import _result

    rng, below = np.random.default_rng(2), 0
    for _ in range(200):
        arms = []
        for _ in range(2):
            n = rng.integers(1, 10, 50)
            clicks = rng.binomial(n, rng.beta(0.5, 1.5, 50))
            arms.append(_result(np.column_stack([n, clicks, clicks]).astype(float), 1))
        one, two = (arm.scores["clicks"] for arm in arms)
        below += one.unpaired(two, "x").p_value < 0.1
    assert abs(below / 200 - 0.1) < 4 * math.sqrt(0.09 / 200)


def test_what_does_not_count(tmp_path: Path) -> None:
    lists = [
        ListShown("ann", FAR, source("a"), ["x"]),
        ListShown("ben", FAR, source("b"), ["x"]),
        ListShown("cat", FAR, source("a"), ["x"]),
        ListShown("cat", FAR + 1, source("b"), ["x"]),
        ListShown("ann", FAR + 5, source("b", None), ["x", "y"]),
        ListShown("ann", FAR + 9, source("a", version="w"), []),
    ]
    events = [
        Event("ann", "x", "click", 1.0, FAR + 6),  # on the list that was asked by hand
        Event("ann", "y", "click", 1.0, FAR + 6),
        Event("ben", "x", "view", 1.0, FAR + 6),
        Event("ben", "x", "click", 0.0, FAR + 6),  # of no value
        Event("ben", "x", "click", 1.0, FAR - 1),  # before
        Event("ben", "x", None, 1.0, FAR + 90_000),  # too late
    ]
    journal = journal_of(tmp_path, lists, events)
    found = serving.report(journal)
    assert (found.n_moved, found.n_by_hand) == (1, 1)
    assert {name: arm.n_clicks for name, arm in found.arms.items()} == {"a": 0, "b": 1}
    assert (found.arms["a"].n_lists, found.arms["a"].versions) == (2, 2)
    assert serving.report(journal, kinds=["click"]).arms["b"].n_clicks == 0
    assert serving.report(journal, kinds=["event"], within=1e6).arms["b"].n_clicks == 1
    later = serving.report(journal, since=FAR + 8)
    assert (list(later.arms), later.differences, later.division_p) == (["a"], {}, None)
    assert math.isnan(later.arms["a"].scores["clicks"].standard_error)
    assert later.to_dict()["arms"]["a"]["clicks"]["low"] is None


def test_users_who_are_not_divided_as_the_split_says_are_told(tmp_path: Path) -> None:
    lists = [ListShown(user, FAR, source("ab"[user < 60]), ["x"]) for user in range(80)]
    found = serving.report(journal_of(tmp_path, lists, []))
    assert found.division_p == pytest.approx(scipy.stats.chisquare([60, 20]).pvalue)
    assert "WARNING: users are not divided" in str(found)


# Estimates of another model.


class Ranking(mfrank.Recommender):
    """A model with a stated list for everybody."""

    def __init__(self, ranked: list[int], n_users: int) -> None:
        n_items = max(ranked) + 1
        data = mfrank.Interactions.from_arrays(
            np.arange(max(n_users, n_items)) % n_users, np.arange(max(n_users, n_items)) % n_items
        )
        model = mfrank.ALS(factors=1, iterations=1, random_state=0).fit(data)
        self._hold(model.store, None)
        self.ranked = ranked

    def recommend(self, userid: Any, *args: Any, N: int = 10, **_: Any) -> Any:
        ids = np.tile(np.array(self.ranked[:N]), (len(userid), 1))
        return Answer(ids, np.zeros(ids.shape, np.float32))


N, M, SHARE = 3, 5, 0.4
CHANCE = np.array([0.6, 0.1, 0.3, 0.5, 0.05, 0.2, 0.4, 0.1, 0.9, 0.9])
"""Of a click on each item; the model that serves ranks them as they stand."""
OTHER = [6, 0, 3, 1, 2, 4, 5, 7, 8, 9]


def explored(rng: np.random.Generator, n_users: int, by_place: bool) -> Any:
    """Lists of simulated users, who may click less on later places."""
    explorer, lists, events = Explorer(SHARE, M, str(rng.integers(2**32))), [], []
    for user in range(n_users):
        for at in range(int(rng.integers(1, 4))):
            items, odds = explorer.drawn(range(N + M), N, user, str(at))
            time = FAR + 1000 * at
            lists.append(ListShown(user, time, source("a", 1.0), items, odds))
            for place, item in enumerate(items):
                if rng.random() < CHANCE[item] * (0.7**place if by_place else 1):
                    events.append(Event(user, item, None, 1.0, time + 1))
    return lists, events


def value_of(ranked: list[int], by_place: bool) -> float:
    """Clicks a list: items of the list at their places, others at a random one, none from afar."""
    reads = 0.7 ** np.arange(N) if by_place else np.ones(N)
    listed = [item for item in ranked[:N] if item < N + M]
    return float(sum(CHANCE[i] * (reads[i] if i < N else reads.mean()) for i in listed))


@pytest.mark.parametrize("by_place", [False, True])
@pytest.mark.parametrize("ranked", [OTHER, list(range(10)), [9, 6, 0, 1, 2, 3, 4, 5, 7, 8]])
def test_estimates_are_unbiased_and_their_errors_right(ranked: list[int], by_place: bool) -> None:
    rng, target, n_users = np.random.default_rng(3), Ranking(ranked, 30), 30
    found, errors, snips = [], [], []
    for _ in range(30):
        lists, events = explored(rng, n_users, by_place)
        judged = JudgedArm(target)
        for user in range(n_users):
            own = [each for each in lists if each.user == user]
            clicks = [(each.timestamp, each.item) for each in events if each.user == user]
            judged.add(user, list(attributed(own, clicks, 10)), [])
        other = judged.result()
        found.append(other.ips.value)
        snips.append(other.snips.value)
        errors.append(other.ips.standard_error)
    expected, spread = value_of(ranked, by_place), np.std(found, ddof=1)
    assert abs(np.mean(found) - expected) < 4 * spread / math.sqrt(len(found))
    assert np.mean(errors) == pytest.approx(spread, rel=0.5)
    # What cannot be shown counts as the rest in SNIPS.
    reach = sum(item < N + M for item in ranked[:N]) / N
    error = 4 * np.std(snips, ddof=1) / math.sqrt(len(snips))
    assert abs(np.mean(snips) - expected / reach) < error + 0.02  # its bias


def test_an_estimate_is_its_sums(tmp_path: Path) -> None:
    lists = [
        ListShown(1, FAR, source(), [0, 5], [0.8, 0.1]),
        ListShown(1, FAR + 9, source(), [0, 1], [0.8, 0.8]),
        ListShown(2, FAR, source(), [1, 2], [0.8, 0.8]),
        ListShown(2, FAR + 1, source(), [3, 0]),  # nothing was drawn
        ListShown(77, FAR, source(), [0, 1], [0.8, 0.8]),  # unknown to the model
    ]
    events = [Event(1, 5, None, 1.0, FAR + 1), Event(2, 2, None, 1.0, FAR)]
    events.append(Event(77, 1, None, 1.0, FAR + 1))
    journal = journal_of(tmp_path, lists, events)
    other = serving.report(journal, of=Ranking([0, 5, 1, 2, 3, 4], 6)).counterfactual
    assert other is not None
    # User 1: 0 and 5 are shown, then 0 and 1, for 5 is met by then. User 2 has 1 and 2 for 0 and 5.
    weights = [1 / 0.8, 1 / 0.1, 1 / 0.8, 1 / 0.8]
    assert other.ips.value == pytest.approx(10 / 4)
    assert other.snips.value == pytest.approx(10 / (sum(weights) / 2))
    assert other.effective == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights))
    assert other.reach == pytest.approx(sum(weights) / 2 / 4)
    assert (other.shown.value, other.n_lists, other.n_users) == (3 / 4, 4, 3)
    assert other.n_unknown == 1
    assert other.difference.mean == pytest.approx(10 / 4 - 3 / 4)


@pytest.mark.parametrize(
    ("options", "argument", "remedy"),
    [
        ({"within": 0}, "within", ""),
        ({"since": "soon"}, "since", ""),
        ({"since": True}, "since", ""),
        ({"since": FAR + 1}, "since", "earlier"),
        ({"kinds": "click"}, "kinds", ""),
        ({"kinds": ["clicks"]}, "kinds", "click"),
        ({"of": Ranking([0, 1], 2)}, "of", "--explore"),
        ({"of": "model"}, "of", ""),
    ],
)
def test_what_cannot_be_reported_is_refused(
    tmp_path: Path, options: dict[str, Any], argument: str, remedy: str
) -> None:
    lists = [ListShown(1, FAR, source(), [1])]
    journal = journal_of(tmp_path, lists, [Event(1, 1, "click", 1.0, FAR)])
    with refuses((ValueError, TypeError), argument, remedy=remedy):
        serving.report(journal, **options)


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "journal"
    lists, events = explored(np.random.default_rng(4), 30, by_place=False)
    journal_of(folder, lists, events).close()
    data = mfrank.synthetic(30, 10, 150, random_state=0)
    mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data).save(tmp_path / "m")
    line = ["report", "--journal", str(folder), "--of", str(tmp_path / "m")]
    assert main([*line, "--within", "10s", "--json", str(tmp_path / "r.json")]) == 0
    told = capsys.readouterr().out
    assert "IPS minus shown" in told
    found = serving.report(folder, within=10, of=mfrank.load(tmp_path / "m"))
    assert json.loads((tmp_path / "r.json").read_text()) == json.loads(json.dumps(found.to_dict()))
    assert main([*line, "--kind", "click", "--since", "2026-01-01"]) == 2
    assert "--kind" in capsys.readouterr().err
    assert main(["report", "--journal", str(tmp_path / "nowhere")]) == 2
