"""What a file or a table is read with reaches its reader, and joins know where values are from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import triples

from mfrank import Interactions
from mfrank.data import Ids
from tests.support.errors import refuses

TEXT = "1;2;3;1000;9\n1;2;4;2000;9\n7;5;1;3000;9\n"


def read(folder: Path, text: str = TEXT, name: str = "a.csv", **how: Any) -> Interactions:
    (folder / name).write_text(text)
    return Interactions.from_file(folder / name, **how)


def ingested(folder: Path, text: str = TEXT, **how: Any) -> Interactions:
    (folder / "a.csv").write_text(text)
    return Interactions.ingest([folder / "a.csv"], folder / "to", **how)


NAMED = {"columns": ["user", "item", "value", "timestamp", "-"], "sep": ";"}


@pytest.mark.parametrize("read", [read, ingested])
def test_every_argument_of_a_file_counts(tmp_path: Path, read: Any) -> None:
    whole = read(tmp_path, **NAMED)
    assert triples(whole) == [(1, 2, 7.0, 2000), (7, 5, 1.0, 3000)]
    for duplicates, value in (("max", 4.0), ("last", 4.0), ("sum", 7.0)):
        assert triples(read(tmp_path, **NAMED, duplicates=duplicates))[0][2] == value
    assert triples(read(tmp_path, **NAMED, timestamp_unit="ms"))[0][3] == 2
    late = TEXT.replace("000;9", "700000000000;9")
    assert triples(read(tmp_path, late, **NAMED, timestamp_unit="s"))[0][3] == 2700000000000
    assert triples(read(tmp_path, **NAMED, value=False))[0][2] == 2  # twice
    assert read(tmp_path, **NAMED, timestamp=False).timestamps is None
    assert triples(read(tmp_path, **NAMED, ids="text"))[1][:2] == ("7", "5")
    numbers = {"sep": ";", "user": 3, "item": 1, "value": 5, "timestamp": 4}
    assert triples(read(tmp_path, **numbers))[0] == (1, 7, 9.0, 3000)
    assert read(tmp_path, "user,item\n'a,b',c\n", quote="'").user_ids.labels.tolist() == ["a,b"]
    assert read(tmp_path, "1,2\n3,4\n", header=True, user=1, item=2).nnz == 1


def test_ids_that_are_known_are_looked_up_as_they_are_spelled(tmp_path: Path) -> None:
    text = "user,item\n7,x\n"
    for users, items in (([8, 7], ["x", "y"]), (["7", "8"], Ids.of(["y", "x"]))):
        data = read(tmp_path, text, user_ids=users, item_ids=items)
        assert data.user_ids == Ids.of(users)
        assert data.user_items.shape == (2, 2)
    data = read(tmp_path, "user,item\n7,5\n", item_ids=["5", "6"])
    assert data.item_ids.labels.tolist() == ["5", "6"]
    for name, given, argument in (
        ("user_ids", [1], "users"),
        ("item_ids", ["y"], "items"),
        ("user_ids", [1, 1], "users"),
        ("item_ids", ["y", "y"], "items"),
    ):
        with refuses(ValueError, argument):
            read(tmp_path, text, **{name: given})


def test_ids_of_parquet_have_their_own_type(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    pandas.DataFrame({"user": ["7"], "item": [5]}).to_parquet(tmp_path / "a.parquet")
    data = Interactions.from_file(tmp_path / "a.parquet")
    assert (data.user_ids.labels.tolist(), data.item_ids.labels.tolist()) == (["7"], [5])
    with refuses(ValueError, "users"):
        Interactions.from_file(tmp_path / "a.parquet", user_ids=[7])


def test_errors_of_a_file_begin_with_its_name(tmp_path: Path) -> None:
    with refuses(ValueError, "values"):
        read(tmp_path, "user,item,rating\n1,2,1e39\n")
    for door in (read, ingested, lambda folder, **how: Interactions.from_frame(None, **how)):
        with refuses(ValueError, "timestamp_unit"):
            door(tmp_path, timestamp_unit="weeks")
    with refuses(ValueError, "duplicates"):
        ingested(tmp_path, duplicates="first")
    assert not (tmp_path / "to").exists()


def test_an_ingest_shows_its_progress_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for shown in (False, True):
        ingested(tmp_path, **NAMED, show_progress=shown)
        assert ("reading ids" in capsys.readouterr().err) == shown


def test_an_iterator_that_is_read_twice_has_nothing_for_the_second() -> None:
    for ids in ([1, 2, 3], ["a", "b", "c"]):
        both = iter(ids)
        with pytest.raises(ValueError, match="3 users, but items have shape"):
            Interactions.from_arrays(both, both)
        assert Interactions.from_arrays(iter(ids), iter(ids)).nnz == 3


def test_what_is_no_data_has_a_remedy() -> None:
    for given, remedy in ((5, "make them with"), (np.eye(2), "convert a dense array")):
        with refuses(TypeError, remedy=remedy):
            Interactions.of(given)


def test_a_folder_keeps_counts_and_its_path(tmp_path: Path) -> None:
    data = made([1, 2])
    assert data.to_folder(str(tmp_path / "f")) == tmp_path / "f"
    opened = Interactions.open(tmp_path / "f")
    assert {"counts", "item_users"} <= vars(opened).keys()  # no pass over the entries is needed
    made([3, 4]).to_folder(tmp_path / "f", overwrite=True)
    with refuses(ValueError, "overwrite", remedy="overwrite"):
        opened.to_folder(tmp_path / "f")
    opened.to_folder(tmp_path / "g")
    assert Interactions.open(tmp_path / "g").user_items.data.tolist() == [1, 2]


def test_a_part_that_was_saved_is_not_the_whole(tmp_path: Path) -> None:
    made([1, 2]).to_folder(tmp_path / "f")
    whole = Interactions.open(tmp_path / "f")
    part = whole.take([True, False])
    part.to_folder(tmp_path / "f")
    with refuses(ValueError, "overwrite", remedy="overwrite"):
        whole.to_folder(tmp_path / "f")
    part.to_folder(tmp_path / "f")


def test_sums_of_entries_that_reach_a_threshold_are_nothing_to_tell(
    caplog: pytest.LogCaptureFixture,
) -> None:
    twice = Interactions.concat([made([3, 4]), made([3, 1])])
    assert twice.at_least(3).nnz == 2
    assert not caplog.records
    twice.at_least(4)
    assert "keeps 1 entry only as the sum of repeated entries" in caplog.messages[0]


def test_entries_weighted_0_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mfrank")
    made([1, 2, 3]).weighted([1, 0, 1])
    assert caplog.messages == ["1 entry dropped: weighted 0 (still seen: not recommended)"]


def test_a_join_has_the_threshold_that_all_parts_have() -> None:
    one, other = made([2, 5]).at_least(3), made([4, 9], 5)
    assert Interactions.concat([one, other.at_least(3)]).threshold == 3
    assert Interactions.concat([one, other.at_least(4)]).threshold is None
    assert Interactions.concat([one, other]).threshold is None


def test_columns_of_a_table_are_chosen_by_name() -> None:
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    frame = pandas.DataFrame({"a": [1], "b": [2], "c": [3.0], "d": [4000], "user": [9]})
    chosen = {"user": "a", "item": "b", "value": "c", "timestamp": "d"}
    assert triples(Interactions.from_frame(frame, **chosen)) == [(1, 2, 3.0, 4000)]
    timed = Interactions.from_frame(frame, **chosen, timestamp_unit="ms")
    assert triples(timed) == [(1, 2, 3.0, 4)]
    twice = pandas.concat([frame, frame])
    assert triples(Interactions.from_frame(twice, **chosen, duplicates="max"))[0][2] == 3
    known = Interactions.from_frame(frame, **chosen, user_ids=[5, 1], item_ids=[2, 6])
    assert known.user_items.toarray().tolist() == [[0, 0], [3, 0]]


# joins


def made(values: Any, first: int = 0) -> Interactions:
    rows = np.arange(first, first + len(values))
    return Interactions.from_arrays(rows, rows, values)


KINDS: dict[str, Any] = {
    "given": lambda first: made([2, 5], first),
    "threshold": lambda first: made([2, 5], first).at_least(3),
    "weights": lambda first: made([2, 5], first).weighted([0.5, 2]),
    "repeats": lambda first: Interactions.from_arrays([first, first], [first, first]),
}


@pytest.mark.parametrize("one", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_joined_values_are_from_where_those_of_the_parts_are(one: str, other: str) -> None:
    parts = [KINDS[one](0), KINDS[other](5)]
    assert [part.cells.values_from for part in parts] == [one, other]
    found = Interactions.concat(parts).cells.values_from
    assert found == ("weights" if "weights" in (one, other) else one if one == other else "given")


def test_a_join_keeps_what_is_only_seen_unless_it_has_a_value() -> None:
    old = Interactions.from_arrays([0, 0, 1], [0, 1, 1], [1, 2, 5]).at_least(3)
    new = Interactions.from_arrays([0, 2], [0, 1], [4, 1]).at_least(3)
    for parts in ([old, new], [new, old]):
        both = Interactions.concat(parts)
        only = both.seen_only
        seen = {(u, i) for u, i, *_ in triples(only)}
        assert {(u, i): v for u, i, v, *_ in triples(both)} == {(1, 1): 5, (0, 0): 4}
        assert seen == {(0, 1), (2, 1)}
    alone = Interactions.concat([old])
    assert {(u, i) for u, i, *_ in triples(alone.seen_only)} == {(0, 0), (0, 1)}


def test_the_largest_entry_of_a_sum_is_known_after_a_join() -> None:
    twice = Interactions.concat([made([3, 4]), made([2, 9])])
    assert twice.user_items.data.tolist() == [5, 13]
    assert twice.largest.tolist() == [3, 9]
    assert Interactions.concat([twice, made([1, 1])]).largest.tolist() == [3, 9]


def test_parts_without_ids_are_joined_to_none() -> None:
    nothing = np.array([], object)
    parts = [made([]), Interactions.from_arrays(nothing, nothing), made([])]
    for each in (parts, parts[::-1], parts[1:]):
        assert Interactions.concat(each).user_items.shape == (0, 0)


def test_joins_are_checked_before_they_are_made() -> None:
    with refuses(ValueError, "duplicates"):
        Interactions.concat([made([1])], duplicates="first")  # type: ignore[arg-type]
    words = Interactions.from_arrays([0], ["a"])
    with refuses(ValueError, "ids"):
        made([1]) + words
