"""A model knows by which values the rows of its data were chosen, and says where others were."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.pages import app
from mfrank.serving import Event, EventJournal
from mfrank.serving.visitors import list_of
from tests.models.test_thresholds import MODELS, STEPS, WAYS, said
from tests.support.errors import refuses

N = 600
BOUGHT = {"event": "purchase"}


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user": [f"u{n:02}" for n in rng.integers(0, 24, N)],
            "item": [f"i{n:02}" for n in rng.integers(0, 18, N)],
            "event": rng.choice(["view", "purchase"], N),
            "timestamp": rng.integers(1_700_000_000, 1_710_000_000, N),
        }
    )


LOG = table()


def in_csv(at: Path, where: Any) -> mfrank.Interactions:
    LOG.to_csv(at / "log.csv", index=False)
    return mfrank.Interactions.from_file(at / "log.csv", where=where)


def in_json(at: Path, where: Any) -> mfrank.Interactions:
    LOG.to_json(at / "log.jsonl", orient="records", lines=True)
    return mfrank.Interactions.from_file(at / "log.jsonl", where=where)


def in_parquet(at: Path, where: Any) -> mfrank.Interactions:
    pytest.importorskip("pyarrow")
    LOG.to_parquet(at / "log.parquet")
    return mfrank.Interactions.from_file(at / "log.parquet", where=where)


def in_parts(at: Path, where: Any) -> mfrank.Interactions:
    for part in (0, 1):
        LOG[part::2].to_csv(at / f"part-{part}.csv", index=False)
    return mfrank.Interactions.from_file(f"{at}/part-*.csv", where=where)


def in_sql(at: Path, where: Any, **how: Any) -> mfrank.Interactions:
    with sqlite3.connect(at / "log.sqlite") as connection:
        LOG.to_sql("log", connection, if_exists="replace", index=False)
        return mfrank.Interactions.from_sql("log", connection, where=where, **how)


def in_polars(_: Path, where: Any) -> mfrank.Interactions:
    polars = pytest.importorskip("polars")
    return mfrank.Interactions.from_frame(polars.DataFrame(LOG.to_dict("list")), where=where)


def ingested(at: Path, where: Any) -> mfrank.Interactions:
    LOG.to_csv(at / "log.csv", index=False)
    return mfrank.Interactions.ingest(at / "log.csv", at / "data", where=where)


READERS: Mapping[str, Callable[[Path, Any], mfrank.Interactions]] = {
    "pandas": lambda _, where: mfrank.Interactions.from_frame(LOG, where=where),
    "frames": lambda _, where: mfrank.Interactions.from_frame([LOG[::2], LOG[1::2]], where=where),
    "polars": in_polars,
    "csv": in_csv,
    "json": in_json,
    "parquet": in_parquet,
    "parts": in_parts,
    "sql": in_sql,
    "sql on disk": lambda at, where: in_sql(at, where, folder=at / "data"),
    "ingest": ingested,
    "ingest of frames": lambda at, where: mfrank.Interactions.ingest(
        [LOG[::2], LOG[1::2]], at / "data", where=where
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_tells_chosen_rows_from_all(tmp_path: Path, reader: str) -> None:
    assert READERS[reader](tmp_path, BOUGHT).where == {"event": ("purchase",)}
    assert READERS[reader](tmp_path, None).where == {"event": None}
    both = READERS[reader](tmp_path, {"event": ["view", "purchase"]})
    assert both.where == {"event": ("purchase", "view")}


def read(where: Any = None, seed: int = 0) -> mfrank.Interactions:
    return mfrank.Interactions.from_frame(table(seed), where=where)


@pytest.mark.parametrize("step", [*STEPS, "at_least"])
def test_no_step_forgets_which_rows_were_read(tmp_path: Path, step: str) -> None:
    change = {**STEPS, "at_least": lambda data, _: data.at_least(1)}[step]
    assert change(read(BOUGHT), tmp_path / "chosen").where == {"event": ("purchase",)}
    assert change(read(), tmp_path / "all").where == {"event": None}


def test_joined_data_have_the_rows_of_all_parts() -> None:
    bought, seen, everything = read(BOUGHT), read({"event": "view"}), read()
    unknown = mfrank.Interactions.from_arrays(["u01"], ["i01"], timestamps=[1_705_000_000])
    assert (bought + seen).where == {"event": ("purchase", "view")}
    assert (bought + everything).where == {"event": None}
    assert (bought + unknown).where == {}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("user", ["u01", "u02"]),
        ("item_id", ["i01"]),
        ("day", ["1"]),
        ("order_date", ["2026-01-01"]),
        ("split", ["train"]),
        ("campaign", [str(each) for each in range(101)]),
    ],
)
def test_what_later_data_do_not_share_is_no_kind_of_rows(column: str, values: list[str]) -> None:
    """Users, days and parts of a split: an update and a test part have others."""
    rows = {"user": ["u01", "u02"], "item": ["i01", "i02"], column: [values[0], values[0]]}
    frame = pd.DataFrame(rows if column != "item_id" else {"user": ["a"], "item_id": ["i01"]})
    how = {"timestamp": False}
    assert mfrank.Interactions.from_frame(frame, where={column: values}, **how).where == {}


def test_values_may_choose_rows() -> None:
    rated = LOG.assign(rating=np.arange(N) % 5 + 1)
    high = mfrank.Interactions.from_frame(rated, where={"rating": [4, 5]})
    assert high.where == {"rating": ("4", "5"), "event": None}
    assert mfrank.Interactions.from_frame(rated).where == {"rating": None, "event": None}


def test_weights_of_kinds_are_a_choice_of_their_own() -> None:
    weighed = mfrank.Interactions.from_frame(LOG, weights={"view": None, "purchase": 1})
    assert weighed.where == {}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_how_its_rows_were_chosen(tmp_path: Path, name: str, way: str) -> None:
    found = WAYS[way](MODELS[name]().fit(read(BOUGHT)), tmp_path).where
    assert found == {"event": ("purchase",)}
    assert WAYS[way](MODELS[name]().fit(read()), tmp_path / "all").where == {}


def test_what_changes_a_model_keeps_it(tmp_path: Path) -> None:
    for kind in ("wrmf", "popularity", "ease"):
        model = MODELS[kind]().fit(read(BOUGHT))
        model.partial_fit(read(BOUGHT, seed=1))
        model.remove(users=["u03"])
        assert mfrank.load(model.save(tmp_path / kind)).where == {"event": ("purchase",)}


def test_folders_of_all_rows_are_those_of_earlier_versions(tmp_path: Path) -> None:
    folder = MODELS["wrmf"]().fit(read()).save(tmp_path / "m")
    assert "where" not in json.loads((folder / "manifest.json").read_text())["metadata"]


@pytest.mark.parametrize("wrong", ["purchase", {"event": "purchase"}, {"event": [1]}])
@pytest.mark.parametrize("kind", ["model", "interactions"])
def test_a_damaged_choice_is_refused(tmp_path: Path, kind: str, wrong: Any) -> None:
    data = read(BOUGHT)
    folder = MODELS["wrmf"]().fit(data).save(tmp_path / "f") if kind == "model" else tmp_path / "f"
    if kind != "model":
        data.to_folder(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["metadata"]["where"] = wrong
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with refuses(ValueError, "where", remedy="restore it"):
        (mfrank.load if kind == "model" else mfrank.Interactions.open)(folder)


# what is said


def als() -> mfrank.ALS:
    return mfrank.ALS(mfrank.WRMF(), factors=2, iterations=1, random_state=0)


TRAIN = read(BOUGHT)
DOORS: Mapping[str, Callable[[Any], Any]] = {
    "partial_fit": lambda data: als().fit(TRAIN).partial_fit(data),
    "partial_fit, old": lambda data: als().fit(TRAIN).partial_fit(user_items=data),
    "partial_fit of a descent": lambda data: MODELS["descent"]().fit(TRAIN).partial_fit(data),
    "partial_fit of counts": lambda data: mfrank.Popularity().fit(TRAIN).partial_fit(data),
    "partial_fit of a regression": lambda data: mfrank.EASE().fit(TRAIN).partial_fit(data),
    "partial_fit of a blend": lambda data: (
        mfrank.Blend([mfrank.EASE(), als()]).fit(TRAIN).partial_fit(data)
    ),
    "partial_fit_users": lambda data: als().fit(TRAIN).partial_fit_users(["u00", "u01"], data),
    "partial_fit_items": lambda data: als().fit(TRAIN).partial_fit_items(["i00", "i01"], data),
    "evaluate": lambda data: mfrank.evaluate(als().fit(TRAIN), data),
    "early stopping": lambda data: als().fit(TRAIN, stopping=mfrank.EarlyStopping(data)),
    "tune": lambda data: mfrank.tune(TRAIN, valid=data, trials=1, factors=2, n_threads=1),
    "pages": lambda data: app({"als": als().fit(TRAIN)}, data),
}


def told_of(caplog: pytest.LogCaptureFixture, act: Callable[[], Any], level: int) -> list[str]:
    return said(caplog, act, level, "the fit's data only")


@pytest.mark.parametrize("door", DOORS)
def test_rows_of_any_kind_are_told_once(caplog: pytest.LogCaptureFixture, door: str) -> None:
    new = read(seed=1)
    (told,) = told_of(caplog, lambda: DOORS[door](new), logging.WARNING)
    assert "where={'event': 'purchase'}" in told
    assert "column 'event'" in told


@pytest.mark.parametrize("where", [BOUGHT, {"event": ["view", "purchase"]}], ids=["same", "meant"])
@pytest.mark.parametrize("door", DOORS)
def test_nothing_is_told_of_rows_that_were_chosen(
    caplog: pytest.LogCaptureFixture, door: str, where: Any
) -> None:
    new = read(where, seed=1)
    assert not told_of(caplog, lambda: DOORS[door](new), logging.INFO)


@pytest.mark.parametrize("door", DOORS)
def test_data_without_the_column_may_be_of_such_rows(
    caplog: pytest.LogCaptureFixture, door: str
) -> None:
    new = mfrank.Interactions.from_frame(table(1)[["user", "item", "timestamp"]])
    assert not told_of(caplog, lambda: DOORS[door](new), logging.WARNING)
    (told,) = told_of(caplog, lambda: DOORS[door](new), logging.INFO)
    assert "no column 'event'" in told


def test_a_model_of_all_rows_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    for new in (read(BOUGHT, 1), read(seed=1)):
        assert not told_of(caplog, lambda new=new: als().fit(read()).partial_fit(new), logging.INFO)


def test_the_command_line_remembers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, model = str(tmp_path / "log.csv"), str(tmp_path / "model")
    LOG.to_csv(log, index=False)
    fit = ["fit", log, "--model", model, "--factors", "2", "--iterations", "1"]
    assert main([*fit, "--where", "event=purchase"]) == 0
    assert main(["info", "--model", model]) == 0
    assert "event=purchase" in capfd.readouterr().out
    rows = {n: str(tmp_path / f"{n}.csv") for n in ("unnamed", "others")}
    table(1)[["user", "item"]].to_csv(rows["unnamed"], index=False)
    table(1).to_csv(rows["others"], index=False)
    ingest = ["ingest", rows["others"], "--folder", str(tmp_path / "data")]
    assert main(ingest) == 0
    bought = ["--where", "event=purchase"]
    meant = [*bought, "--where", "event=view"]
    newer = str(tmp_path / "newer")
    for file, flags, told in (
        (rows["others"], [], "only rows of --where event=purchase are read, as of the fit"),
        (rows["others"], bought, ""),
        (rows["others"], meant, ""),
        (rows["unnamed"], [], "no column 'event'"),
        (str(tmp_path / "data"), [], "has rows with any value in column 'event'"),
    ):
        capfd.readouterr()
        assert main(["update", file, "--model", model, "--output", newer, *flags]) == 0
        err = capfd.readouterr().err
        assert told in err
        assert ("as of the fit" in err or "the fit's data" in err) == bool(told)
        assert main(["evaluate", "--model", model, "--test", file, *flags]) == 0
        assert told in capfd.readouterr().err


def test_the_command_line_reads_the_rows_of_the_fit(tmp_path: Path) -> None:
    log, other = str(tmp_path / "log.csv"), str(tmp_path / "other.csv")
    model, bought = str(tmp_path / "model"), {"event": "purchase"}
    LOG.to_csv(log, index=False)
    table(1).to_csv(other, index=False)
    assert main(["fit", log, "--model", model, "--factors", "2", "--where", "event=purchase"]) == 0
    assert main(["update", other, "--model", model, "--output", str(tmp_path / "newer")]) == 0
    expected = mfrank.load(model).partial_fit(mfrank.Interactions.from_file(other, where=bought))
    made = mfrank.load(tmp_path / "newer")
    np.testing.assert_array_equal(made.store.user_factors, expected.store.user_factors)
    assert main(["tune", other, "--refit", model, "--model", str(tmp_path / "again")]) == 0
    assert mfrank.load(tmp_path / "again").where == {"event": ("purchase",)}


# The journal of a service has kinds of its own.


def journal_of(folder: Path, kinds: list[str | None]) -> EventJournal:
    journal = EventJournal(folder)
    journal.append([Event("new", f"i{n:02}", kind) for n, kind in enumerate(kinds)])
    return journal


def items_of(model: Any, user: str) -> list[str]:
    (row,) = model.user_ids.rows([user])
    liked = model.seen.positives[[row]].indices
    return sorted(model.item_ids.labels[liked].tolist())


def test_a_journal_is_read_as_the_fits_data(tmp_path: Path, caplog: Any) -> None:
    """Events without a kind are those that the service is told of."""
    journal = journal_of(tmp_path, ["view", "purchase", None, "cart"])
    model = als().fit(TRAIN)
    with caplog.at_level(logging.INFO, "mfrank"):
        assert journal.update(model) == 4
    assert sum("2 of 4 events" in each for each in caplog.messages) == 1
    assert items_of(model, "new") == ["i01", "i02"]
    everything = als().fit(read())
    journal.update(everything)
    assert items_of(everything, "new") == ["i00", "i01", "i02", "i03"]


def test_a_journal_counts_by_the_weights_of_the_fit(tmp_path: Path, caplog: Any) -> None:
    weights = {"view": 0.5, "purchase": 1.0}
    events = mfrank.Events.from_frame(LOG)
    model = mfrank.tune(events, target="purchase", weights=weights, trials=1, factors=2).model
    journal = journal_of(tmp_path, ["view", "purchase"])
    weighed = journal.interactions(journal.position(model), journal.last, weights=weights)
    alone, both = copy(model), copy(model)
    with caplog.at_level(logging.INFO, "mfrank"):
        journal.update(alone)
    assert "count by the weights of the fit (purchase 1, view 0.5)" in caplog.text
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    journal.update(both, read=lambda *_: weighed)
    row = alone.user_ids.rows(["new"])
    assert (alone.seen.matrix[row] != both.seen.matrix[row]).nnz == 0
    assert alone.event_weights == both.event_weights


def test_events_of_other_kinds_alone_are_had_and_not_learned(tmp_path: Path) -> None:
    journal, model = journal_of(tmp_path, ["view", "view"]), als().fit(TRAIN)
    assert journal.update(model) == 2
    assert "new" not in model.user_ids.labels.tolist()
    assert journal.update(model) == 0


def test_the_command_that_reads_a_journal_does_so_too(tmp_path: Path, capfd: Any) -> None:
    journal_of(tmp_path / "journal", ["view", "purchase"])
    folder = als().fit(TRAIN).save(tmp_path / "model")
    update = ["update", "--journal", str(tmp_path / "journal"), "--model", str(folder)]
    for flags, items in (([], ["i01"]), (["--weights", "view=1,purchase=5"], ["i00", "i01"])):
        assert main([*update, "--output", str(tmp_path / "newer"), *flags]) == 0
        assert items_of(mfrank.load(tmp_path / "newer"), "new") == items
    assert capfd.readouterr().err.count("of other kinds than 'purchase'") == 1


def test_lists_of_visitors_follow_what_an_update_would_learn(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, ["view", "purchase"])
    options: dict[str, Any] = {"include_seen": True, "fallback": "none", "steer": None}
    found = {
        name: list_of(model, "new", 5, journal.of_user("new", 0), [], options)
        for name, model in {"bought": als().fit(TRAIN), "all": als().fit(read())}.items()
    }
    of_bought = als().fit(TRAIN).recommend_from_items(["i01"], 6)
    expected = [each for each in of_bought.ids.tolist() if each != "i01"]
    listed = [each["id"] for each in found["bought"] if each["id"] != "i01"]
    assert listed[:4] == expected[:4]
    of_both = als().fit(read()).recommend_from_items(["i00", "i01"], 3)
    others = [each["id"] for each in found["all"] if each["id"] not in ("i00", "i01")]
    assert others[:3] == of_both.ids.tolist()[:3]


# One kind of an event log, and weights of kinds.

EVENT_DOORS: Mapping[str, Callable[[Path], mfrank.Events]] = {
    "pandas": lambda _: mfrank.Events.from_frame(LOG),
    "frames": lambda _: mfrank.Events.from_frame([LOG[::2], LOG[1::2]]),
    "csv": lambda at: mfrank.Events.from_file(text_of(LOG, at)),
    "parts": lambda at: mfrank.Events.from_file([text_of(LOG[::2], at), text_of(LOG[1::2], at)]),
    "another name": lambda at: mfrank.Events.from_frame(
        LOG.rename(columns={"event": "what"}), event="what"
    ),
    "sql": lambda at: in_database(at),
    "arrays": lambda _: mfrank.Events.from_arrays(LOG["user"], LOG["item"], LOG["event"]),
}


def text_of(frame: pd.DataFrame, at: Path) -> Path:
    path = at / f"log-{frame.index[0]}.csv"
    frame.to_csv(path, index=False)
    return path


def in_database(at: Path) -> mfrank.Events:
    with sqlite3.connect(at / "log.sqlite") as connection:
        LOG.to_sql("log", connection, if_exists="replace", index=False)
        return mfrank.Events.from_sql("log", connection)


@pytest.mark.parametrize("door", EVENT_DOORS)
def test_one_kind_of_an_event_log_knows_its_kind(tmp_path: Path, door: str) -> None:
    events = EVENT_DOORS[door](tmp_path)
    column = "what" if door == "another name" else "event"
    assert events["purchase"].where == {column: ("purchase",)}
    weighed = events.take(events.codes >= 0).weighted({"view": 1, "purchase": 3})
    assert weighed.event_weights == {"view": 1, "purchase": 3}
    if events.timestamps is not None:
        parts = events.split("purchase", mfrank.by_time, test=0.2)
        assert parts.test.where == parts.train["purchase"].where == {column: ("purchase",)}


def test_further_conditions_of_an_event_log_are_known() -> None:
    log = LOG.assign(country=np.where(np.arange(N) % 2, "de", "fr"))
    events = mfrank.Events.from_frame(log, where={"country": "de"})
    assert events["view"].where == {"country": ("de",), "event": ("view",)}
    assert events.weighted({"view": 1, "purchase": 2}).where == {"country": ("de",)}


LOGS = mfrank.Events.from_frame(LOG), mfrank.Events.from_frame(table(1))


@pytest.mark.parametrize("kind", [als, mfrank.Popularity, mfrank.EASE])
def test_an_update_of_one_kind_by_others_is_told(caplog: Any, kind: Callable[[], Any]) -> None:
    before, after = LOGS
    weights = {"view": 1, "purchase": 3}
    for new, n_warned, n_logged in (
        (after["purchase"], 0, 0),
        (after["view"], 0, 1),
        (after.weighted(weights), 0, 1),
        (after.weighted({"view": None, "purchase": 3}), 0, 0),
        (read(seed=1), 1, 1),
    ):
        model = kind().fit(before["purchase"])
        assert len(told_of(caplog, lambda m=model, n=new: m.partial_fit(n), logging.WARNING)) == (
            n_warned
        )
        model = kind().fit(before["purchase"])
        told = told_of(caplog, lambda m=model, n=new: m.partial_fit(n), logging.INFO)
        assert len(told) == n_logged
        assert all("purchase" in line for line in told)


WEIGHTS = {"view": 1.0, "purchase": 3.0}
WEIGHED: Mapping[str, Callable[[Path], mfrank.Interactions]] = {
    "pandas": lambda _: mfrank.Interactions.from_frame(LOG, weights=WEIGHTS),
    "csv": lambda at: mfrank.Interactions.from_file(text_of(LOG, at), weights=WEIGHTS),
    "ingest": lambda at: mfrank.Interactions.ingest(text_of(LOG, at), at / "f", weights=WEIGHTS),
    "ingest of frames": lambda at: mfrank.Interactions.ingest(
        [LOG[::2], LOG[1::2]], at / "f", weights=WEIGHTS
    ),
    "sql": lambda at: in_sql(at, None, weights=WEIGHTS),
    "arrays": lambda _: mfrank.Interactions.from_arrays(
        *(LOG[name] for name in ("user", "item")),
        timestamps=LOG["timestamp"],
        events=LOG["event"],
        weights=WEIGHTS,
    ),
    "events": lambda _: LOGS[0].weighted(WEIGHTS),
}


@pytest.mark.parametrize("door", WEIGHED)
def test_every_reader_knows_the_weights_of_kinds(tmp_path: Path, door: str) -> None:
    assert WEIGHED[door](tmp_path).event_weights == WEIGHTS


@pytest.mark.parametrize("step", [*STEPS, "at_least"])
def test_no_step_forgets_the_weights_of_kinds(tmp_path: Path, step: str) -> None:
    change = {**STEPS, "at_least": lambda data, _: data.at_least(1)}[step]
    assert change(WEIGHED["pandas"](tmp_path), tmp_path / "f").event_weights == WEIGHTS
    assert change(read(), tmp_path / "all").event_weights == {}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_the_weights_of_kinds(tmp_path: Path, name: str, way: str) -> None:
    model = WAYS[way](MODELS[name]().fit(WEIGHED["pandas"](tmp_path)), tmp_path / "m")
    assert model.event_weights == WEIGHTS


@pytest.mark.parametrize("kind", [als, mfrank.Popularity, mfrank.EASE])
def test_an_update_or_refit_without_the_weights_is_told(
    caplog: Any, tmp_path: Path, kind: Callable[[], Any]
) -> None:
    made = kind().fit(WEIGHED["pandas"](tmp_path))
    again = mfrank.Interactions.from_frame(table(1), weights=WEIGHTS)
    for new, n_told in ((read(seed=1), 1), (again, 0), (read(BOUGHT, seed=1), 0)):
        for change in (lambda m, n: m.partial_fit(n), mfrank.refit):
            model = copy(made)
            told = said(
                *(caplog, lambda m=model, n=new, c=change: c(m, n), logging.WARNING),
                "those of the fit had weights=",
            )
            assert len(told) == n_told
    assert mfrank.refit(made, again).event_weights == WEIGHTS
    made.partial_fit(again).partial_fit(again)
    assert made.remove(users=["u03"]).event_weights == WEIGHTS


JUDGED: Mapping[str, Callable[[Any, Any], Any]] = {
    "evaluate": mfrank.evaluate,
    "pages": lambda model, data: app({"als": model}, data),
    "training data": lambda model, data: mfrank.evaluate(
        replace(model.store, event_weights={}),
        data,
        train=mfrank.Interactions.from_frame(LOG, weights=WEIGHTS),
    ),
}


@pytest.mark.parametrize("door", JUDGED)
def test_tests_without_the_weights_of_the_fit_are_told(caplog: Any, door: str) -> None:
    model = als().fit(mfrank.Interactions.from_frame(LOG, weights=WEIGHTS))
    again = mfrank.Interactions.from_frame(table(1), weights=WEIGHTS)
    for new, n_told in ((read(seed=1), 1), (again, 0), (read(BOUGHT, seed=1), 0)):
        act = lambda n=new: JUDGED[door](model, n)  # noqa: E731
        told = said(caplog, act, logging.WARNING, "those of the fit had weights=")
        assert len(told) == n_told


def test_the_command_line_knows_the_weights_of_kinds(tmp_path: Path, capfd: Any) -> None:
    log, model = str(text_of(LOG, tmp_path)), str(tmp_path / "model")
    weights = ["--weights", "view=1,purchase=3"]
    fit = ["fit", log, "--model", model, "--factors", "2", "--iterations", "1"]
    assert main([*fit, "--objective", "wrmf", *weights]) == 0
    assert main(["info", "--model", model]) == 0
    assert "view=1,purchase=3" in capfd.readouterr().out
    for flags, n_told in (([], 1), (weights, 0)):
        for command in (
            ["update", log, "--model", model, "--output", str(tmp_path / "newer")],
            ["tune", log, "--refit", model, "--model", str(tmp_path / "again")],
        ):
            assert main([*command, *flags]) == 0
            assert capfd.readouterr().err.count("those of the fit had") == n_told
    assert mfrank.load(tmp_path / "again").event_weights == WEIGHTS


@pytest.mark.parametrize("wrong", ["view=1", {"view": "1"}, {"view": [1]}])
def test_damaged_weights_are_refused(tmp_path: Path, wrong: Any) -> None:
    folder = als().fit(WEIGHED["pandas"](tmp_path)).save(tmp_path / "f")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["metadata"]["event_weights"] = wrong
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with refuses(ValueError, "event_weights", remedy="restore it"):
        mfrank.load(folder)
