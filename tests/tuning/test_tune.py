"""tune as a whole: what it finds, that it repeats and resumes, and what it refuses."""

from __future__ import annotations

import json
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from children import run
from pages import page

import mfrank
from mfrank.models import spread
from mfrank.tuning import (
    FAMILIES,
    BlendPart,
    Budget,
    Counted,
    Facts,
    Filter,
    Outcome,
    Regression,
    Runner,
    SearchResult,
    Setting,
    Trial,
    TrialJudge,
    TuneResult,
    _fitted,
    days_of,
)
from tests.support.errors import refuses

DATA = mfrank.synthetic(150, 60, 2500, random_state=0)
SMALL: dict[str, Any] = {"trials": 6, "factors": 16, "n_threads": 1}


@pytest.fixture(scope="module")
def found() -> TuneResult:
    return mfrank.tune(DATA, **SMALL)


def lists(model: mfrank.Recommender) -> np.ndarray:
    return model.recommend(np.arange(20), N=5).ids


def test_the_model_is_fitted_to_all_data_and_knows_what_was_seen(
    found: TuneResult, tmp_path: Path
) -> None:
    assert found.model.seen is not None
    np.testing.assert_array_equal(
        found.model.seen.matrix.toarray() != 0, DATA.user_items.toarray() != 0
    )
    found.model.save(tmp_path / "model")
    np.testing.assert_array_equal(lists(mfrank.load(tmp_path / "model")), lists(found.model))


def test_the_same_seed_gives_the_same_bits_by_trials(found: TuneResult) -> None:
    again = mfrank.tune(DATA, **SMALL)
    np.testing.assert_array_equal(again.model.item_factors, found.model.item_factors)
    without_times = [[{**row, "seconds": 0} for row in one.leaderboard] for one in (again, found)]
    assert without_times[0] == without_times[1]


def test_a_search_that_was_killed_goes_on(found: TuneResult, tmp_path: Path) -> None:
    file = tmp_path / "search.sqlite"
    killed = run(
        "import os, signal, mfrank\n"
        "from mfrank.tuning.trials import Runner\n"
        "real, calls = Runner.run, []\n"
        "def run(self, *given):\n"
        "    calls.append(0)\n"
        "    if len(calls) == 5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(self, *given)\n"
        "Runner.run = run\n"
        "data = mfrank.synthetic(150, 60, 2500, random_state=0)\n"
        f"mfrank.tune(data, trials=6, factors=16, n_threads=1, storage={str(file)!r})"
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ran: list[Trial] = []
    real = Runner.run

    def noting(self: Runner, trial: Trial, reserve: float) -> Outcome:
        ran.append(trial)
        return real(self, trial, reserve)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "run", noting)
        resumed = mfrank.tune(DATA, **SMALL, storage=file)
        assert len(ran) == sum(each not in ("blend", "trees") for each in families(found)) - 4
        np.testing.assert_array_equal(resumed.model.item_factors, found.model.item_factors)
        ran.clear()
        mfrank.tune(DATA, **SMALL, storage=file)
        assert ran == []


def test_a_search_that_goes_on_without_time_fits_its_best(
    found: TuneResult, tmp_path: Path
) -> None:
    file = tmp_path / "search.sqlite"
    mfrank.tune(DATA, **SMALL, storage=file)
    resumed = mfrank.tune(DATA, factors=16, n_threads=1, minutes=1e-6, storage=file)
    best = next(row for row in found.leaderboard if row["family"] != "blend")
    assert resumed.leaderboard[0]["model"] == best["model"]
    assert resumed.model.seen is not None
    assert resumed.model.seen.matrix.nnz == DATA.nnz
    assert type(resumed.model).__name__ == best["model"].split("(")[0]


def families(found: TuneResult) -> list[str]:
    return [row["family"] for row in found.leaderboard]


def test_a_leaderboard_is_best_first_and_all_of_it_is_json(
    found: TuneResult, tmp_path: Path
) -> None:
    board = found.leaderboard
    judged = [row for row in board if row["error"] is None]
    assert judged == list(board)[: len(judged)]  # what failed or was left out comes last
    values = [row["value"] for row in judged]
    assert values == sorted(values, reverse=True)
    assert [row["rank"] for row in board] == list(range(1, len(board) + 1))
    assert json.loads(board.to_json(tmp_path / "board.json")) == list(board)
    assert json.loads((tmp_path / "board.json").read_text()) == list(board)
    for row in judged:
        assert row["low"] <= row["value"] <= row["high"]
    assert board[0]["weight"] == 1.0
    assert str(board).splitlines()[1].startswith("1 ")
    assert "Leaderboard" in board._repr_html_()


def test_what_was_found_is_shown_in_notebooks(found: TuneResult) -> None:
    shown = page(found)
    assert shown.texts[:2] == str(found).splitlines()[:2]
    assert [row[0] for row in shown.rows[1:]] == [str(row["rank"]) for row in found.leaderboard]


def test_the_value_is_that_of_the_models_on_the_held_out_part(found: TuneResult) -> None:
    judge = TrialJudge.of(DATA, mfrank.NDCG @ 20, 0, 1)
    row = next(row for row in found.leaderboard if row["family"] == "IALS")
    model = eval(row["model"], {name: getattr(mfrank, name) for name in mfrank.__all__})
    model.set_params(iterations=row["epochs"]).fit(judge.train)
    value = mfrank.evaluate(model, judge.valid, users=judge.users, by_row=True, metrics="ndcg@20")[
        "ndcg@20"
    ]
    assert row["value"] == value.value
    assert row["standard_error"] == value.standard_error


@pytest.mark.parametrize("metric", ["auc", "auprc", "limitedauc@10", "recall@50"])
def test_metrics_of_the_whole_ranking_are_searched_too(metric: str) -> None:
    data = mfrank.synthetic(100, 60, 1500, random_state=0)
    found = mfrank.tune(data, trials=2, factors=4, metric=metric, n_threads=1)
    judge = TrialJudge.of(data, mfrank.NDCG @ 20, 0, 1)
    popular = mfrank.Popularity().fit(judge.train)
    value = mfrank.evaluate(popular, judge.valid, users=judge.users, by_row=True, metrics=metric)[
        metric
    ].value
    row = next(row for row in found.leaderboard if row["family"] == "Popularity")
    assert row["value"] == pytest.approx(value, rel=1e-12)
    assert found.leaderboard[0]["value"] > value


def test_what_is_popular_of_late_is_found_where_it_changes() -> None:
    """Each day has its own few items, which all users take; without times nobody can know them."""
    rng = np.random.default_rng(0)
    n_days, each = 20, 400
    days = np.repeat(np.arange(n_days), each)
    users, items = rng.integers(0, 150, len(days)), 3 * days + rng.integers(0, 6, len(days))
    data = mfrank.Interactions.from_arrays(users, items, None, 86_400 * days, duplicates="last")
    found = mfrank.tune(data, trials=8, factors=4, n_threads=1)
    assert found.validation == "by time"
    value = {row["family"]: row["value"] for row in reversed(found.leaderboard)}
    assert value["RecentPopularity"] > 2 * value["Popularity"]
    without = mfrank.tune(data.user_items, trials=8, factors=4, n_threads=1)
    assert "RecentPopularity" not in families(without)


def test_what_everybody_likes_is_found_by_popularity() -> None:
    """Users choose by popularity alone: whatever a model learns beyond is noise."""
    rng = np.random.default_rng(0)
    likes = rng.random((400, 60)) < np.linspace(0.01, 0.5, 60) ** 2 * 2
    data = mfrank.Interactions.from_sparse(sp.csr_array(likes.astype(float)))
    found = mfrank.tune(data, trials=4, factors=32, n_threads=1)
    best = found.leaderboard[0]["value"]
    popularity = next(row for row in found.leaderboard if row["family"] == "Popularity")
    assert best - popularity["value"] < 2 * popularity["standard_error"]
    ranks = found.model.recommend(np.arange(50), N=10, filter_already_liked_items=False)
    assert ranks.ids.mean() > 45  # the last items are the popular ones


def test_the_objective_that_reads_values_is_found_where_values_tell() -> None:
    """Each user has items of one taste with high values, and as many of no taste with low ones."""
    rng = np.random.default_rng(0)
    n_users, n_items, tastes = 300, 120, 6
    taste = rng.integers(tastes, size=n_users)
    liked = rng.random((n_users, n_items)) < 0.5 * (np.arange(n_items) % tastes == taste[:, None])
    noise = rng.random((n_users, n_items)) < 0.12
    values = np.where(liked, 50.0, np.where(noise, 1.0, 0.0))
    data = mfrank.Interactions.from_sparse(sp.csr_array(values))
    found = mfrank.tune(data, trials=15, factors=16, n_threads=1, metric=mfrank.NDCG @ 10)
    closed = [
        row for row in found.leaderboard if row["family"] in {f.name for f in FAMILIES["ALS"]}
    ]
    assert closed[0]["family"] == "WRMF"


def test_a_blend_is_at_least_as_good_as_its_parts(found: TuneResult) -> None:
    parts = [row for row in found.leaderboard if row["weight"] and row["family"] != "blend"]
    assert found.leaderboard[0]["value"] >= max(row["value"] for row in parts)
    if "blend" in families(found):
        assert found.model.store.factors == sum(row["factors"] or 0 for row in parts)


def test_scores_are_brought_to_one_scale_before_they_are_blended() -> None:
    models = [mfrank.ALS(o, factors=4, random_state=0) for o in (mfrank.RG2(), mfrank.WRMF())]
    first, second = (model.fit(DATA) for model in models)
    scaled = mfrank.ALS._from_store(replace(second.store, user_factors=1e6 * second.user_factors))
    assert spread(scaled) == pytest.approx(1e6 * spread(second), rel=1e-5)
    both = [mfrank.Blend.from_models([first, each], [1.0, 0.5]).store for each in (second, scaled)]
    scores = [store.user_factors @ store.item_factors.T for store in both]
    np.testing.assert_allclose(*scores, rtol=1e-3, atol=1e-4)


def test_the_minutes_are_kept() -> None:
    import time

    began = time.process_time()  # which a busy machine does not stretch
    mfrank.tune(DATA, minutes=0.01, factors=16, n_threads=1)
    assert time.process_time() - began < 5


def test_parts_for_which_no_time_is_left_are_taken_as_they_are() -> None:
    late = Budget(1.0, lambda: 0.0)
    judge = TrialJudge.of(DATA, mfrank.NDCG @ 20, 0, 1)
    trials = [Trial("IALS", (0.5,) * 3, 0), Trial("ItemFilter", (0.5,) * 2, 0)]
    models = mfrank.ALS(mfrank.IALS(), factors=4), mfrank.ItemFilter()
    kept = {trial: model.fit(judge.train) for trial, model in zip(trials, models, strict=True)}
    made = Runner(Setting(Facts.of(judge.train), 4, 0, 1), judge, late, kept)
    parts = [BlendPart(Outcome(trial, 0.1, 0.01, 1, 90.0, 90.0, 1.0)) for trial in trials]
    whole = _fitted(SearchResult(made, [], {}, parts, None), DATA)
    values = whole.store.extras["values_indptr"]
    assert values[-1] == judge.train.nnz
    assert whole.seen is not None
    assert whole.seen.matrix.nnz == DATA.nnz
    alone = _fitted(SearchResult(made, [], {}, parts[:1], None), DATA)
    assert isinstance(alone, mfrank.ALS)
    assert alone.seen is not None
    assert alone.seen.matrix.nnz == DATA.nnz
    np.testing.assert_array_equal(alone.item_factors, models[0].item_factors)


def test_models_that_turn_out_slow_do_not_break_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is foreseen is wrong: all models between 20,000 items seem to take no time."""
    import time

    data = mfrank.synthetic(2_000, 20_000, 400_000, random_state=0)
    for family in (Filter, Regression, Counted):
        monkeypatch.setattr(family, "work", lambda *_: 1e-6)
    began = time.process_time()  # which a busy machine does not stretch
    found = mfrank.tune(data, minutes=0.02, factors=32, n_threads=1)
    assert time.process_time() - began < 1.2 + 5
    given_up = {row["family"]: row["error"] for row in found.leaderboard if row["value"] is None}
    assert {"ItemFilter", "EASE"} <= set(given_up)
    assert found.model.seen is not None
    assert found.model.seen.matrix.nnz == data.nnz


def test_without_time_for_anything_else_the_model_is_popularity() -> None:
    found = mfrank.tune(DATA, minutes=1e-9, n_threads=1)
    assert isinstance(found.model, mfrank.Popularity)
    np.testing.assert_array_equal(found.model.store.counts.items, DATA.counts.items)
    assert all(row["error"] for row in found.leaderboard)


REFUSED = [
    ({"minutes": 0}, ValueError, {"argument": "minutes"}),
    ({"minutes": "ten"}, ValueError, {"argument": "minutes"}),
    ({"trials": 0}, ValueError, {"argument": "trials"}),
    ({"trials": 1.5}, TypeError, {"argument": "trials"}),
    ({"factors": 0}, ValueError, {"argument": "factors"}),
    ({"random_state": None}, TypeError, {"argument": "random_state"}),
    ({"n_threads": -1}, ValueError, {"argument": "n_threads"}),
    ({"metric": "coverage@10"}, ValueError, {"argument": "metric"}),
    ({"metric": "best@10"}, ValueError, {"remedy": "write one of Precision"}),
    ({"metric": mfrank.Recall}, ValueError, {"remedy": "write Recall @"}),
    ({"metric": "novelty@10"}, ValueError, {"argument": "metric"}),
    ({"metric": 3}, ValueError, {"argument": "metric"}),
    (
        {"storage": "nowhere/search.sqlite"},
        ValueError,
        {"argument": "storage", "remedy": "create it first"},
    ),
    ({"storage": "."}, ValueError, {"argument": "storage"}),
]


@pytest.mark.parametrize(("options", "error", "fault"), REFUSED)
def test_what_cannot_be_meant_is_refused_before_any_work(
    options: dict[str, Any],
    error: type[Exception],
    fault: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("a trial was run"))
    with refuses(error, **fault):
        mfrank.tune(DATA, **options)


@pytest.mark.parametrize(
    ("data", "argument"),
    [
        (sp.csr_array((3, 4)), "user_items"),
        (sp.csr_array([[1.0, -1.0], [1.0, 1.0]]), "data"),
        (sp.eye_array(4).tocsr(), "data"),
    ],
)
def test_data_of_which_nothing_can_be_held_out_are_refused(data: Any, argument: str) -> None:
    with refuses(ValueError, argument):
        mfrank.tune(data)


def test_a_storage_of_another_search_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "search.sqlite"
    mfrank.tune(DATA, trials=1, factors=4, storage=file)
    for other in ({"factors": 5}, {"factors": 4, "random_state": 1}):
        with refuses(ValueError, "storage", remedy="name another file"):
            mfrank.tune(DATA, trials=1, storage=file, **other)
    file.write_text("no database, but long enough that it is read as the page of one " * 20)
    with refuses(ValueError, "storage", remedy="name another file"):
        mfrank.tune(DATA, trials=1, factors=4, storage=file)


def test_every_outcome_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "search.sqlite"
    found = mfrank.tune(DATA, trials=2, factors=4, storage=file)
    connection = sqlite3.connect(file)
    saved = [
        Outcome.from_dict(json.loads(text))
        for (text,) in connection.execute("SELECT outcome FROM trials")
    ]
    connection.close()
    tried = [row for row in found.leaderboard if row["family"] not in ("blend", "trees")]
    assert sorted(one.value or 0.0 for one in saved) == sorted(row["value"] for row in tried)


def test_a_fit_that_fails_is_told_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverging(*_: object, **__: object) -> None:
        raise FloatingPointError("the fit diverged")

    monkeypatch.setattr(mfrank.Descent, "fit", diverging)
    found = mfrank.tune(DATA, trials=6, factors=8)
    failed = [row for row in found.leaderboard if row["family"] == "SampledSoftmax"]
    assert [row["error"] for row in failed] == ["FloatingPointError: the fit diverged"] * 2
    assert [row["value"] for row in failed] == [None, None]
    assert json.loads(found.leaderboard.to_json())[-1]["value"] is None
    assert "diverged" in str(found)


def test_models_are_chosen_by_what_is_given_and_fitted_to_both() -> None:
    split = mfrank.by_ratio(DATA, train=0.8, valid=0.2, test=0.0, random_state=1)
    found = mfrank.tune(split.train, valid=split.valid, **SMALL)
    assert found.validation == "as given"
    popular = mfrank.Popularity().fit(split.train)
    value = mfrank.evaluate(popular, split.valid, metrics="ndcg@20")["ndcg@20"].value
    row = next(row for row in found.leaderboard if row["family"] == "Popularity")
    assert row["value"] == pytest.approx(value, rel=1e-12)
    assert found.model.seen is not None
    np.testing.assert_array_equal(
        found.model.seen.matrix.toarray() != 0, DATA.user_items.toarray() != 0
    )


def test_new_users_of_what_is_given_are_in_the_model() -> None:
    users = np.array([f"user {row}" for row in DATA.entry_users])
    items = np.array([f"item {row}" for row in DATA.user_items.indices])
    split = mfrank.by_ratio(mfrank.Interactions.from_arrays(users, items), random_state=0)
    later = split.valid + mfrank.Interactions.from_arrays(["new"] * 3, ["item 1", "item 2", "x"])
    found = mfrank.tune(split.train, valid=later, **SMALL)
    assert len(found.model.recommend("new", N=5).ids) == 5
    assert "x" in found.model.item_ids.labels


def test_what_is_given_is_part_of_a_search(tmp_path: Path) -> None:
    storage = {"storage": tmp_path / "search.sqlite"}
    split = mfrank.by_ratio(DATA, train=0.8, valid=0.1, test=0.1, random_state=1)
    mfrank.tune(split.train, valid=split.valid, **SMALL | storage)
    mfrank.tune(split.train, valid=split.test, **SMALL | storage)
    assert len(days_of(storage["storage"])) == 2


@pytest.mark.parametrize(
    ("valid", "fault"),
    [
        (DATA.user_items, {"argument": "valid"}),
        (DATA, {"remedy": "give both"}),
        (sp.csr_array((150, 60)), {"argument": "valid"}),
        (sp.csr_array((151, 60)), {"argument": "valid", "remedy": "give valid the shape"}),
        (-DATA.user_items, {"argument": "valid", "remedy": "drop them"}),
        ("ratings.csv", {"remedy": r"make them with Interactions\.from_arrays"}),
    ],
)
def test_what_cannot_be_judged_by_is_refused(valid: Any, fault: dict[str, str]) -> None:
    with refuses((ValueError, TypeError), **fault):
        mfrank.tune(DATA.user_items, valid=valid, **SMALL)
