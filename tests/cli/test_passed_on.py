"""Every flag of a command reaches the function that does its work; without flags, its defaults."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded_commands import COMMANDS, DATA, Calls, defaults, make_files, recorded, run, same

import mfrank
from mfrank.cli.main import main
from mfrank.comparison import DEFAULT_METRICS
from mfrank.data import splits
from mfrank.store import is_mapped


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has the files."""
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)


def test_tune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    saved: list[tuple[str, int]] = []
    best = SimpleNamespace(save=lambda folder, keep, **_: saved.append((folder, keep)))
    found = SimpleNamespace(model=best, leaderboard=({"value": 1},), weights=None, days=None)
    calls = recorded(monkeypatch, f"{COMMANDS}.tune.tune", found)
    run("tune plays.csv --model best")
    (data,), given = calls[0]
    assert same(data, DATA)
    assert given.pop("show_progress") is False
    assert given == defaults(mfrank.tune, given)
    assert saved == [("best", 1)]
    assert capsys.readouterr().out.endswith("saved to best\n")
    line = "--minutes 2.5 --trials 3 --metric recall@5 --factors 7 --random-state 4 --n-threads 2"
    line += " --memory 1.5 --storage s --needs update,new-users"
    run(f"tune plays.csv --model best {line} --valid plays.csv --json -")
    given = calls[1][1]
    assert same(given.pop("valid"), DATA)
    assert given == {
        "minutes": 2.5,
        "trials": 3,
        "metric": "recall@5",
        "factors": 7,
        "random_state": 4,
        "n_threads": 2,
        "memory": 1.5,
        "needs": ("update", "new users"),
        "space": None,
        "storage": "s",
        "show_progress": False,
        "predict": None,
        "target": None,
        "weights": None,
    }
    assert json.loads(capsys.readouterr().out) == [{"value": 1}]


def test_compare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    written: list[str] = []
    found = SimpleNamespace(to_dict=lambda: {"a": 1}, to_csv=written.append)
    calls = recorded(monkeypatch, f"{COMMANDS}.compare.compare", found)
    run("compare plays.csv")
    assert "no effect" not in capsys.readouterr().err
    given = calls[0][1]
    usual = splits.by_ratio(DATA, train=0.8, valid=0, test=0.2, random_state=0)
    assert all(map(same, calls[0][0], (usual.train, usual.test)))
    models = given.pop("models")
    assert (given.pop("metrics"), given.pop("show_progress")) == (DEFAULT_METRICS, False)
    assert given == defaults(mfrank.compare, given)
    assert "mfrank RG2" in models
    assert not any("PageRank" in name for name in models)
    line = "--factors 3 --n-threads 2 --repeats 2 --random-state 5 --metric ndcg@3"
    objective = "--objective wrmf:alpha=7 --objective rg2"
    line += " --tune 0.5 --needs explain"
    run(f"compare plays.csv --walk {line} {objective} --csv t.csv --json -")
    given = calls[1][1]
    models = given.pop("models")
    assert given == {
        "left_out": None,
        "tune": 0.5,
        "needs": ("explain",),
        "predict": "any",
        "factors": 3,
        "random_state": 5,
        "n_threads": 2,
        "repeats": 2,
        "metrics": ["ndcg@3"],
        "show_progress": False,
    }
    assert written == ["t.csv"]
    assert json.loads(capsys.readouterr().out) == {"a": 1}
    walk = models.pop("mfrank SupervisedPageRank")
    assert (walk.n_threads, walk.random_state) == (2, 5)
    mine = {name: each for name, each in models.items() if isinstance(each, mfrank.ALS)}
    assert [type(each.objective).__name__ for each in mine.values()] == ["WRMF", "RG2"]
    for each in mine.values():
        assert (each.factors, each.n_threads, each.random_state) == (3, 2, 5)


@pytest.mark.parametrize(
    ("how", "split"),
    [
        ("ratio", lambda: splits.by_ratio(DATA, train=0.6, valid=0, test=0.4, random_state=3)),
        ("leave-last", lambda: splits.leave_last(DATA, random_state=3)),
        ("leave-out", lambda: splits.leave_k_out(DATA, random_state=3)),
        ("time", lambda: splits.by_time(DATA, test=0.4)),
    ],
)
def test_the_splits_of_compare(
    how: str, split: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = recorded(monkeypatch, f"{COMMANDS}.compare.compare", SimpleNamespace(to_dict=dict))
    run(f"compare plays.csv --split {how} --test-fraction 0.4 --random-state 3")
    train, test = calls[0][0]
    assert same(train, split().train)
    assert same(test, split().test)
    told = "--test-fraction has no effect" in capsys.readouterr().err
    assert told == how.startswith("leave")


def test_the_last_of_equal_times_is_drawn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Path("plays.csv").read_text().splitlines()
    Path("day.csv").write_text("\n".join([lines[0], *(f"{line[:-1]}0" for line in lines[1:])]))
    data = mfrank.Interactions.from_file("day.csv")
    calls = recorded(monkeypatch, f"{COMMANDS}.compare.compare", SimpleNamespace(to_dict=dict))
    for seed in (3, 4):
        run(f"compare day.csv --split leave-last --random-state {seed}")
        assert same(calls[-1][0][1], splits.leave_last(data, random_state=seed).test)
    assert not same(calls[0][0][1], calls[1][0][1])


def test_a_test_file_of_compare(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = recorded(monkeypatch, f"{COMMANDS}.compare.compare", SimpleNamespace(to_dict=dict))
    run("compare plays.csv --test more.csv")
    train, test = calls[0][0]
    assert same(train, DATA)
    assert test.nnz == 1
    assert "1 test interaction left out: users or items unknown" in capsys.readouterr().err
    run("compare plays.csv --test plays.csv")
    assert "left out" not in capsys.readouterr().err
    for how in ("--split time", "--split ratio", "--test-fraction 0.2"):
        assert main(f"compare plays.csv --test plays.csv {how}".split()) == 2
        assert "leave them out with --test" in capsys.readouterr().err


def test_evaluate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    scores = SimpleNamespace(n_users=1, to_dict=lambda: {"ndcg": 1})
    calls = recorded(monkeypatch, f"{COMMANDS}.evaluate.evaluate", scores)
    run("evaluate --model m --test more.csv")
    (model, test), given = calls[0]
    assert (model.store.n_users, test.nnz) == (4, 1)
    assert given.pop("metrics") == mfrank.evaluation.DEFAULT_METRICS
    assert given == defaults(mfrank.evaluate, given)
    assert "1 test interaction left out" in capsys.readouterr().err
    line = "--include-seen --metric ndcg@3 --n-threads 2 --diversity 0.5 --cluster 2 --json -"
    run(f"evaluate --model m --test plays.csv {line}")
    assert calls[1][1] == {
        "train": None,
        "filter_already_liked_items": False,
        "metrics": ["ndcg@3"],
        "n_threads": 2,
        "steer": mfrank.Steering(diversity=0.5),
        "cluster": 2,
    }
    told = capsys.readouterr()
    assert json.loads(told.out) == {"ndcg": 1}
    assert "left out" not in told.err
    run("evaluate --model m --test plays.csv --train plays.csv")
    assert same(calls[2][1]["train"], DATA)
    mfrank.load("m").save("unseen", with_seen=False)
    capsys.readouterr()
    assert main(["evaluate", "--model", "unseen", "--test", "plays.csv"]) == 2
    assert "without the interactions of its fit: pass their file with" in capsys.readouterr().err
    for how in ("--train plays.csv", "--include-seen"):
        run(f"evaluate --model unseen --test plays.csv {how}")
    scores.n_users = 0
    assert main(["evaluate", "--model", "m", "--test", "plays.csv"]) == 2
    assert "is ranked; items of the fit are not, without --include" in capsys.readouterr().err
    assert main(["evaluate", "--model", "m", "--test", "plays.csv", "--include-seen"]) == 2
    assert "has a relevant item that is ranked [" in capsys.readouterr().err


def test_recommend(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    real = mfrank.ALS.recommend

    def recommend(self: Any, users: Any, **given: Any) -> Any:
        calls.append((users.tolist() if hasattr(users, "tolist") else users, given))
        return real(self, users, **given)

    monkeypatch.setattr(mfrank.ALS, "recommend", recommend)
    run("recommend --model m")
    assert calls[0][0] == ["a", "b", "c", "d"]
    assert calls[0][1] == {"N": 10, **defaults(real, {k: 0 for k in calls[0][1] if k != "N"})}
    more = "--n 2 --include-seen --n-threads 2 --boost i1=3 --skip-unknown"
    run(f"recommend --model m --user b --user zoe {more}")
    assert calls[1] == (
        ["b"],
        {
            "N": 2,
            "filter_already_liked_items": False,
            "on_unknown": "error",
            "fallback": "none",
            "n_threads": 2,
            "steer": mfrank.Steering({"i1": 3.0}),
        },
    )
    run("recommend --model m --user b --user zoe --skip-unknown --fallback popularity")
    users, given = calls[2]
    assert (users, given["on_unknown"], given["fallback"]) == (["b", "zoe"], "skip", "popularity")


def test_similar_items(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    real = mfrank.ALS.similar_items

    def similar_items(self: Any, items: Any, **given: Any) -> Any:
        calls.append((items.tolist(), given))
        return real(self, items, **given)

    monkeypatch.setattr(mfrank.ALS, "similar_items", similar_items)
    run("similar-items i1 i2 --model m")
    run("similar-items i1 --model m --n 2 --n-threads 2")
    assert calls == [
        (["i1", "i2"], {"N": 10, "filter_items": [["i1"], ["i2"]], "n_threads": 0}),
        (["i1"], {"N": 2, "filter_items": [["i1"]], "n_threads": 2}),
    ]


def test_recommend_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    writes: list[Any] = []
    lists = SimpleNamespace(
        n_users=4, names=["x"], write=lambda folder, **given: writes.append((str(folder), given))
    )
    calls = recorded(monkeypatch, f"{COMMANDS}.recommend_all.AllLists", lists)
    run("recommend-all --model m --folder lists")
    (model, n, form, options), _ = calls[0]
    assert (model.store.n_users, n, form) == (4, 10, "parquet")
    assert is_mapped(model.store.user_factors)
    assert options == {
        name: parameter.default
        for name, parameter in inspect.signature(mfrank.ALS.recommend).parameters.items()
        if name in options
    }
    assert writes == [("lists", {"show_progress": False, "cluster": None})]
    assert capsys.readouterr().out == "lists: lists of 4 users in 1 file\n"
    line = "--n 3 --format csv --include-seen --fallback popularity --n-threads 2 --at-most 1"
    (Path() / "kinds.csv").write_text("item,kind\ni0,x\n")
    files = "--filter-items items.txt --items items.txt --categories kinds.csv --cluster 2"
    run(f"recommend-all --model m --folder lists {line} {files}")
    (_, n, form, options), _ = calls[1]
    assert (n, form) == (3, "csv")
    assert options.pop("steer") == mfrank.Steering(categories={"i0": ["x"]}, at_most=1)
    for name in ("filter_items", "items"):
        assert options.pop(name).tolist() == ["i1", "i2"]
    assert options == {
        "user_items": None,
        "filter_already_liked_items": False,
        "recalculate_user": False,
        "by_row": False,
        "on_unknown": "error",
        "fallback": "popularity",
        "n_threads": 2,
    }
    assert writes[1][1]["cluster"] == 2


def test_update(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls: Calls = []
    real = mfrank.ALS.partial_fit

    def partial_fit(self: Any, data: Any, **given: Any) -> Any:
        calls.append(((data,), dict(given)))
        given |= {"user_features": None, "item_features": None, "decay": 1.0}
        return real(self, data, **given)

    monkeypatch.setattr(mfrank.ALS, "partial_fit", partial_fit)
    run("update more.csv --model m --output newer")
    (data,), given = calls[0]
    assert data.nnz == 2
    assert given == defaults(real, given)
    told = capsys.readouterr().out
    assert "1 new user, 0 new items" in told
    assert f"\n{mfrank.load('newer').store.history[-1]['rows']} rows solved in" in told
    assert told.endswith("saved to newer\n")
    files = "--train plays.csv --user-features u.csv --item-features i.csv"
    run(f"update more.csv --model m --alternations 1 --decay 0.5 --batch monday {files}")
    given = calls[1][1]
    assert same(given.pop("user_items"), DATA)
    assert given == {
        "alternations": 1,
        "decay": 0.5,
        "batch": "monday",
        "leave_out": None,
        "user_features": "u.csv",
        "item_features": "i.csv",
    }
    assert capsys.readouterr().out.endswith("saved to m\n")
    run("update more.csv --model m --batch monday")
    assert "saved" not in capsys.readouterr().out
    run("update more.csv --model m --batch monday --output newest")
    assert capsys.readouterr().out == "saved to newest\n"


@pytest.mark.parametrize(
    ("command", "estimator", "extra"),
    [
        ("fit", mfrank.ALS, "--user-features u.csv --item-features i.csv"),
        ("descend", mfrank.Descent, "--start m --loss bpr"),
        ("pagerank", mfrank.SupervisedPageRank, ""),
    ],
)
def test_fits(
    command: str,
    estimator: Any,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls: list[dict[str, Any]] = []
    real = estimator.fit

    def fit(self: Any, data: Any, **given: Any) -> Any:
        assert same(data, DATA)
        calls.append(given)
        return real(self, data)

    monkeypatch.setattr(estimator, "fit", fit)
    few = "--untuned" if command == "pagerank" else "--factors 2 --iterations 1"
    run(f"{command} plays.csv --model made {few}")
    given = dict(calls[0])
    assert given.pop("show_progress") is False
    assert given == defaults(real, given)
    told = capsys.readouterr()
    assert told.out.endswith("saved to made\n")
    assert "fitting" not in told.err
    assert isinstance(mfrank.load("made"), estimator)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run(f"{command} plays.csv --model made {few}")
    assert calls.pop()["show_progress"] is True
    what = {"fit": "RG2(", "descend": "SampledSoftmax(", "pagerank": "a walk to Interactions("}
    assert f"\nmfrank: fitting {what[command]}" in capsys.readouterr().err
    if command != "pagerank":
        run(f"{command} plays.csv --model made {few} --checkpoint c --cluster 2 {extra}")
        given = calls[1]
        assert (given["checkpoint"], given["cluster"]) == ("c", 2)
        if command == "fit":
            assert (given["user_features"], given["item_features"]) == ("u.csv", "i.csv")
        else:
            assert given["start"].store.n_users == 4


def test_ingest(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls = recorded(monkeypatch, "mfrank.Interactions.ingest", DATA)
    run("ingest plays.csv more.csv --folder f")
    assert calls[0][0] == (["plays.csv", "more.csv"], "f")
    given = calls[0][1]
    assert given.pop("show_progress") is False
    assert given == defaults(mfrank.Interactions.from_file, given)
    assert capsys.readouterr().out == "f: 4 users x 5 items, 12 entries of 2 files\n"
    line = "--no-value --timestamp t --timestamp-unit s --sep ; --ids text --duplicates max"
    run(f"ingest plays.csv --folder f {line}")
    given = calls[1][1]
    names = ("value", "timestamp", "timestamp_unit", "sep", "ids", "duplicates")
    assert [given[name] for name in names] == [False, "t", "s", ";", "text", "max"]
