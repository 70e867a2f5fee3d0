"""Comparisons: what is measured, in which order, against what, and how it is saved."""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
import weakref
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank import ALS, RG2, WRMF, compare
from mfrank.arrays import usable_cores
from mfrank.comparison import Comparison, default_models, fit_once, objective_value, usual_models
from mfrank.data import by_ratio, read_columns
from mfrank.evaluation import evaluate
from tests.support.errors import refuses


def quick(*data: Any, **options: Any) -> Any:
    """A comparison of small models; those that are given have their own sizes."""
    sizes = {} if options.get("models") is not None else {"factors": 4, "iterations": 2}
    usual = {"repeats": 2, "n_threads": 1, "peak_memory": False}
    return compare(*data, **{**sizes, **usual, **options})


@pytest.fixture(scope="module")
def split():
    data = mfrank.synthetic(80, 50, 1200, random_state=1)
    return by_ratio(data, train=0.7, valid=0.0, test=0.3)


@pytest.fixture
def no_implicit(monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit", None)


@pytest.fixture(scope="module")
def against_implicit(split):
    pytest.importorskip("implicit", reason="implicit is the extra compare")
    return quick(split)


class Recorder:
    """A model of no library: takes the time it is told and notes when it was fitted."""

    order: list[str]

    def __init__(self, name, order, seconds=(1.0,)):
        self.name, self.order, self.seconds = name, order, seconds
        self.user_factors = self.item_factors = None

    def __deepcopy__(self, memo):
        return Recorder(self.name, self.order, self.seconds)

    def fit(self, user_items, show_progress, callback):
        assert not show_progress  # lines of a fit would be mixed with those of the comparison
        self.order.append(self.name)
        for epoch, seconds in enumerate(self.seconds):
            callback(epoch, seconds, None)
        self.user_factors = np.ones((user_items.shape[0], 1))
        self.item_factors = np.ones((user_items.shape[1], 1))


def test_runs_alternate_and_times_are_medians(split):
    order = []
    models = {
        "a": Recorder("a", order, (3.0, 1.0, 100.0)),
        "b": Recorder("b", order),
        "c": Recorder("c", order),
    }
    comparison = quick(split, models=models, repeats=3)
    assert order == [*"abc", *"cba", *"abc"]
    assert comparison["a"].epoch_seconds == 3.0
    assert [row.model for row in comparison.rows] == ["a", "b", "c"]
    assert models["a"].user_factors is None  # copies were fitted
    with pytest.raises(KeyError, match="there are a, b, c"):
        comparison["d"]


def test_one_fit_of_each_model_is_held_at_a_time(split):
    held, most = weakref.WeakSet(), []

    class Held(Recorder):
        def __deepcopy__(self, memo):
            made = Recorder(self.name, self.order)
            held.add(made)
            most.append(len(held))
            return made

    quick(split, models={"a": Held("a", [])}, repeats=5)
    assert max(most) == 3  # the first, the last that ended, and the next


def test_a_row_is_what_fitting_and_evaluating_gives(split):
    model = ALS(RG2(), factors=4, iterations=2, random_state=0)
    row = quick(split, models={"mine": model}, metrics=["ndcg@5", "mrr"])["mine"]
    fitted = ALS(RG2(), factors=4, iterations=2, random_state=0, track_objective=True)
    fitted.fit(split.train)
    expected = evaluate(fitted, split.test, train=split.train, metrics=["ndcg@5", "mrr"])
    for metric, score in expected.scores.items():
        assert row.evaluation[metric].value == pytest.approx(score.value, rel=1e-6)
    assert row.objective == pytest.approx(fitted.store.history[-1]["objective"], rel=1e-5)
    assert row.library == f"mfrank {mfrank.__version__}"


def test_what_is_measured_unless_something_else_is_asked_for(split, monkeypatch, capsys):
    order, made = [], []
    monkeypatch.setattr("mfrank.comparison.protocol.peak_memory", lambda work: 7 * 2**20)
    comparison = compare(split, models={"a": Recorder("a", order)})
    assert order == ["a"] * 3
    assert comparison["a"].peak_memory == 7 * 2**20
    assert [str(m) for m in comparison["a"].evaluation.scores] == [
        *("Recall@20", "NDCG@20", "MRR@20", "MAP@20")
    ]
    assert (comparison.settings["repeats"], comparison.settings["tune"]) == (3, None)
    assert "peak: memory that a fit adds to a fresh process" in comparison.notes
    assert "peak" not in " ".join(quick(split, models={"a": Recorder("a", [])}).notes)
    assert not capsys.readouterr().err
    monkeypatch.setattr(
        "mfrank.comparison.side_by_side.usual_models", lambda **options: made.append(options)
    )
    with refuses(ValueError, "models"):
        compare(split)
    sizes = {"factors": None, "iterations": 15, "n_threads": 0, "random_state": 0}
    assert made == [{"tuned": False, "timed": True, **sizes}]


def test_train_and_test_may_be_given_as_matrices(split):
    models = {"mine": ALS(factors=4, iterations=1, random_state=0)}
    one = quick(split, models=models)
    other = quick(split.train.user_items, split.test.user_items, models=models)
    assert one["mine"].objective == other["mine"].objective


@pytest.mark.parametrize("as_split", [True, False])
def test_a_test_part_of_its_own_numbering_is_matched_by_id(as_split):
    """Parts that were read from files of their own have the ids that they need, in any order."""
    data = mfrank.synthetic(40, 30, 500, names=True, random_state=0)
    split = by_ratio(data, train=0.7, valid=0.0, test=0.3, random_state=0)
    rest = split.test.entry_users >= 9  # the part has fewer users than the training data
    split = replace(split, test=split.test.take(rest))
    users, items = split.test.entry_users, split.test.user_items.indices
    own = mfrank.Interactions.from_arrays(
        data.user_ids.labels[users],
        data.item_ids.labels[items],
        user_ids=data.user_ids.labels[9:][::-1],
    )
    parts = (mfrank.Split(split.train, split.valid, own),) if as_split else (split.train, own)
    models = {"a": ALS(RG2(), factors=4, iterations=2, random_state=0)}
    one, other = (quick(*each, models=models).rows[0].evaluation for each in ((split,), parts))
    assert one["ndcg@20"].value == other["ndcg@20"].value


def test_objective_of_any_factors_is_the_sum_it_states(split):
    random = np.random.default_rng(0)

    class Foreign:
        user_factors = random.normal(size=(80, 3))
        item_factors = random.normal(size=(50, 3))

    objective = WRMF(alpha=2.0, regularization=0.3)
    scores = Foreign.user_factors @ Foreign.item_factors.T
    values = split.train.user_items.toarray()
    confidence = np.where(values > 0, 2.0 * values, 1.0)
    expected = (confidence * ((values > 0) - scores) ** 2).sum()
    expected += 0.3 * ((Foreign.user_factors**2).sum() + (Foreign.item_factors**2).sum())
    assert objective_value(objective, Foreign, split.train, 1) == pytest.approx(expected)


def test_it_says_once_which_models_read_values_that_vary(split, caplog):
    rated = split.train.user_items.copy()
    rated.data[::2] = 5
    models = {
        "reads": ALS(WRMF(), factors=2, iterations=1),
        "knows": mfrank.Popularity(),
        "counts": ALS(RG2(), factors=2, iterations=1),
    }
    with caplog.at_level("INFO", "mfrank"):
        quick(rated, split.test.user_items, models=models)
    (told,) = [record.getMessage() for record in caplog.records if "read by" in record.getMessage()]
    assert told.endswith("from 1 to 5: read by reads; not read by knows, counts")


def test_implicit_minimises_the_same_sum_with_the_same_options(split):
    pytest.importorskip("implicit", reason="implicit is the extra compare")
    objectives = [RG2(), WRMF(alpha=3, regularization=0.2), WRMF(alpha=5)]
    models = default_models(objectives, factors=4, iterations=30, n_threads=1, random_state=0)
    assert len(models) == 7
    rows = quick(split, models=models, repeats=1)
    same = [row for row in rows.rows if row.objective_name == rows["mfrank WRMF"].objective_name]
    assert [row.model for row in same] == ["mfrank WRMF", "implicit ALS", "implicit ALS exact"]
    assert [row.objective for row in same] == pytest.approx([same[0].objective] * 3, rel=0.02)
    assert rows["implicit BPR"].objective is None


def test_the_options_of_the_default_models_are_those_given():
    options = {"factors": 3, "iterations": 2, "n_threads": 1, "random_state": 7}
    objectives = [RG2(), RG2(regularization=2.0), RG2(weighted=True), WRMF(alpha=3)]
    models = default_models(objectives, **options)
    as_typed = "mfrank rg2:alpha=0.05,regularization={},nu=1,ridge=own"
    read = f"{as_typed.format(0.1)},weighted=true"
    assert list(models)[:4] == ["mfrank RG2", as_typed.format(2), read, "mfrank WRMF"]
    for name in list(models)[:3]:
        told = models[name].get_params(deep=False)
        assert {option: told[option] for option in options} == options
    unsized = {"iterations": 2, "n_threads": 1, "random_state": 7}
    for factors, width in ((None, 64), (5, 5)):
        usual = usual_models(tuned=False, factors=factors, **unsized)
        assert usual["mfrank RG2"].factors == width
    if "implicit ALS" in models:
        assert usual_models(tuned=True, factors=None, **unsized)["implicit ALS"].factors == 512
        theirs = models["implicit ALS"]
        assert (theirs.factors, theirs.iterations, theirs.num_threads) == (3, 2, 1)
        assert (models["implicit ALS"].alpha, models["implicit ALS"].use_cg) == (3, True)
        assert not models["implicit ALS exact"].use_cg
        every = default_models([RG2()], **(options | {"n_threads": 0}))["implicit BPR"]
        assert every.num_threads == usable_cores()


@pytest.mark.parametrize("theirs", [False, True])
def test_only_fits_of_implicit_have_a_single_thread_of_blas(theirs, split, monkeypatch):
    threads = pytest.importorskip("threadpoolctl", reason="a dependency of implicit")
    limits = []

    @contextmanager
    def limited(*given):
        limits.append(given)
        yield

    monkeypatch.setattr(threads, "threadpool_limits", limited)
    monkeypatch.setattr(Recorder, "__module__", "implicit.made" if theirs else "explicit.made")
    fit_once(Recorder("a", []), split.train)
    assert limits == [(1, "blas")] * theirs


def test_ratios_are_to_implicits_als(against_implicit):
    rows = against_implicit
    assert rows.baseline == "implicit ALS"
    assert set(rows["implicit ALS"].ratios.values()) == {1.0, None}  # memory was not measured
    mine, theirs = rows["mfrank RG2"], rows["implicit ALS"]
    ratio = mine.evaluation["ndcg@20"].value / theirs.evaluation["ndcg@20"].value
    assert mine.ratios["NDCG@20"] == pytest.approx(ratio)
    assert "x: ratio to implicit ALS" in str(rows)
    same = "mfrank WRMF, implicit ALS, implicit ALS exact"
    assert f"objective: the same sum for {same}; the others have their own" in rows.notes


def test_time_ratios_are_medians_within_a_repeat(split, monkeypatch):
    seconds = {"a": iter([2.0, 30.0, 4.0]), "b": iter([1.0, 10.0, 4.0])}
    monkeypatch.setattr(
        "mfrank.comparison.side_by_side.is_implicit_als", lambda model: model.name == "b"
    )

    class Timed(Recorder):
        def __deepcopy__(self, memo):
            return Recorder(self.name, [], (next(seconds[self.name]),))

    rows = quick(split, models={name: Timed(name, []) for name in "ab"}, repeats=3)
    assert rows["a"].epoch_seconds == 4.0
    assert rows["a"].ratios["epoch_seconds"] == statistics.median([2.0, 3.0, 1.0])


def test_ratios_of_memory_and_of_quality_are_to_the_baseline_unless_it_has_none(split, monkeypatch):
    monkeypatch.setattr(
        "mfrank.comparison.side_by_side.is_implicit_als", lambda model: isinstance(model, Recorder)
    )
    peaks = iter([30.0, 10.0])
    monkeypatch.setattr("mfrank.comparison.protocol.peak_memory", lambda work: next(peaks))
    models = {"a": mfrank.Popularity(), "b": Recorder("b", [])}
    rows = quick(split, models=models, peak_memory=True, metrics=["recall@40", "gini@1"])
    assert rows["a"].ratios["peak_memory"] == 3.0
    recalls = [row.evaluation["recall@40"].value for row in rows.rows]
    assert rows["a"].ratios["Recall@40"] == pytest.approx(recalls[0] / recalls[1])
    nobodys = [
        mfrank.Interactions.from_arrays(range(3), at, shape=(3, 5)) for at in ([0] * 3, [4] * 3)
    ]
    peaks = iter([30.0, None])
    rows = quick(*nobodys, models=models, peak_memory=True, metrics=["recall@1"])
    assert rows["a"].ratios["Recall@1"] is None  # the baseline has 0
    assert rows["a"].ratios["peak_memory"] is None


def test_every_default_model_takes_part(against_implicit):
    names = [row.model for row in against_implicit.rows]
    assert names[:4] == ["mfrank WRMF", "mfrank IALS", "mfrank RG2", "mfrank RGX"]
    assert names[4:] == ["mfrank Popularity", "implicit ALS", "implicit ALS exact", "implicit BPR"]
    for row in against_implicit.rows:
        package = row.model.split()[0]
        assert row.library == f"{package} {version(package)}"
        assert row.model in str(against_implicit)


@pytest.mark.usefixtures("no_implicit")
def test_without_implicit_it_says_which_extra_to_install(split):
    comparison = quick(split)
    assert [row.library.split()[0] for row in comparison.rows] == ["mfrank"] * 5
    assert comparison.baseline is None
    assert "pip install mfrank[compare]" in str(comparison)
    assert all(not row.ratios for row in comparison.rows)


def test_saved_tables_hold_what_was_measured(against_implicit, tmp_path):
    against_implicit.to_json(tmp_path / "table.json")
    saved = json.loads((tmp_path / "table.json").read_text())
    assert saved == json.loads(json.dumps(against_implicit.to_dict()))
    row = against_implicit["implicit BPR"]
    assert (saved["baseline"], saved["notes"]) == ("implicit ALS", [*against_implicit.notes])
    of_all = {"users", "items", "train_entries", "test_entries", "repeats", "tune"}
    assert saved["settings"].keys() == of_all | {"threads", "machine", "python"}
    assert (saved["settings"]["threads"], saved["settings"]["repeats"]) == (1, 2)
    record = next(r for r in saved["rows"] if r["model"] == row.model)
    assert (record["peak_memory"], record["objective"], record["objective_name"]) == (
        None,
        None,
        "",
    )
    assert record["epoch_seconds"] == row.epoch_seconds
    assert record["Recall@20 standard error"] == row.evaluation["recall@20"].standard_error

    against_implicit.to_csv(tmp_path / "table.csv")
    columns = {"user": "model", "item": "library", "value": "total_seconds"}
    table = read_columns(tmp_path / "table.csv", columns)
    assert table["user"].tolist() == [row.model for row in against_implicit.rows]
    assert table["value"].tolist() == [row.total_seconds for row in against_implicit.rows]


def test_a_table_without_models_is_its_header(tmp_path):
    nothing = Comparison((), None, {})
    nothing.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == (
        "model,library,epoch_seconds,total_seconds,peak_memory,objective,objective_name\n"
    )
    assert str(nothing).startswith("model")
    assert "model" in nothing._repr_html_()


def test_tables_tell_what_was_measured_in_readable_units(split):
    metrics = ["recall@20", "gini@20"]
    row = quick(split, models={"a": Recorder("a", [])}, metrics=metrics).rows[0]
    assert row.library == __name__.partition(".")[0]  # a model of a script
    times = {"epoch_seconds": 0.5, "total_seconds": 2.0, "peak_memory": 3.0}
    measured = {"epoch_seconds": 0.01234, "total_seconds": 12.3456, "peak_memory": 3 * 2**19}
    other = replace(row, model="b", objective=1234567.0, ratios=times, **measured)
    row = replace(row, epoch_seconds=1.0, total_seconds=0.5)
    costs, quality = str(Comparison((row, other), None, {})).split("\n\n")
    assert [re.split(r"  +", line.strip()) for line in costs.splitlines()] == [
        ["model", "ms/epoch", "total s", "peak MiB", "objective"],
        ["a", "1000.00", "0.500", "-", "-"],
        ["b", "12.34", "0.50x", "12.346", "2.00x", "1.5", "3.00x", "1.23457e+06"],
    ]
    recall, gini = (row.evaluation[metric] for metric in metrics)
    cells = [f"{recall.value:.4f} ±{recall.standard_error:.4f}".replace("±0", "±")]
    cells.append(f"{gini.value:.4f}")  # the spread of users is none of the catalog's
    assert [re.split(r"  +", line.strip()) for line in quality.splitlines()] == [
        ["model", "Recall@20", "Gini@20"],
        *([name, *cells] for name in "ab"),
    ]


def test_tables_fit_the_terminal(against_implicit, monkeypatch):
    wide = str(against_implicit)
    monkeypatch.setattr("mfrank.comparison.scoreboard.terminal_width", lambda: 60)
    tables = str(against_implicit).removesuffix("\n".join(against_implicit.notes))
    assert max(map(len, tables.splitlines())) <= 60
    assert set(tables.split()) == set(wide.removesuffix("\n".join(against_implicit.notes)).split())


def test_a_table_of_unlike_rows_has_the_columns_of_all(split, tmp_path):
    row = quick(split, models={"a": Recorder("a", [])}).rows[0]
    rated = replace(row, model="b", ratios={"total_seconds": 2.0})
    Comparison((row, rated), None, {}).to_csv(tmp_path / "table.csv")
    header, *lines = (tmp_path / "table.csv").read_text().splitlines()
    assert header.endswith(",total_seconds ratio")
    assert [line.rsplit(",", 1)[1] for line in lines] == ["", "2.0"]
    assert str(Comparison((row, rated), None, {})).count("2.00x") == 1


def test_json_has_no_nan(split):
    everyone_in_train = {"models": {"a": Recorder("a", [])}}
    comparison = quick(split.train, split.train, **everyone_in_train)
    assert math.isnan(comparison["a"].evaluation["ndcg@20"].value)
    assert "NaN" not in json.dumps(comparison.to_dict())


def test_peak_memory_is_measured_where_the_system_tells(split):
    models = {"mine": ALS(factors=4, iterations=1)}
    peak = quick(split, models=models, peak_memory=True)["mine"].peak_memory
    if sys.platform == "linux":
        assert 0 <= peak < 100 * 2**20


def test_progress_tells_runs_and_ends_its_line(split, capsys):
    quick(split, models={"a": Recorder("a", [])}, repeats=2, show_progress=True)
    shown = capsys.readouterr().err
    runs = ["", "compare: run 1/2, a", "compare: run 2/2, a, 0 s left", ""]
    assert shown.split("\r\033[K") == runs


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"test": None}, {"argument": "test", "remedy": "pass it"}),
        ({"metrics": ["speed"]}, {"remedy": "write one of Precision"}),
        ({"repeats": 0}, {"argument": "repeats"}),
        ({"models": {}}, {"argument": "models"}),
        ({"n_threads": -1}, {"argument": "n_threads"}),
    ],
)
def test_bad_arguments_are_refused_before_any_fit(split, change, fault):
    order = []
    given = {"train": split.train, "test": split.test, "models": {"a": Recorder("a", order)}}
    with refuses(ValueError, **fault):
        quick(**{**given, **change})
    assert not order


def test_parts_must_be_of_one_shape(split):
    narrow = split.test.user_items[:, :10]
    with refuses(ValueError, "test", remedy="pass Interactions"):
        quick(split.train, narrow)
    other = mfrank.Interactions.from_arrays(["a", "b"], ["x", "y"])
    with refuses(mfrank.UnknownIdError, "test"):
        quick(mfrank.Interactions.from_arrays(["a", "c"], ["x", "y"]), other)
    with refuses(ValueError, remedy="pass it alone"):
        quick(split, split.test)
    with refuses(ValueError, "test"):
        quick(split.train, split.valid)


def test_a_fit_is_timed_by_epoch_and_as_a_whole(split):
    began = perf_counter()
    fit = fit_once(ALS(factors=4, iterations=5, random_state=0), split.train)
    assert fit.total_seconds <= perf_counter() - began
    epochs = [epoch["seconds"] for epoch in fit.model.store.history]
    assert fit.epoch_seconds == statistics.median(epochs)
    assert fit.total_seconds >= sum(epochs)
