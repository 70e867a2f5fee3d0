"""Gram matrices, products and sums over tables on the CUDA backend, on an emulated GPU."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
import test_backends as contract
from emulated_gpu import EmulatedGPU, Launched
from problems import OBJECTIVES, rows_of, toy

import mfrank
from mfrank import backends
from mfrank.arrays import CSR, device_copy_of, on_host, read_only
from mfrank.backends import Shared, SolveOptions, none_of, reference, row_problem, widened
from mfrank.backends.cuda import factor_sums


def test_gram_and_rotation_in_parts(
    backend: backends.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    factors, weights = rng.standard_normal((50, 6)), rng.random(50)
    basis = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    monkeypatch.setattr(factor_sums, "_BYTES_AT_ONCE", 1000)
    got, truth = backend.gram(factors, weights), reference.gram(factors, weights)
    np.testing.assert_allclose(got.matrix, truth.matrix, rtol=1e-12)
    np.testing.assert_allclose(got.vector, truth.vector, rtol=1e-12)
    out = np.empty_like(factors)
    backend.rotate(factors, basis, 0, out)
    np.testing.assert_allclose(out, factors @ basis, atol=1e-13)


@pytest.mark.parametrize(
    ("n", "k", "blocks"),
    [(300, 70, (4, 3)), (301, 70, (4, 3)), (50, 70, (3, 3)), (90, 300, (1, 15)), (1, 1, (1, 1))],
)
def test_a_gram_matrix_is_summed_by_about_as_many_blocks(
    backend: backends.Backend,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    n: int,
    k: int,
    blocks: tuple[int, int],
) -> None:
    """12 here, of a part of the rows, not too few, and a tile of the triangle each."""
    monkeypatch.setattr(factor_sums, "_MOST_BLOCKS", 12)
    monkeypatch.setattr(factor_sums, "_LEAST_ROWS", 20)
    factors, weights = np.random.default_rng(0).standard_normal((n, k)), np.arange(1.0, n + 1)
    found, truth = backend.gram(factors, weights), reference.gram(factors, weights)
    np.testing.assert_allclose(found.matrix, truth.matrix, atol=1e-9)
    np.testing.assert_allclose(found.vector, truth.vector, atol=1e-9)
    summed, added = launched
    assert summed.grid.blocks == blocks
    assert summed.args[-2].shape == (*blocks, 64**2)  # and no more memory is taken
    assert added.args[-1].shape == (k + 1, k)


@pytest.mark.parametrize(("n_bytes", "rows"), [(1000, [20, 20, 10]), (10, [1] * 50), (None, [50])])
def test_rows_of_a_table_are_moved_some_at_a_time(
    backend: backends.Backend,
    monkeypatch: pytest.MonkeyPatch,
    launched: list[Launched],
    n_bytes: int | None,
    rows: list[int],
) -> None:
    if n_bytes:
        monkeypatch.setattr(factor_sums, "_BYTES_AT_ONCE", n_bytes)
    rng = np.random.default_rng(2)
    table, before = rng.standard_normal((2, 50, 6))
    basis, turn = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    moved = none_of(table)
    moved[:] = rng.standard_normal((50, 6))
    last, given = (before - widened(moved) @ turn) @ basis, table.copy()
    backend.extrapolate(table, 0.5, before, basis, moved, turn)
    np.testing.assert_allclose(widened(moved), 0.5 * (given - last), rtol=1e-6)
    np.testing.assert_array_equal(table, given + widened(moved))
    assert [one.args[1] // 6 for one in launched if one.kernel == "widen"] == rows


def test_eigenvectors_found_on_the_device_stay_there(
    backend: backends.Backend, device: EmulatedGPU, went: list[int]
) -> None:
    """As long as their copies on the host: what rotates by those reads them in place."""
    width, rng = 200, np.random.default_rng(4)
    half = rng.standard_normal((width, width))
    _, vectors = backend.eigh(half @ half.T)
    basis, table = read_only(vectors), device.asarray(rng.standard_normal((7, width)))
    truth, there = table.get() @ vectors, weakref.ref(device_copy_of(vectors))
    went.clear()
    backend.rotate(table, basis, 0, table)
    assert width**2 not in went
    np.testing.assert_allclose(table.get(), truth, atol=1e-12)
    del vectors, basis
    gc.collect()
    assert there() is None


@pytest.mark.parametrize("room", [1 << 28, 0])
@pytest.mark.parametrize("counts", [[3, 0, 200, 256], [257, 9, 0, 40] * 30], ids=["short", "long"])
def test_rows_of_a_sparse_product_are_sent_once_if_they_fit(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    went: list[int],
    launched: list[Launched],
    counts: list[int],
    room: int,
) -> None:
    """Rows of more than 256 entries are added in parts, so that none is the last to end."""
    monkeypatch.setattr("mfrank.backends.cuda.resident._SMALL", 0)
    monkeypatch.setattr(device, "free", room)
    matrix, table = rows_of(counts), np.random.default_rng(3).standard_normal((300, 150))
    rows = CSR.from_scipy(matrix, np.float64)
    for again in (False, True):
        went.clear()
        np.testing.assert_allclose(backend.sparse_product(rows, table), matrix @ table, atol=1e-9)
        assert went.count(matrix.nnz) == (0 if again and room else 2)
    assert ("add_row_parts" in {one.kernel for one in launched}) is (max(counts) > 256)


@pytest.mark.parametrize("room", [1 << 28, 1000])
@pytest.mark.parametrize("name", ["wrmf below one", "rg2", "eals"])
def test_the_observed_value_is_that_of_the_reference(
    backend: backends.Backend,
    device: EmulatedGPU,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    room: int,
) -> None:
    """In one block of rows or many, whatever the first has; of dislikes, too."""
    monkeypatch.setattr(device, "free", room)
    matrix = contract.with_dislikes(OBJECTIVES[name], toy(40, 20, 0.6))
    step = contract.half_step(OBJECTIVES[name], matrix, "users", 5, np.float64)
    found = backend.observed_value(step.problem, step.start(), step.fixed)
    truth = reference.observed_value(step.problem, step.start(), step.fixed)
    assert found == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize(("n", "is_sent"), [(128, False), (129, True)])
def test_a_small_matrix_is_decomposed_on_the_host(
    backend: backends.Backend, went: list[int], n: int, is_sent: bool
) -> None:
    """Which takes less time than to send it there and back."""
    half = np.random.default_rng(4).standard_normal((n, n))
    values, vectors = backend.eigh(half @ half.T)
    np.testing.assert_allclose((vectors * values) @ vectors.T, half @ half.T, atol=1e-9)
    assert vectors.flags.c_contiguous
    assert (n * n in went) is is_sent


def test_a_basis_that_may_change_is_read_anew(backend: backends.Backend, went: list[int]) -> None:
    """One that is read-only goes to the device once."""
    table, basis = np.random.default_rng(6).standard_normal((9, 5)), np.eye(5)
    out = np.empty_like(table)
    for factor in (1.0, 2.0):
        basis[0, 0] = factor
        backend.rotate(table, basis, 0, out)
        np.testing.assert_array_equal(out, table @ basis)
    basis.flags.writeable = False
    for times in (1, 0):
        went.clear()
        backend.rotate(table, basis, 0, out)
        assert went.count(25) == times


@pytest.mark.parametrize("there", [False, True])
def test_some_rows_are_turned_on_their_side(
    backend: backends.Backend, device: EmulatedGPU, there: bool
) -> None:
    rng, place = np.random.default_rng(5), device.asarray if there else np.asarray
    table, rows = rng.standard_normal((9, 4)), np.array([7, 2, 2])
    basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    for picked in (None, rows):
        out = place(np.empty_like(table if picked is None else table[rows]))
        backend.rotate(place(table), basis, 0, out, rows=picked)
        wanted = (table if picked is None else table[rows]) @ basis
        np.testing.assert_allclose(on_host(out), wanted, atol=1e-13)
        assert isinstance(out, np.ndarray) is not there


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("n_factors", [24, 8])
def test_rows_that_float32_cannot_tell_end_on_the_side_of_the_others(
    backend: backends.Backend,
    device: EmulatedGPU,
    n_factors: int,
    with_prior: bool,
    there: bool,
) -> None:
    """Solved in float64, with their prior and their gain."""
    place = device.asarray if there else np.asarray
    rng = np.random.default_rng(6)
    matrix = sp.csr_array((rng.random((12, 30)) < 0.6).astype(np.float64))
    matrix.data[: matrix.nnz // 2] *= 1e7  # of some rows
    objective = mfrank.WRMF(alpha=1.0, regularization=1.0, confidence="1+alpha*r")
    step = contract.half_step(objective, matrix, "users", n_factors, "float32")
    shared = Shared(np.ones(n_factors), np.zeros(n_factors))
    prior = 100 * step.start() if with_prior else None
    wide = 0 * step.start().astype(np.float64)
    fixed = step.fixed.astype(np.float64)
    problem, options = row_problem.in_float64(step.problem), SolveOptions("cholesky")
    more = {} if prior is None else {"prior": prior.astype(np.float64)}
    wanted = reference.solve_rows(problem, fixed, shared, wide, options, **more)
    out = place(step.start())
    more = {} if prior is None else {"prior": place(prior)}
    gain = backend.solve_rows(step.problem, place(step.fixed), shared, out, options, **more)
    assert isinstance(gain, np.ndarray) is isinstance(out, np.ndarray) is not there
    found = on_host(out)
    errors = np.linalg.norm(found - wide, axis=1) / np.linalg.norm(wide, axis=1)
    assert errors.max() <= 2 * backend.TOLERANCE["float32"]
    np.testing.assert_allclose(on_host(gain), wanted, rtol=1e-3)
