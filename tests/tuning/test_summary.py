"""What was found in words: the lead, the cost of serving, and code that makes the same model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import page

import mfrank
from mfrank.cli.main import main
from mfrank.evaluation import Score
from mfrank.models import values_told
from mfrank.tuning import (
    ABILITIES,
    OF_EVENTS,
    TIMED_SPACE,
    Budget,
    Facts,
    Lead,
    Leaderboard,
    Outcome,
    Runner,
    Serving,
    Setting,
    Trial,
    TrialJudge,
    TuneResult,
    code_of,
)

DATA = mfrank.synthetic(150, 60, 2500, random_state=0)
SMALL: dict[str, Any] = {"factors": 16, "n_threads": 1}
SPACE = TIMED_SPACE.with_more(OF_EVENTS)
EVERY = [*SPACE.families(), *SPACE.baselines]


@pytest.fixture(scope="module")
def found() -> TuneResult:
    made = mfrank.tune(DATA, **SMALL, trials=8)
    assert isinstance(made.model, mfrank.Blend)
    return made


def pasted(code: str, **given: Any) -> Any:
    """The model that pasted code makes."""
    exec(code, given)
    return given["model"]


def same_lists(one: Any, other: Any) -> None:
    rows = np.arange(50)
    for ours, theirs in zip(
        *(m.recommend(rows, N=9, by_row=True) for m in (one, other)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


# --- code to paste


@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.name)
def test_the_code_of_a_single_model_makes_the_same_lists(family: Any) -> None:
    judge = TrialJudge.of(DATA, mfrank.NDCG @ 20, 0, 1)
    runner = Runner(Setting(Facts.of(judge.train), 8, 0, 1), judge, Budget(None), {}, SPACE)
    outcome = Outcome(Trial(family.name, family.first, 0), 0.5, epochs=2)
    with values_told():
        model = runner.refitted(outcome, DATA)
        same_lists(pasted(code_of(model), data=DATA), model)


@pytest.mark.parametrize("trials", [1, 8])
@pytest.mark.parametrize("source", ["data", "matrix", "with valid"])
def test_the_code_of_a_result_makes_its_lists(trials: int, source: str) -> None:
    split = mfrank.by_ratio(DATA, random_state=0)
    given = {"data": DATA, "matrix": DATA.user_items, "with valid": split.train}[source]
    more: dict[str, Any] = {"valid": split.valid} if source == "with valid" else {}
    result = mfrank.tune(given, **SMALL, trials=trials, **more)
    data = split.train + split.valid if more else given
    same_lists(pasted(result.code, data=data), result.model)
    same_lists(result.refit(data), result.model)


@pytest.mark.parametrize("target", ["purchase", "it's"])
def test_the_code_for_events_has_their_weights_and_what_lists_leave_out(target: str) -> None:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, [[60], [40]], (2, 2000))
    kinds = rng.choice(["view", "cart", target], 2000, p=[0.7, 0.1, 0.2])
    events = mfrank.Events.from_arrays(users, items, kinds)
    weights = {"view": 1.0, "cart": None, target: 5.0}
    result = mfrank.tune(events, target=target, weights=weights, **SMALL, trials=4)
    assert repr(target) in result.code
    same_lists(pasted(result.code, events=events), result.model)


# --- how sure it is


def test_a_lead_is_that_of_paired_evaluations(found: TuneResult) -> None:
    judge = TrialJudge.of(DATA, mfrank.NDCG @ 20, 0, 1)
    blend, *others = [judge.evaluation(pasted(code, data=judge.train)) for code in codes(found)]
    for lead, other in zip(found.leads, others, strict=True):
        expected = blend.compare(other, mfrank.NDCG @ 20)
        assert lead.difference == pytest.approx(expected.mean, abs=1e-6)
        assert lead.standard_error == pytest.approx(expected.standard_error, rel=1e-4)
        assert lead.p_value == pytest.approx(expected.p_value, rel=1e-3)
    assert [lead.is_alone for lead in found.leads] == [True, False]
    chosen = {row["family"] for row in found.leaderboard if row["weight"] is not None}
    assert found.leads[0].over in chosen
    assert found.leads[1].over not in chosen


def codes(found: TuneResult) -> list[str]:
    """Code of the choice, and of the best trials of the families that it leads."""
    calls = [
        next(row["model"] for row in found.leaderboard if row["family"] == lead.over)
        for lead in found.leads
    ]
    assert all(call.startswith(("EASE", "Item")) for call in calls)  # which have no epochs
    return [found.code, *(f"from mfrank import *\nmodel = {call}.fit(data)" for call in calls)]


def test_a_lead_says_what_may_be_chance() -> None:
    values = np.random.default_rng(0).random(50)
    weights = np.ones(50)
    mine = Score.of_users(values + 0.1, weights)
    for theirs, chance in ((values, False), (values[::-1] + 0.09, True)):
        lead = Lead.of("EASE", True, mine, Score.of_users(theirs, weights), mfrank.NDCG @ 20)
        assert ("chance" in str(lead)) == chance
        assert "single model, EASE" in str(lead)
    unknown = Lead.of("EASE", False, mine, Score(0.25), mfrank.NDCG @ 20)
    assert unknown.standard_error is None
    assert str(unknown) == f"{mine.value - 0.25:.4f} ahead of the best of the other families, EASE"
    one = Score.of_users(values[:1], weights[:1])
    assert Lead.of("EASE", False, one, one, mfrank.NDCG @ 20).p_value is None


def test_a_resumed_search_judges_again(found: TuneResult, tmp_path: Path) -> None:
    for _ in range(2):
        again = mfrank.tune(DATA, **SMALL, trials=8, storage=tmp_path / "search.sqlite")
        assert [lead.over for lead in again.leads] == [lead.over for lead in found.leads]
        assert again.leads[0].p_value == found.leads[0].p_value


# --- what it costs


@pytest.mark.parametrize("n_users", [1, 5, 400])
def test_serving_is_measured_on_a_few_hundred_users(n_users: int) -> None:
    data = mfrank.synthetic(n_users, 30, 8 * n_users, random_state=0)
    model = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(data)
    cost = Serving.of(model, 1)
    assert 1 <= cost.users <= min(n_users, 256)
    assert cost.microseconds > 0
    arrays = [model.user_factors, model.item_factors, model.seen.matrix.indices]
    assert cost.memory >= sum(array.nbytes for array in arrays)
    assert cost.memory < 20 * sum(array.nbytes for array in arrays) + 10_000


def test_memory_grows_by_what_is_added_and_counts_nothing_twice(found: TuneResult) -> None:
    before = Serving.of(found.model, 1).memory
    assert Serving.of(found.model, 1).memory == before
    wide = mfrank.ALS(factors=40, iterations=1, random_state=0).fit(DATA)
    more = mfrank.ALS(factors=50, iterations=1, random_state=0).fit(DATA)
    grown = Serving.of(more, 1).memory - Serving.of(wide, 1).memory
    assert 4 * 10 * 210 <= grown <= 3 * 4 * 10 * 210


# --- all of it


@pytest.mark.parametrize("trials", [1, 8])
def test_a_summary_says_in_a_dozen_lines_what_one_needs(trials: int) -> None:
    result = mfrank.tune(DATA, **SMALL, trials=trials)
    lines = result.summary().splitlines()
    assert len(lines) <= 12
    text = result.summary()
    parts = getattr(result.model, "parts", [result.model])
    for part in parts:
        assert type(part).__name__ in lines[0]
    row = next(row for row in result.leaderboard if row["weight"] is not None)
    for told in (f"NDCG@20 {row['value']:.4f}", "ahead of", "MiB", "microseconds", "held out"):
        assert told in text
    for told in ("updated", "explain", "new users", "found.refit(data)", "--refit MODEL"):
        assert told in text
    assert text.endswith(result.code)
    assert str(result) == f"{text}\n{result.leaderboard}"
    assert page(result).texts[: len(lines)] == lines


def test_a_summary_says_only_what_the_model_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mfrank.Popularity, "folds_in", False)
    model = mfrank.Popularity().fit(DATA)
    text = TuneResult(model, Leaderboard(()), "as given").summary()
    assert "explain" in text
    assert "new users" not in text
    monkeypatch.setattr(mfrank.Popularity, "explain", mfrank.Recommender.explain)
    monkeypatch.setattr(mfrank.Popularity, "partial_fit", mfrank.Recommender.partial_fit)
    text = TuneResult(model, Leaderboard(()), "as given").summary()
    assert "it can" not in text
    assert len(ABILITIES) == 3


def test_without_time_there_is_a_summary(found: TuneResult) -> None:
    late = mfrank.tune(DATA, minutes=1e-9, n_threads=1)
    assert "the best of 0 models is Popularity" in late.summary()
    assert late.leads == ()
    same_lists(pasted(late.code, data=DATA), late.model)
    rows = [{**row, "low": None} for row in found.leaderboard]
    assert "interval" not in replace(found, leaderboard=Leaderboard(tuple(rows))).summary()


def test_the_command_prints_it_with_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mfrank.data.write_table(
        tmp_path / "likes.csv", {"user": DATA.entry_users, "item": DATA.user_items.indices}
    )
    line = ["tune", "likes.csv", "--trials", "2", "--factors", "4", "--model"]
    assert main([*line, "my model"]) == 0
    told = capsys.readouterr().out
    assert "mfrank tune FILE --refit 'my model' --model NEWER" in told
    assert "from mfrank import" in told
    assert main(["tune", "likes.csv", "--refit", "my model", "--model", "newer"]) == 0
    code = told[told.index("from mfrank") : told.index("\nrank")]
    same_lists(pasted(code, data=mfrank.Interactions.from_file("likes.csv")), mfrank.load("newer"))
