"""Blocks are those of the data, and a block over its own columns solves its rows to the bit."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Shuffled
from hypothesis import given
from hypothesis import strategies as st
from problems import matrices

from mfrank.arrays import CSR
from mfrank.backends import CellTerm, ObservedLoss, RowProblem, Shared, SolveOptions, choose
from mfrank.backends.sharded import Sharded, blocks
from mfrank.files import FilePart, part_in_file


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 200))
def test_blocks_cover_the_rows_and_have_few_entries(counts: list[int], few: int) -> None:
    rows = CSR(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), np.empty(0), None, 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_FEWEST_ENTRIES", few)
        bounds = blocks.bounds(rows)
    assert bounds[0] == 0
    assert bounds[-1] == len(counts)
    assert (np.diff(bounds) > 0).all() or not counts
    most = max(few, (sum(counts) + len(counts)) // 32)
    for begin, end in pairwise(bounds):  # but for its last row
        assert sum(counts[begin : end - 1]) + end - 1 - begin <= most


@given(matrices(), st.data())
def test_a_block_has_its_rows_over_the_columns_that_it_touches(
    matrix: sp.csr_array, draw: st.DataObject
) -> None:
    rows = CSR.from_scipy(matrix)
    begin = draw.draw(st.integers(0, rows.n_rows))
    end = draw.draw(st.integers(begin, rows.n_rows))
    routed = blocks.route(blocks.block_of(rows, begin, end))
    local = routed.rows(len(routed.touched), values=True)
    there = sp.csr_array(
        (local.data, routed.touched[local.indices], local.indptr), (end - begin, rows.n_columns)
    )
    assert (there != matrix[begin:end]).nnz == 0
    assert set(routed.touched) == set(matrix[begin:end].indices)


@given(matrices(), st.data())
def test_rows_that_are_left_out_and_their_ranges_make_up_the_matrix(
    tmp_path_factory: pytest.TempPathFactory, matrix: sp.csr_array, draw: st.DataObject
) -> None:
    rows = CSR.from_scipy(matrix)
    if in_files := matrix.nnz > 0 and draw.draw(st.booleans()):
        rows = _in_files(rows, tmp_path_factory.mktemp("entries"))
    longest = draw.draw(st.integers(1, 6))
    left_out = blocks.long_rows(rows, longest)
    begin = draw.draw(st.integers(0, rows.n_rows))
    middle = draw.draw(st.integers(0, rows.n_columns))
    cut = [
        *(
            (np.arange(first, last), blocks.block_of(rows, first, last, left_out))
            for first, last in ((0, begin), (begin, rows.n_rows))
        ),
        *(
            (left_out, blocks.range_of(rows, left_out, first, last))
            for first, last in ((0, middle), (middle, rows.n_columns))
        ),
    ]
    again = np.zeros(matrix.shape)
    for which, block in cut:
        if in_files and block.indptr[-1]:
            assert all(isinstance(piece, FilePart) for piece in (*block.columns, *block.values))
        routed = blocks.route(block)
        local = routed.rows(len(routed.touched), values=True)
        entries = local.data, routed.touched[local.indices], local.indptr
        again[which] += sp.csr_array(entries, (len(which), rows.n_columns)).toarray()
    np.testing.assert_array_equal(again, matrix.toarray())
    counts = rows.counts
    kept = blocks.block_of(rows, 0, rows.n_rows, left_out).indptr[-1]
    assert kept == counts[counts < longest].sum()


def _in_files(rows: CSR, folder: Path) -> CSR:
    """The same rows, whose entries are mapped from files."""
    arrays = []
    for name, array in (("indices", rows.indices), ("data", rows.data)):
        array.tofile(folder / name)
        arrays.append(np.asarray(np.memmap(folder / name, array.dtype, "r")))
    return CSR(rows.indptr, *arrays, rows.n_columns)


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_part_of_a_mapped_array_is_read_from_its_file(begin: int, length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "numbers")
        np.arange(40, dtype=np.int32).tofile(path)
        mapped = np.memmap(path, np.int32, "r", offset=8)
        some = np.asarray(mapped)[begin : begin + length]
        part = part_in_file(some)
        assert part is not None
        np.testing.assert_array_equal(part.read(), some)


def test_memory_is_in_no_file() -> None:
    assert part_in_file(np.arange(5)[2:]) is None


def test_a_file_that_a_worker_does_not_see_is_named(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.arange(40).tofile(path)
    part = part_in_file(np.memmap(path, np.int64, "r"))
    assert part is not None
    with path.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(OSError, match="numbers is shorter here"):
        part.read()
    path.unlink()
    with pytest.raises(
        OSError, match=r"a worker cannot read .*numbers.*a disk that all workers see"
    ):
        part.read()


@pytest.mark.parametrize("users_are_rows", [True, False])
@pytest.mark.parametrize("least", [1e-9, 0.1])
def test_null_directions_are_those_of_all_rows(
    users_are_rows: bool, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the last fixed rows reach into the direction that the shared matrix lacks. Rows of the
    # last block alone have entries there, and no row has a ridge.
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 40)
    rng = np.random.default_rng(0)
    dense = rng.random((60, 30)) < 0.3
    dense[:50, 25:] = False
    rows = CSR.from_scipy(sp.csr_array(dense.astype(np.float32)))
    n_users = 60 if users_are_rows else 30
    term = CellTerm(rng.uniform(0.5, 2, n_users))
    problem = RowProblem(
        rows, rng.uniform(0, 1, 60), np.zeros(60), ObservedLoss(term, term, term), users_are_rows
    )
    fixed = rng.standard_normal((30, 6)).astype(np.float32)
    fixed[:25, 0] = 0
    shared = Shared(np.array([0, least, 1, 1, 2, 3]), np.array([0.0, 1, 2, 3, 1, 1]))
    cpu, alone, there = choose(), np.zeros((60, 6), np.float32), np.zeros((60, 6), np.float32)
    gain = cpu.solve_rows(problem, fixed, shared, alone, SolveOptions())
    sharded = Sharded(cpu, "auto", Shuffled(2))
    np.testing.assert_array_equal(
        sharded.solve_rows(problem, fixed, shared, there, SolveOptions()), gain
    )
    np.testing.assert_array_equal(there, alone)
