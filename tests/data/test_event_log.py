"""Events one by one: read, added up, and divided so that nothing is given away."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="needs pandas")
Events, Interactions = mfrank.Events, mfrank.Interactions
KINDS = ["cart", "purchase", "view"]
WEIGHTS = {"view": 1, "cart": 3, "purchase": 5.5}


def drawn(n: int = 400, seed: int = 0, timed: bool = True) -> Any:
    rng = np.random.default_rng(seed)
    columns = {
        "user": [f"u{k}" for k in rng.integers(0, 20, n)],
        "item": rng.integers(0, 15, n),
        "event": [KINDS[k] for k in rng.choice(3, n, p=[0.2, 0.2, 0.6])],
    }
    if timed:
        columns["time"] = rng.integers(0, 200, n)
    return pandas.DataFrame(columns)


def text(frame: Any, folder: Path) -> Path:
    frame.to_csv(folder / "a.csv", index=False)
    return folder / "a.csv"


def of_arrays(frame: Any, _: Path) -> mfrank.Events:
    times = frame.get("time")
    return Events.from_arrays(frame["user"], frame["item"], frame["event"], timestamps=times)


def of_polars(frame: Any, _: Path) -> mfrank.Events:
    polars = pytest.importorskip("polars", reason="needs polars")
    return Events.from_frame(polars.from_pandas(frame))


def of_parquet(frame: Any, folder: Path) -> mfrank.Events:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    frame.to_parquet(folder / "a.parquet")
    return Events.from_file(folder / "a.parquet")


def of_sql(frame: Any, folder: Path) -> mfrank.Events:
    with closing(sqlite3.connect(folder / "a.db")) as connection:
        frame.to_sql("shop", connection, index=False)
        return Events.from_sql("SELECT * FROM shop", connection)


def of_parts(frame: Any, folder: Path) -> mfrank.Events:
    for number, part in enumerate([frame[:150], frame[150:]]):
        part.to_csv(folder / f"{number}.csv", index=False)
    return Events.from_file(f"{folder}/*.csv")


DOORS: dict[str, Callable[[Any, Path], mfrank.Events]] = {
    "arrays": of_arrays,
    "pandas": lambda frame, _: Events.of(frame),
    "polars": of_polars,
    "text": lambda frame, folder: Events.from_file(text(frame, folder)),
    "parquet": of_parquet,
    "parts": of_parts,
    "sql": of_sql,
}


def cells(data: Interactions) -> list[tuple[Any, ...]]:
    frame = data.to_pandas()
    return sorted(map(tuple, frame.to_numpy().tolist()))


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_the_same_kinds_and_sums(door: str, timed: bool, tmp_path: Path) -> None:
    frame = drawn(timed=timed)
    events = DOORS[door](frame, tmp_path)
    assert events.kinds == tuple(KINDS)
    assert events.counts == frame["event"].value_counts().to_dict()
    assert len(events) == len(frame)
    assert cells(events.weighted(WEIGHTS)) == cells(Interactions.from_frame(frame, weights=WEIGHTS))
    for kind in KINDS:
        alone = Interactions.from_frame(frame, where={"event": kind})
        assert cells(events[kind]) == cells(alone)
        assert events[kind].user_ids is events.user_ids


def test_values_and_conditions_are_read(tmp_path: Path) -> None:
    frame = drawn().assign(quantity=2)
    path = text(frame, tmp_path)
    for events in (
        Events.from_file(path, value="quantity", where={"event": ["view", "purchase"]}),
        Events.from_frame(frame, value="quantity", where={"event": ["view", "purchase"]}),
    ):
        assert events.kinds == ("purchase", "view")
        assert events["view"].user_items.sum() == 2 * (frame["event"] == "view").sum()


@given(
    cap=st.none() | st.sampled_from([1.0, 4.0]), half_life=st.none() | st.sampled_from([10.0, 300])
)
@settings(deadline=None, max_examples=12)
def test_each_event_ages_by_its_own_time_before_the_sum(
    cap: float | None, half_life: float | None
) -> None:
    frame = drawn()
    data = Events.of(frame).weighted(WEIGHTS, cap=cap, half_life=half_life)
    each = frame["event"].map(WEIGHTS)
    if half_life is not None:
        each = each * 2.0 ** ((frame["time"] - frame["time"].max()) / half_life)
    wanted = each.groupby([frame["user"], frame["item"]]).sum().clip(upper=cap)
    found = data.to_pandas().set_index(["user", "item"])["value"]
    np.testing.assert_allclose(found.sort_index(), wanted.sort_index(), rtol=1e-6)


def test_kinds_of_weight_none_or_0_are_left_out_or_only_seen() -> None:
    frame = drawn()
    data = Events.of(frame).weighted({"view": None, "cart": 0, "purchase": -1})
    assert (data.user_items.data < 0).all()
    assert data.nnz == Events.of(frame)["purchase"].nnz
    assert data.seen_only.nnz > 0


SPLITS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "time": (mfrank.by_time, {"test": 0.2, "valid": 0.1}),
    "last": (mfrank.leave_last, {"k": 1, "valid_k": 1}),
    "ratio": (mfrank.by_ratio, {"train": 0.7, "test": 0.3}),
    "out": (mfrank.leave_k_out, {"k": 1}),
}


@pytest.mark.parametrize("name", SPLITS)
def test_what_is_held_out_is_divided_as_purchases_alone_are(name: str) -> None:
    by, options = SPLITS[name]
    events = Events.of(drawn(1000))
    split, alone = events.split("purchase", by, **options), by(events["purchase"], **options)
    assert cells(split.test) == cells(alone.test)
    assert cells(split.valid) == cells(alone.valid)
    assert cells(split.train["purchase"]) == cells(alone.train)
    assert split.train.user_ids is split.test.user_ids


@pytest.mark.parametrize("name", SPLITS)
def test_nothing_in_the_training_part_gives_away_what_is_held_out(name: str) -> None:
    """Neither what came later nor, if drawn at random, any other event of the same pair."""
    by, options = SPLITS[name]
    events = Events.of(drawn(1000))
    split = events.split("purchase", by, **options)
    held_out = [*cells(split.test), *cells(split.valid)]
    pairs = {(user, item) for user, item, *_ in held_out}
    everywhere = min(time for *_, time in held_out)
    of_user: dict[str, int] = {}
    for user, _, _, time in held_out:
        of_user[user] = min(time, of_user.get(user, time))
    train = split.train
    rows = zip(
        train.user_ids.raw(train.users).tolist(),
        train.item_ids.raw(train.items).tolist(),
        np.array(train.kinds)[train.codes].tolist(),
        train.timestamps.tolist(),
        strict=True,
    )
    kept = [row for row in rows if row[2] != "purchase"]
    for user, item, _, time in kept:
        if name == "time":
            assert time < everywhere
        elif name == "last":
            assert time < of_user.get(user, np.inf)
        else:
            assert (user, item) not in pairs
    # And nothing else is left out.
    every = zip(
        events.user_ids.raw(events.users).tolist(),
        events.item_ids.raw(events.items).tolist(),
        events.timestamps.tolist(),
        (events.codes != events.kinds.index("purchase")).tolist(),
        strict=True,
    )
    may = {
        "time": lambda user, item, time: time < everywhere,
        "last": lambda user, item, time: time < of_user.get(user, np.inf),
    }.get(name, lambda user, item, time: (user, item) not in pairs)
    assert len(kept) == sum(other and may(user, item, t) for user, item, t, other in every)


def test_a_model_of_all_events_is_judged_by_purchases() -> None:
    """What was only viewed is ranked, and what was bought is not."""
    split = Events.of(drawn(1000)).split("purchase", mfrank.leave_last)
    model = mfrank.ALS(mfrank.WRMF(), factors=4, random_state=0).fit(split.train.weighted(WEIGHTS))
    model.leave_out(split.train["purchase"])
    found = mfrank.evaluate(model, split.test)
    again = mfrank.evaluate(model, split.test, train=split.train["purchase"])
    assert found["ndcg@10"].value == again["ndcg@10"].value
    bought = split.train["purchase"].user_items.toarray() > 0
    lists = model.recommend(split.train.user_ids.labels, N=15, by_row=False).ids
    rows = split.train.item_ids.rows(lists.ravel().tolist(), missing=-1).reshape(lists.shape)
    own = np.arange(len(rows))[:, None]
    assert not (bought[own, rows] & (rows >= 0)).any()
    viewed = (split.train["view"].user_items.toarray() > 0) & ~bought
    assert (viewed[own, rows] & (rows >= 0)).any()


def test_times_are_told_once(caplog: Any) -> None:
    frame = drawn(40)
    times = 1_700_000_000_000 + 86_400_000 * frame["time"]
    with caplog.at_level("INFO", "mfrank"):
        events = Events.from_arrays(frame["user"], frame["item"], frame["event"], None, times)
    assert caplog.text.count("milliseconds") == 1
    assert (events.timestamps == 1_700_000_000 + 86_400 * frame["time"]).all()


def test_odd_arguments_are_refused() -> None:
    events = Events.of(drawn(timed=False))
    with refuses(ValueError, "target", remedy="the kinds are 'cart', 'purchase', 'view'"):
        events["buy"]
    with refuses(ValueError, "target"):
        events.split("buy", mfrank.by_ratio)
    with refuses(ValueError, "by"):
        events.split("view", mfrank.by_session)
    with refuses(ValueError, "half_life"):
        events.weighted(WEIGHTS, half_life=3)
    with refuses(ValueError, "cap"):
        events.weighted(WEIGHTS, cap=0)
    with refuses(ValueError, "weights", remedy="give each a weight"):
        events.weighted({"view": 1})
    with refuses(ValueError, "weights"):
        events.weighted(dict.fromkeys(KINDS))
    with refuses(ValueError, "folder"):
        events.split("view", mfrank.by_ratio, folder="parts")
    with refuses(TypeError, None, remedy="Events.from_file"):
        Events.of(Interactions.from_arrays(["a"], ["b"]))
    with refuses(ValueError, "events"):
        Events.from_arrays(["a", "b"], ["x", "y"], ["view"])
    with refuses(ValueError, "event"):
        Events.from_frame(drawn().drop(columns="event"))


@pytest.mark.parametrize("door", DOORS)
def test_one_kind_in_two_spellings_is_told(door: str, tmp_path: Path, caplog: Any) -> None:
    frame = drawn(40)
    DOORS[door](frame, tmp_path)
    assert "differ in blanks or capital letters" not in caplog.text
    kinds = frame["event"].to_list()
    spelled = [kind.upper() if n % 2 else kind for n, kind in enumerate(kinds)]
    (tmp_path / "2").mkdir()
    DOORS[door](frame.assign(event=spelled), tmp_path / "2")
    assert caplog.text.count("the column of events has values like") == 1
