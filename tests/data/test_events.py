"""Events of several kinds: each counts its weight, the same through every door."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.cli.main import main
from tests.support.errors import refuses

Interactions = mfrank.Interactions
KINDS = ["view", "cart", "purchase", "returned"]
WEIGHTS = {"view": 1, "cart": 3, "purchase": 5.5, "returned": -2}
Rows = list[tuple[str, str, str]]
Weights = dict[Any, float | None]
"""User, item and kind."""


def columns(rows: Rows) -> dict[str, list[str]]:
    users, items, kinds = map(list, zip(*rows, strict=True))
    return {"user": users, "item": items, "event_type": kinds}


def of_arrays(rows: Rows, weights: Weights, _: Path) -> Interactions:
    users, items, kinds = columns(rows).values()
    return Interactions.from_arrays(users, items, events=kinds, weights=weights)


def of_pandas(rows: Rows, weights: Weights, _: Path) -> Interactions:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    return Interactions.from_frame(pandas.DataFrame(columns(rows)), weights=weights)


def of_categories(rows: Rows, weights: Weights, _: Path) -> Interactions:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(columns(rows)).astype({"event_type": "category"})
    frame = frame.rename(columns={"event_type": "what"})
    return Interactions.from_frame(frame, event="what", weights=weights)


def of_polars(rows: Rows, weights: Weights, _: Path) -> Interactions:
    polars = pytest.importorskip("polars", reason="needs polars")
    return Interactions.from_frame(polars.DataFrame(columns(rows)), weights=weights)


def of_arrow(rows: Rows, weights: Weights, _: Path) -> Interactions:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    return Interactions.from_frame(pyarrow.table(columns(rows)), weights=weights)


def written(rows: Rows, path: Path, header: bool = True) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(["user", "event_type", "item"])
        writer.writerows((user, kind, item) for user, item, kind in rows)
    return path


def of_text(rows: Rows, weights: Weights, folder: Path) -> Interactions:
    return Interactions.from_file(written(rows, folder / "a.csv"), weights=weights)


def of_numbered_columns(rows: Rows, weights: Weights, folder: Path) -> Interactions:
    path = written(rows, folder / "a.csv", header=False)
    return Interactions.from_file(path, user=1, event=2, item=3, weights=weights)


def of_parquet(rows: Rows, weights: Weights, folder: Path) -> Interactions:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    pandas.DataFrame(columns(rows)).to_parquet(folder / "a.parquet")
    return Interactions.from_file(folder / "a.parquet", weights=weights)


def ingested(rows: Rows, weights: Weights, folder: Path) -> Interactions:
    half = len(rows) // 2
    parts = [rows[:half], rows[half:]] if half else [rows]
    files = [written(part, folder / f"{n}.csv") for n, part in enumerate(parts)]
    return Interactions.ingest(files, folder / "ingested", weights=weights)


def by_command(rows: Rows, weights: Weights, folder: Path) -> Interactions:
    path = written(rows, folder / "a.csv")
    each = {kind: "none" if weight is None else weight for kind, weight in weights.items()}
    flag = ",".join(f"{kind}={weight}" for kind, weight in each.items())
    line = ["ingest", str(path), "--folder", str(folder / "by-command"), "--weights", flag]
    assert main(line) == 0
    return Interactions.open(folder / "by-command")


DOORS: dict[str, Callable[[Rows, Weights, Path], Interactions]] = {
    "arrays": of_arrays,
    "pandas": of_pandas,
    "categories": of_categories,
    "polars": of_polars,
    "arrow": of_arrow,
    "text": of_text,
    "numbered columns": of_numbered_columns,
    "parquet": of_parquet,
    "ingest": ingested,
    "command": by_command,
}


def of_events(rows: Rows, weights: Weights, _: Path) -> Interactions:
    users, items, kinds = zip(*rows, strict=True)
    return mfrank.Events.from_arrays(users, items, kinds).weighted(weights)


def sums(rows: Rows, weights: Weights) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for user, item, kind in rows:
        if (weight := weights[kind]) is not None:
            found[user, item] = found.get((user, item), 0.0) + weight
    return found


def values(data: Interactions) -> dict[tuple[str, str], float]:
    users, items = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    return dict(zip(zip(users, items, strict=True), data.user_items.data.tolist(), strict=True))


@pytest.mark.parametrize("door", DOORS)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from(KINDS)),
        min_size=1,
        max_size=12,
    ),
    weights=st.fixed_dictionaries(
        dict.fromkeys(KINDS, st.sampled_from([-2, 0, 0.5, 1, 3, None])),
    ),
)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_value_of_a_pair_is_the_sum_of_its_events_weights(
    door: str, rows: Rows, weights: Weights, tmp_path_factory: Any
) -> None:
    if all(weights[kind] is None for _, _, kind in rows):
        return
    data = DOORS[door](rows, weights, tmp_path_factory.mktemp("events"))
    wanted = sums(rows, weights)
    assert values(data) == {pair: value for pair, value in wanted.items() if value}
    only = set() if data.seen_only is None else set(values(data.seen_only))
    assert only == {pair for pair, value in wanted.items() if not value}


@pytest.mark.parametrize("door", [door for door in DOORS if door != "command"])
def test_rows_that_are_all_left_out_are_refused(door: str, tmp_path: Path) -> None:
    with refuses(ValueError, "weights", remedy="give one of their kinds a weight"):
        DOORS[door]([("a", "x", "view")] * 3, {"view": None, "cart": 1}, tmp_path)


ROWS: Rows = [("a", "x", "view"), ("a", "y", "cart"), ("b", "x", "purchase")]


@pytest.mark.parametrize("door", DOORS)
def test_a_kind_without_a_weight_is_named(door: str, tmp_path: Path, capsys: Any) -> None:
    some = {"view": 1, "returned": 2}
    if door == "command":
        path = written(ROWS, tmp_path / "a.csv")
        line = ["ingest", str(path), "--folder", str(tmp_path / "f"), "--weights", "view=1"]
        assert main(line) == 2
        assert "--weights view=1,cart=1,purchase=1" in capsys.readouterr().err
        return
    with refuses(
        ValueError,
        "weights",
        remedy=r"weights=\{'view': 1, 'returned': 2, 'cart': 1, 'purchase': 1\}",
    ):
        DOORS[door](ROWS, some, tmp_path)


@pytest.mark.parametrize("door", [*DOORS, "events"])
@pytest.mark.parametrize(
    ("kind", "warned"), [("purchse", True), ("purchases", True), ("rent", False), ("review", False)]
)
def test_a_weight_of_a_kind_that_no_row_has_is_told(
    door: str, kind: str, warned: bool, tmp_path: Path, caplog: Any
) -> None:
    doors = {**DOORS, "events": of_events}
    of_rows = {"view": 1, "cart": 3, "purchase": 5.5}
    for weights in ({**of_rows, kind: 2}, of_rows):
        caplog.clear()
        with caplog.at_level("INFO", "mfrank"):
            doors[door](ROWS, weights, tmp_path)
        told = [each for each in caplog.records if "no row is of the kind" in each.getMessage()]
        levels = ["WARNING" if warned else "INFO"] * (weights is not of_rows)
        assert [each.levelname for each in told] == levels
        assert all(repr(kind) in each.getMessage() for each in told)
    with refuses(ValueError, "weights") as error:
        of_arrays(ROWS, {"view": 1, "cart": 1, "purchse": 3}, tmp_path)
    assert "'purchase': 3" in error.value.remedy
    assert "no row is of 'purchse'" in str(error.value)


@pytest.mark.parametrize(("n_unknown", "more"), [(7, ""), (8, ""), (9, " and 1 more")])
def test_of_many_kinds_without_a_weight_the_first_are_named(n_unknown: int, more: str) -> None:
    kinds = ["k0", *(f"k{n}" for n in range(1, n_unknown + 1))]
    some = {"k0": None}
    with refuses(ValueError, "weights") as error:
        Interactions.from_arrays(kinds, kinds, events=kinds, weights=some)
    named = [f"k{n}" for n in range(1, min(n_unknown, 8) + 1)]
    text = ", ".join(map(repr, named)) + more
    assert f"has no weight for {text}, of {len(kinds)} kinds of events;" in str(error.value)
    suggested = ", ".join(["'k0': None", *(f"{name!r}: 1" for name in named)])
    assert f"weights={{{suggested}}}" in error.value.remedy


@pytest.mark.parametrize("door", [door for door in DOORS if door not in ("command", "arrays")])
def test_the_column_of_kinds_is_told(door: str, tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level("INFO", "mfrank"):
        DOORS[door](ROWS, WEIGHTS, tmp_path)
    assert "whose weights are the values" in caplog.text
    assert "no values" not in caplog.text


def test_values_that_are_named_multiply_the_weights(caplog: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({**columns(ROWS), "quantity": [2, 1, 4]})
    with caplog.at_level("INFO", "mfrank"):
        data = Interactions.from_frame(frame, weights=WEIGHTS, value="quantity")
    assert values(data) == {("a", "x"): 2, ("a", "y"): 3, ("b", "x"): 22}
    assert "whose weights multiply the values" in caplog.text
    assert values(Interactions.from_frame(frame, weights=WEIGHTS)) == sums(ROWS, WEIGHTS)
    users, items, kinds = columns(ROWS).values()
    same = Interactions.from_arrays(users, items, [2, 1, 4], events=kinds, weights=WEIGHTS)
    assert values(same) == values(data)


@pytest.mark.parametrize(
    ("kinds", "weights"),
    [
        ([0, 1, 2], {0: 1, 1: 3, 2: 5}),
        ([0, 1, 2], {"0": 1, "1": 3, "2": 5}),
        ([0, "1", 2.0], {0: 1, 1: 3, 2: 5}),
        (np.array([0, 1, 2], np.uint8), {0: 1, 1: 3, 2: 5}),
        (["0", "1", "2"], {0: 1, 1: 3, 2: 5}),
        (np.array([0.0, 1.0, 2.0]), {0.0: 1, 1: 3, "2": 5}),
        ([b"v", b"c", b"p"], {"v": 1, "c": 3, "p": 5}),
        (np.array(["v", "c", "p"]), {"v": 1, "c": 3, "p": 5}),
    ],
    ids=str,
)
def test_numbers_and_text_are_the_same_kind(kinds: Any, weights: Weights) -> None:
    data = Interactions.from_arrays(["a", "b", "c"], ["x"] * 3, events=kinds, weights=weights)
    assert data.user_items.data.tolist() == [1, 3, 5]


def test_bytes_that_are_no_text_are_different_kinds() -> None:
    kinds = [b"\xe9", b"\xe8", "b"]
    weights = {b"\xe9": 1, b"\xe8": 3, b"b": 5}
    data = Interactions.from_arrays(["a", "b", "c"], ["x"] * 3, events=kinds, weights=weights)
    assert data.user_items.data.tolist() == [1, 3, 5]
    with refuses(ValueError, "weights", remedy="give each a weight"):
        Interactions.from_arrays(["a", "b"], ["x"] * 2, events=kinds[:2], weights={b"\xe9": 1})


def test_truths_are_kinds() -> None:
    clicked = [True, False, True]
    data = Interactions.from_arrays(
        list("abc"), list("xyz"), events=clicked, weights={True: 1, False: 0}
    )
    assert (data.nnz, data.seen_only.nnz) == (2, 1)


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
@pytest.mark.parametrize("of", [list, tuple, lambda kinds: np.array(kinds, dtype=object)])
def test_a_missing_kind_is_refused(missing: Any, of: Callable[..., Any], tmp_path: Path) -> None:
    events = of(["view", missing, "view"])
    with refuses(ValueError, "event", remedy="drop the row") as error:
        Interactions.from_arrays(list("abc"), list("xyz"), events=events, weights=WEIGHTS)
    assert f"{missing!r} in row 1" in str(error.value)
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"user": list("abc"), "item": list("xyz"), "event": events})
    with refuses(ValueError, "event", remedy="drop the row") as error:
        Interactions.from_frame(frame, weights=WEIGHTS)
    assert "in row 1" in str(error.value)
    (tmp_path / "a.csv").write_text("user,item,event\na,x,view\nb,y,\n")
    with refuses(ValueError, None, place="a.csv, line 3"):
        Interactions.from_file(tmp_path / "a.csv", weights=WEIGHTS)


@pytest.mark.parametrize(
    ("weights", "kind"),
    [
        ({}, ValueError),
        ({"view": "much"}, ValueError),
        ({"view": float("nan")}, ValueError),
        ({1: 1, "1": 2}, ValueError),
        (["view"], TypeError),
        (5, TypeError),
    ],
)
def test_odd_weights_are_refused(weights: Any, kind: type[Exception]) -> None:
    for kinds in ([], ["1"], ["view"]):
        with refuses(kind, "weights"):
            Interactions.from_arrays(kinds, kinds, events=kinds, weights=weights)


def test_events_and_weights_go_together(tmp_path: Path) -> None:
    one: dict[str, Any]
    for one, words in (
        ({"events": ["view"]}, "events needs weights"),
        ({"weights": WEIGHTS}, "weights needs events"),
    ):
        with refuses(ValueError, next(iter(one)), remedy="what each kind counts") as error:
            Interactions.from_arrays(["a"], ["x"], **one)
        assert words in str(error.value)
    path = written(ROWS, tmp_path / "a.csv")
    with refuses(ValueError, "event", remedy="weights"):
        Interactions.from_file(path, event="event_type")
    (tmp_path / "b.csv").write_text("user,item\na,x\n")
    with refuses(ValueError, "event"):
        Interactions.from_file(tmp_path / "b.csv", weights=WEIGHTS)
    with refuses(ValueError, "events"):
        Interactions.from_arrays(["a", "b"], ["x", "y"], events=["view"], weights=WEIGHTS)


def test_two_columns_may_have_the_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item,type,action\na,x,new,view\n")
    with refuses(ValueError, "event"):
        Interactions.from_file(tmp_path / "a.csv", weights=WEIGHTS)
    data = Interactions.from_file(tmp_path / "a.csv", event="action", weights=WEIGHTS)
    assert values(data) == {("a", "x"): 1}


def test_a_file_of_kinds_without_weights_is_told(tmp_path: Path, caplog: Any) -> None:
    Interactions.from_file(written(ROWS, tmp_path / "a.csv"))
    assert "'event_type' looks like kinds of events" in caplog.text
    assert "weights={'view': 1, 'purchase': 5}" in caplog.text


def test_an_ingest_with_other_weights_begins_anew(tmp_path: Path) -> None:
    path = written(ROWS, tmp_path / "a.csv")
    for weights in (WEIGHTS, {**WEIGHTS, "cart": 2}):
        data = Interactions.ingest([path], tmp_path / "folder", weights=weights)
        assert values(data) == sums(ROWS, weights)


@pytest.mark.parametrize("header", ["user,item,event,date", "user,item,event,other"])
def test_rows_that_are_left_out_take_their_times_along(tmp_path: Path, header: str) -> None:
    rows = ["a,x,view,2020-01-03", "a,y,cart,2020-01-02", "b,x,view,2020-01-01"]
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]))
    weights = {"view": 2, "cart": None}
    read = Interactions.from_file(tmp_path / "a.csv", weights=weights)
    disk = Interactions.ingest([tmp_path / "a.csv"], tmp_path / "f", weights=weights)
    days = [1_578_009_600, 1_577_836_800]
    for data in (read, disk):
        assert values(data) == {("a", "x"): 2, ("b", "x"): 2}
        times = None if data.timestamps is None else data.timestamps.tolist()
        assert times == (days if header.endswith("date") else None)


def test_weights_reach_the_factors(tmp_path: Path) -> None:
    """A fit to events is the fit to their sums."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, [20, 15, 3], size=(300, 3))
    rows = [(f"u{u:02}", f"i{i:02}", KINDS[k]) for u, i, k in drawn.tolist()]
    path = written(rows, tmp_path / "a.csv")
    flags = ["--objective", "wrmf", "--factors", "4", "--iterations", "2", "--random-state", "0"]
    line = ["fit", str(path), "--model", str(tmp_path / "m"), *flags]
    assert main([*line, "--weights", "view=1,cart=3,purchase=5.5"]) == 0
    model = mfrank.ALS(mfrank.WRMF(), factors=4, iterations=2, random_state=0)
    wanted = sums(rows, WEIGHTS)
    users, items = zip(*wanted, strict=True)
    model.fit(Interactions.from_arrays(users, items, list(wanted.values())))
    loaded = mfrank.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.item_factors, model.item_factors)


@pytest.mark.parametrize("command", ["fit", "descend", "tune"])
def test_lists_of_a_shop_leave_out_what_was_bought(
    command: str, tmp_path: Path, capsys: Any
) -> None:
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, [15, 12, 3], size=(150, 3))
    rows = [(f"u{u:02}", f"i{i:02}", KINDS[k]) for u, i, k in drawn.tolist()]
    path, folder = written(rows, tmp_path / "a.csv"), tmp_path / "model"
    bought = {(user, item) for user, item, kind in rows if kind == "purchase"}
    viewed = {(user, item) for user, item, _ in rows} - bought
    few = {"tune": ["--trials", "1"]}.get(command, ["--iterations", "2"])
    line = [command, str(path), "--model", str(folder), "--factors", "4", *few]
    line += ["--weights", "view=1, cart=3,purchase = 5"]

    def shown() -> set[tuple[str, str]]:
        model = mfrank.load(folder)
        users = model.user_ids.labels
        rows = zip(users.tolist(), model.recommend(users, N=12).ids.tolist(), strict=True)
        return {(user, item) for user, row in rows for item in row if item}

    assert main([*line, "--leave-out-events", "purchase"]) == 0
    assert not shown() & bought
    assert shown() & viewed
    only = written([row for row in rows if row[2] == "purchase"], tmp_path / "bought.csv")
    before = shown()
    assert main([*line, "--leave-out", str(only)]) == 0
    assert shown() == before
    capsys.readouterr()
    assert main([*line, "--leave-out-events", "buy"]) == 2
    assert "--weights has no kind of event 'buy'" in capsys.readouterr().err


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12), st.sampled_from([1, 2.5, 7]))
def test_capped_values_are_within_the_cap(numbers: list[int], most: float) -> None:
    n = len(numbers)
    data = Interactions.from_arrays(
        range(n), range(n), numbers, range(n), shape=(n, n), timestamp_unit="s"
    )
    capped = data.capped(most)
    np.testing.assert_array_equal(capped.user_items.indices, data.user_items.indices)
    np.testing.assert_array_equal(capped.timestamps, data.timestamps)
    assert (capped.seen_only is None) == (data.seen_only is None)
    wanted = [max(-most, min(most, value)) for value in data.user_items.data.tolist()]
    assert capped.user_items.data.tolist() == wanted


@pytest.mark.parametrize("most", [0, -1, float("nan"), float("inf"), "5", None])
def test_odd_caps_are_refused(most: Any) -> None:
    with refuses(ValueError, "most"):
        Interactions.from_arrays(["a"], ["x"], [5]).capped(most)


def test_a_cap_below_the_threshold_is_refused() -> None:
    rated = Interactions.from_arrays(["a", "b"], ["x", "y"], [5, 4]).at_least(4)
    with refuses(ValueError, "most", remedy="cap before"):
        rated.capped(3)
    assert rated.capped(4).threshold == 4
