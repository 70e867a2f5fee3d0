"""An option without effect is refused before any work, and named; elsewhere it counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.cli.main import main
from mfrank.pagerank import GBN, SquareLoss
from tests.support.errors import refuses

DATA = mfrank.synthetic(30, 20, 200, random_state=0)
SPLIT = mfrank.by_ratio(DATA, train=0.8, test=0.2)
FRAME = pd.DataFrame(
    {
        "user": DATA.user_ids.raw(DATA.entry_users),
        "item": DATA.item_ids.raw(DATA.user_items.indices),
        "time": np.asarray(DATA.timestamps),
    }
)
LABELS = {item: item % 2 for item in DATA.item_ids.labels.tolist()}
GROUPS = mfrank.by_popularity(DATA)
MODEL = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(DATA)
ROWS, COLUMNS = sp.csr_array(DATA.user_items)[[0]], sp.csr_array(DATA.user_items.T)[[0]]
USER, ITEM = DATA.user_ids.labels[0], DATA.item_ids.labels[0]


class Option(NamedTuple):
    """An option, other options with which it has no effect, and some with which it has one."""

    call: Callable[..., Any]
    option: dict[str, Any]
    idle: dict[str, Any]
    counts: dict[str, Any]


def als(**options: Any) -> Any:
    features = options.pop("item_features", None)
    model = mfrank.ALS(factors=2, iterations=1, random_state=0, **options)
    return model.fit(DATA, item_features=features)


def descent(**options: Any) -> Any:
    return mfrank.Descent(factors=2, iterations=1, random_state=0, **options).fit(DATA)


def walk(**options: Any) -> Any:
    return mfrank.SupervisedPageRank(random_state=0, **options).fit(DATA)


def evaluate(**options: Any) -> Any:
    return mfrank.evaluate(MODEL, SPLIT.test, **{"metrics": "ndcg@3", **options})


def compare(**options: Any) -> Any:
    return mfrank.compare(SPLIT, repeats=1, peak_memory=False, **options)


def similar_items(**options: Any) -> Any:
    return MODEL.similar_items([ITEM], **options)


def similar_users(**options: Any) -> Any:
    return MODEL.similar_users([USER], **options)


def from_arrays(**options: Any) -> Any:
    return mfrank.Interactions.from_arrays(FRAME["user"], FRAME["item"], **options)


def events(**options: Any) -> Any:
    kinds = ["view"] * len(FRAME)
    return mfrank.Events.from_arrays(FRAME["user"], FRAME["item"], kinds, **options)


def from_frame(**options: Any) -> Any:
    return mfrank.Interactions.from_frame(FRAME, **options)


ONE = {"models": {"popular": mfrank.Popularity()}}
LEARN = {"method": GBN(iterations=1)}
OPTIONS = {
    "steps, exact": Option(als, {"cg_steps": 2}, {"solver": "cholesky"}, {"solver": "cg"}),
    "tolerance, exact": Option(
        als, {"cg_tolerance": 0.1}, {"solver": "cholesky"}, {"solver": "auto"}
    ),
    "steps, tolerance": Option(als, {"cg_steps": 2}, {"cg_tolerance": 0.1}, {}),
    "steps, biases": Option(als, {"cg_steps": 2}, {"biases": True}, {}),
    "ridge of features": Option(
        als, {"feature_regularization": 2.0}, {}, {"item_features": sp.eye_array(20).tocsr()}
    ),
    "popularity power": Option(
        descent, {"popularity_power": 0.5}, {}, {"negative_sampling": "popularity"}
    ),
    "popularity power, in batch": Option(
        *(descent, {"popularity_power": 0.5}, {"negative_sampling": "in-batch"}),
        {"negative_sampling": "popularity"},
    ),
    "shared negatives": Option(descent, {"shared_negatives": True}, {"negatives": None}, {}),
    "positives": Option(descent, {"positives": 3}, {"batches": "positives"}, {}),
    "queries": Option(walk, {"queries": 3}, {"method": None}, LEARN),
    "candidates": Option(walk, {"candidates": 3}, {"method": None}, LEARN),
    "loss": Option(walk, {"loss": SquareLoss(0.1)}, {"method": None}, LEARN),
    "steepness": Option(mfrank.KSONG, {"steepness": 3.0}, {"choice": "hinge"}, {}),
    "from zero": Option(mfrank.SONG, {"from_zero": True}, {"decay": 1.0}, {"decay": 0.5}),
    "decay": Option(mfrank.SOPRC, {"decay": 0.5}, {}, {"order_statistics": 3}),
    "categories": Option(
        mfrank.Steering, {"categories": LABELS}, {"diversity": 0.1}, {"calibration": 0.1}
    ),
    "pool": Option(mfrank.Steering, {"pool": 50}, {"boosts": {ITEM: 1.0}}, {"diversity": 0.1}),
    "groups": Option(evaluate, {"item_groups": GROUPS}, {"metrics": "auc"}, {}),
    "epochs of models": Option(compare, {"iterations": 2}, ONE, {}),
    "factors of models": Option(compare, {"factors": 2}, ONE, {}),
    "rows of items": Option(
        *(similar_items, {"item_users": COLUMNS}, {}, {"recalculate_item": True})
    ),
    "rows of similar users": Option(
        *(similar_users, {"user_items": ROWS}, {}, {"recalculate_user": True})
    ),
    "unit of arrays": Option(
        from_arrays, {"timestamp_unit": "s"}, {}, {"timestamps": FRAME["time"].to_numpy()}
    ),
    "unit of events": Option(
        events, {"timestamp_unit": "s"}, {}, {"timestamps": FRAME["time"].to_numpy()}
    ),
    "unit, ignored": Option(from_frame, {"timestamp_unit": "s"}, {"timestamp": False}, {}),
}


SEARCHED = (als, descent, walk, mfrank.KSONG, mfrank.SONG, mfrank.SOPRC, mfrank.Steering)
"""Whose options are searched, each beside any value of the others."""
AS_IMPLICIT = (similar_items, similar_users)


@pytest.mark.parametrize("case", OPTIONS.values(), ids=OPTIONS)
def test_an_option_without_effect_is_told_or_refused(case: Option) -> None:
    if case.call in (*SEARCHED, *AS_IMPLICIT):
        (name,) = case.option
        with pytest.warns(RuntimeWarning, match=f"{name}.* ha(s|ve) no effect"):
            case.call(**case.option, **case.idle)
    else:
        with refuses(ValueError, *case.option, remedy="leave"):
            case.call(**case.option, **case.idle)
    case.call(**case.idle)
    case.call(**case.option, **case.counts)


@pytest.mark.parametrize("doors", ["read", "ingested", "events"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("sep", ","), ("quote", None), ("encoding", "cp1252"), ("comment", "#"), ("lines", "rows")],
)
def test_options_of_text_are_refused_where_no_file_is_text(
    tmp_path: Path, doors: str, name: str, value: Any
) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME.to_csv(tmp_path / "b.csv", index=False)

    def read(*files: str, **options: Any) -> Any:
        paths = [tmp_path / file for file in files]
        if doors == "ingested":
            return mfrank.Interactions.ingest(paths, tmp_path / "folder", **options)
        if doors == "events":
            return mfrank.Events.from_file(paths, event="time", timestamp=False, **options)
        return mfrank.Interactions.from_file(paths, **options)

    with refuses(ValueError, name, place="a.parquet", remedy="leave it out"):
        read("a.parquet", **{name: value})
    assert read("a.parquet").user_ids == read("b.csv", **{name: value}).user_ids
    read("a.parquet", "b.csv", **{name: value})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"user": 1, "item": 2}\n'),
        ("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n"),
    ],
)
def test_quotes_are_of_tables_alone(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with refuses(ValueError, "quote", remedy="leave it out"):
        mfrank.Interactions.from_file(tmp_path / name, quote=None)
    mfrank.Interactions.from_file(tmp_path / name)


def test_a_unit_without_timestamps_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By files, tables, streams of tables and an ingest; and not where there are timestamps."""
    bare = FRAME[["user", "item"]]
    read: list[Callable[[pd.DataFrame], Any]] = [
        lambda frame: mfrank.Interactions.from_frame(frame, timestamp_unit="s"),
        lambda frame: mfrank.Interactions.from_frame(iter([frame]), timestamp_unit="s"),
        lambda frame: mfrank.Interactions.from_file(written(frame, "csv"), timestamp_unit="s"),
        lambda frame: mfrank.Interactions.from_file(written(frame, "parquet"), timestamp_unit="s"),
        lambda frame: mfrank.Interactions.ingest(
            written(frame, "csv"), tmp_path / "folder", timestamp_unit="s"
        ),
    ]

    def written(frame: pd.DataFrame, suffix: str) -> Path:
        path = tmp_path / f"a.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
        return path

    for door in read:
        for frame, told in (bare, 1), (FRAME, 0):
            caplog.clear()
            door(frame)
            assert caplog.text.count("timestamp_unit has no effect") == told


LINES = {
    "--timestamp has no effect": "info a.csv --no-timestamp --timestamp time",
    "--timestamp-unit has no effect": "info a.csv --no-timestamp --timestamp-unit s",
    "--factors has no effect": "tune a.csv --model new --refit old --factors 3",
    "--random-state has no effect": "tune a.csv --model new --refit old --random-state 3",
    "--n-threads has no effect": "tune a.csv --model new --refit old --n-threads 1",
    "--iterations has no effect": "compare a.csv --tune 1 --iterations 3",
    "--skip-unknown has no effect": "recommend --model old --skip-unknown",
    "--sep has no effect": "info a.parquet --sep ,",
    "--explore-depth needs --explore": "serve old --explore-depth 3",
}
SEARCHED_LINES = {
    "--categories have no effect": "recommend --model old --categories kinds.csv",
    "--cg-steps has no effect": "fit a.csv --model new --solver cholesky --cg-steps 2",
    "--feature-regularization has no effect": "fit a.csv --model new --feature-regularization 2",
    "--popularity-power has no effect": "descend a.csv --model new --popularity-power 0.5",
    "--queries has no effect": "pagerank a.csv --model new --untuned --queries 3",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the lines below name, in the current folder."""
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("a.csv", index=False)
    FRAME.to_parquet("a.parquet")
    pd.DataFrame(LABELS.items(), columns=["item", "kind"]).to_csv("kinds.csv", index=False)
    MODEL.save("old")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("told", "line"), LINES.items(), ids=LINES.values())
def test_a_flag_without_effect_is_refused(
    told: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) != 0
    assert told in capsys.readouterr().err
    assert not Path("new").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("told", "line"), SEARCHED_LINES.items(), ids=SEARCHED_LINES.values())
def test_an_option_without_effect_is_told(
    told: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 0
    assert told in capsys.readouterr().err
