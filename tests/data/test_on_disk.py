"""Arrays and rows that grow on the disk, and the ids that are counted in portions."""

from __future__ import annotations

import gzip
import itertools
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mfrank.data import (
    GrowingArray,
    Ids,
    IngestPlan,
    Spill,
    ingest,
    interaction_folder,
    numbering,
    on_disk,
    write_table,
)
from mfrank.files import CheckedFiles
from tests.support.errors import refuses

quick = settings(max_examples=40, deadline=None)
PAIR = np.dtype([("row", np.int32), ("value", np.float64)])


@quick
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 20))
def test_blocks_have_about_as_many_entries_as_asked_for(counts: list[int], at_once: int) -> None:
    own = np.array(counts, np.int64)
    bounds = interaction_folder.even_bounds(own, at_once).tolist()
    assert bounds == sorted(set(bounds))
    assert (bounds[0], bounds[-1]) == (0, len(counts))
    sizes = [own[begin:end].sum() for begin, end in itertools.pairwise(bounds)]
    assert all(size < at_once + own.max(initial=0) for size in sizes)
    assert len(sizes) <= max(-(-int(own.sum()) // at_once), 1)


def test_records_are_put_into_their_blocks_in_order(tmp_path: Path) -> None:
    spill = Spill(CheckedFiles(tmp_path), "x", np.array([0, 2, 5, 6]), PAIR)
    records = np.array([(4, 1), (0, 2), (2, 3), (1, 4), (4, 5)], PAIR)
    for part in (records[:3], records[3:], records[:0]):
        spill.add(part, part["row"])
    assert len(spill) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-0", "x-1"]
    found = []
    for begin, end, block in spill.blocks():
        found.append((begin, end, block["value"].tolist()))
        assert len(list(tmp_path.iterdir())) == (2, 1, 0)[len(found) - 1]  # they go one by one
    assert found == [(0, 2, [2, 4]), (2, 5, [1, 3, 5]), (5, 6, [])]
    assert not list(tmp_path.iterdir())


def test_blocks_may_begin_later_and_be_kept(tmp_path: Path) -> None:
    files, done = CheckedFiles(tmp_path), list[str]()
    spill = Spill(files, "x", np.array([0, 1, 2, 3]), PAIR)
    records = np.array([(row, row) for row in range(3)], PAIR)
    spill.add(records, records["row"])
    again = Spill(files, "x", np.array([0, 1, 2, 3]), PAIR)
    found = [
        block["row"].tolist() for *_, block in again.blocks(1, lambda path: done.append(path.name))
    ]
    assert (found, done) == ([[1], [2]], ["x-1", "x-2"])
    assert len(again) == 3


def test_arrays_grow_by_parts(tmp_path: Path) -> None:
    files = CheckedFiles(tmp_path)
    grown = GrowingArray(files, "x", np.int64)
    assert len(grown) == 0
    for part in (np.array([1, 2]), np.array([], int), np.array([3.0])):
        grown.add(part)
    assert (len(grown), grown.array().tolist()) == (3, [1, 2, 3])
    more = GrowingArray(files, "x", np.int64)  # goes on with what the file has
    more.add(np.array([4]))
    assert (len(more), more.array().dtype) == (4, np.int64)


@quick
@given(st.lists(st.integers(0, 3), max_size=8), st.integers(0, 3))
def test_rows_are_appended_with_those_between(counts: list[int], behind: int) -> None:
    rng = np.random.default_rng(len(counts))
    with tempfile.TemporaryDirectory() as folder:
        rows = on_disk.RowsOnDisk(CheckedFiles(Path(folder)), "m", len(counts) + behind, np.float32)
        columns, values = list[int](), list[float]()
        for row, count in enumerate(counts):
            if count:  # rows without entries are left out
                own = rng.integers(0, 9, count)
                rows.add(row, np.array([count]), own, own + 0.5)
                columns += own.tolist()
                values += (own + 0.5).tolist()
        assert rows.n_entries == sum(counts)
        arrays = {name: np.array(array) for name, array in rows.arrays().items()}
    assert arrays["m.indptr"].tolist() == [0, *np.cumsum([*counts, *[0] * behind]).tolist()]
    assert (arrays["m.indices"].tolist(), arrays["m.values"].tolist()) == (columns, values)
    assert (arrays["m.indices"].dtype, arrays["m.values"].dtype) == (np.int32, np.float32)


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("timed", [True, False])
def test_a_folder_is_written_by_blocks_of_users(tmp_path: Path, at_once: int, timed: bool) -> None:
    rng = np.random.default_rng(0)
    whole = sp.csr_array((rng.random((6, 4)) < 0.5) * rng.integers(1, 9, (6, 4)), dtype=np.float32)
    times = rng.integers(0, 99, whole.nnz)
    writer = interaction_folder.FolderWriter(
        CheckedFiles(tmp_path), 6, np.diff(whole.tocsc().indptr),
        dtype=np.float32, timestamps=timed, at_once=at_once,
    )  # fmt: skip
    for begin, end in ((0, 2), (2, 3), (3, 6)):
        own = slice(*whole.indptr[[begin, end]])
        writer.add(begin, whole[begin:end], times[own] if timed else None)
    assert sum(writer.sort_items()) == whole.nnz
    arrays = writer.arrays()
    for name, matrix in (("user_items", whole), ("item_users", whole.T.tocsr())):
        for part, wanted in zip(
            ("indptr", "indices", "values"),
            (matrix.indptr, matrix.indices, matrix.data),
            strict=True,
        ):
            np.testing.assert_array_equal(arrays[f"{name}.{part}"], wanted)
    assert ("timestamps" in arrays) == timed
    if timed:
        np.testing.assert_array_equal(arrays["timestamps"], times)
    assert writer.n_seen_only == 0
    assert not any(name.startswith(("seen_only", "summed")) for name in arrays)


# ids


labels = st.lists(
    st.lists(st.integers(-3, 3) | st.sampled_from(["1", "a", "-2"]), max_size=6), max_size=5
)


@quick
@given(labels, st.integers(1, 4), st.booleans())
def test_ids_are_counted_in_portions(portions: list[list[Any]], at_once: int, saved: bool) -> None:
    """Whole numbers become text where another portion has text."""
    whole = [label for portion in portions for label in portion]
    of_text = any(isinstance(label, str) for label in whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "_LABELS_AT_ONCE", at_once)
        counted = numbering.Labels()
        assert counted.is_empty
        for portion in portions:
            own = (
                [str(label) for label in portion]
                if any(isinstance(x, str) for x in portion)
                else portion
            )
            counted.add(
                np.array(own, object)
                if own and isinstance(own[0], str)
                else np.array(own, np.int64)
            )
            if saved:  # as a run that is resumed
                counted = numbering.Labels.of(counted.to_arrays())
        ids, occurrences = counted.numbered()
    wanted = Counter(map(str, whole) if of_text else whole)
    assert dict(zip(ids.labels.tolist(), occurrences.tolist(), strict=True)) == wanted
    assert ids == Ids.factorize(list(wanted))[0]
    assert counted.is_empty == (not whole)


# estimates


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("timed", [True, False])
def test_estimates_are_of_the_size_of_the_files(tmp_path: Path, suffix: str, timed: bool) -> None:
    n = 120_000 if suffix == ".csv" else 3_000
    columns = {"user": np.arange(n) % 1000 + 1000, "item": np.arange(n) % 1000 + 1000}
    if timed:
        columns["timestamp"] = np.arange(n) + 1_700_000_000
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        write_table(path, columns)
    plan = IngestPlan.of(paths, tmp_path / "new" / "folder", {})
    assert plan.files == 2
    assert plan.rows == pytest.approx(2 * n, rel=0.02)
    assert plan.folder == plan.rows * (24 if timed else 16)
    assert plan.beside == plan.rows * (52 if timed else 36)
    assert plan.memory == 200 << 20
    assert plan.free > 0
    told = plan.told()
    assert told.startswith(
        f"2 files, about {plan.rows:,} rows\nmemory: about 200 MiB, and the ids\n"
    )
    assert "are free" in told.splitlines()[2]
    short = IngestPlan(1, 1, 10, 20, 29, 5).told()
    assert short.endswith("are free, which are too few: choose a folder on another disk")
    assert IngestPlan(1, 1, 10, 20, 30, 5).told().endswith(" are free")


def test_memory_is_estimated_by_the_block_that_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "a.csv", {"user": [1, 2, 3], "item": [1, 2, 3]})
    monkeypatch.setattr(ingest, "_PORTION", 300)
    for entries, memory in ((2, 300), (3, 420), (9, 560)):  # with the header
        monkeypatch.setattr(ingest, "_ENTRIES_AT_ONCE", entries)
        plan = IngestPlan.of([tmp_path / "a.csv"], tmp_path / "x", {})
        assert (plan.rows, plan.memory) == (4, memory)


def test_files_of_one_layout_are_told_once_by_estimates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mfrank")
    paths = [tmp_path / f"{name}.csv" for name in "ab"]
    for path in paths:
        path.write_text("user,item,title\n1,2,x\n")
    IngestPlan.of(paths, tmp_path / "x", {})
    assert len(caplog.messages) == 1


def test_estimates_refuse_what_an_ingest_would(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item\n1,\n")
    with refuses(ValueError, place="a.csv, line 2", remedy="give it an id"):
        IngestPlan.of([tmp_path / "a.csv"], tmp_path / "x", {})
    with refuses(ValueError, "files"):
        IngestPlan.of([], tmp_path / "x", {})
    text = b"user,item\n" + b"".join(b"%d,%d\n" % (n, n * n % 977) for n in range(150_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text)[:-99])
    assert (
        IngestPlan.of([tmp_path / "a.csv.gz"], tmp_path / "x", {}).rows > 90_000
    )  # not all is read


def test_files_are_taken_in_the_order_of_their_names(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b.csv", "a.csv", "c.csv")]
    for path in paths:
        path.touch()
    assert ingest.files_to_ingest([*paths, str(paths[0])]) == sorted(paths)
    with refuses(ValueError, "files"):
        ingest.files_to_ingest(["-"])
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        ingest.files_to_ingest([paths[0], tmp_path / "none.csv"])
    assert ingest.files_to_ingest(tmp_path) == sorted(paths)
