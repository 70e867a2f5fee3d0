"""Half-steps of ALS: systems of rows, Gram matrices, rotations, objectives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import CSR, on_host
from mfrank.backends import (
    Backend,
    CellTerm,
    Factors,
    ObservedLoss,
    RowProblem,
    Shared,
    SolveOptions,
    halved,
    reference,
    widened,
)

DTYPES = "float32", "float64"
WIDTHS = 1, 2, 7, 16, 17, 33, 64, 100
_LENGTHS = 0, 1, 2, 5, 9, 20, 30, 60, 90, 150, 0, 3
_N_COLUMNS = 200


def check_solutions_are_those_of_the_reference(backend: Backend) -> None:
    """Rows of every length, with curvature of both signs and without, with and without a vector."""
    for dtype in DTYPES:
        for width in WIDTHS:
            for problem, shared in _problems(dtype, width):
                _compare(backend, problem, _fixed(dtype, width), shared, SolveOptions("cholesky"))


def check_conjugate_gradients_converge(backend: Backend) -> None:
    """With enough steps, conjugate gradients reach the exact solution."""
    for dtype in DTYPES:
        options = SolveOptions("cg", cg_steps=300, cg_tolerance=0.01 * backend.TOLERANCE[dtype])
        for width in (3, 16, 33):
            for problem, shared in _problems(dtype, width, least=0.0):
                _compare(backend, problem, _fixed(dtype, width), shared, options)


def check_rows_are_pulled_to_their_prior(backend: Backend) -> None:
    """The ridge pulls rows to their prior with every solver; for backends with ``PRIORS``."""
    for dtype in DTYPES if backend.PRIORS else ():
        for width in (3, 16, 33, 100):
            prior = _normal(width, (len(_LENGTHS), width), dtype)
            for solver in ("cholesky", "cg"):
                options = SolveOptions(solver, cg_steps=200)
                for problem, shared in _problems(dtype, width, least=0.0):
                    _compare(backend, problem, _fixed(dtype, width), shared, options, prior=prior)


def check_rows_that_the_dtype_cannot_solve(backend: Backend) -> None:
    """Systems with a condition beyond float32; singular systems have the minimum-norm solution."""
    values = np.concatenate([[0.0, 0.0], np.logspace(-12, 6, 14)])
    for problem, shared in _problems("float32", 16, least=0.0):
        at = replace(shared, values=values)
        without = replace(problem, ridge=0 * problem.ridge)
        for each in (problem, without):
            _compare(backend, each, _fixed("float32", 16), at, SolveOptions("cholesky"), loose=10)


def check_nothing_at_all_gives_zero(backend: Backend) -> None:
    """Without weight and ridge, and with fixed factors of 0, solutions are 0."""
    for dtype in DTYPES:
        problem, _ = next(iter(_problems(dtype, 3)))
        nothing = replace(problem, weight=0 * problem.weight, ridge=0 * problem.ridge)
        out = np.ones((len(_LENGTHS), 3), dtype)
        fixed, shared = np.zeros((_N_COLUMNS, 3), dtype), Shared(np.zeros(3), np.zeros(3))
        backend.solve_rows(nothing, fixed, shared, out, SolveOptions("cholesky"))
        np.testing.assert_array_equal(out, 0)


def check_iterations_leave_nothing_where_a_row_has_no_say(backend: Backend) -> None:
    """In a direction without curvature, nothing remains of the start: minimum norm."""
    problem, _ = next(iter(_problems("float64", 3)))
    bare = replace(problem, weight=np.ones(len(_LENGTHS)), ridge=np.zeros(len(_LENGTHS)))
    fixed = _fixed("float64", 3) * [0, 1, 1]
    out, shared = np.ones((len(_LENGTHS), 3)), Shared(np.array([0.0, 1.0, 2.0]), np.zeros(3))
    backend.solve_rows(bare, fixed, shared, out, SolveOptions("cg", cg_steps=1))
    assert (out[:, 0] == 0).all()


def check_gram(backend: Backend) -> None:
    """Gram matrices of no rows and of many."""
    for dtype in DTYPES:
        for seed, (n, width) in enumerate([(0, 3), (1, 17), (300, 64), (3000, 100)]):
            factors = _normal(seed, (n, width), dtype)
            weights = np.random.default_rng(seed).random(n)
            got, truth = backend.gram(factors, weights, 2), reference.gram(factors, weights)
            bound = backend.TOLERANCE[dtype] * max(1.0, float(np.linalg.norm(truth.matrix, 2)))
            np.testing.assert_allclose(got.matrix, truth.matrix, rtol=0, atol=bound)
            np.testing.assert_allclose(got.vector, truth.vector, rtol=0, atol=bound)


def check_eigh(backend: Backend) -> None:
    """Ascending eigenvalues, and eigenvectors as columns, the largest entry of each positive."""
    for width in (1, 5, 64, 200):
        half = _normal(width, (width + 3, width), "float64")
        values, vectors = backend.eigh(half.T @ half)
        assert (np.diff(values) >= 0).all()
        assert (vectors.max(axis=0) >= -vectors.min(axis=0)).all()
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(width), atol=1e-10)
        np.testing.assert_allclose((vectors * values) @ vectors.T, half.T @ half, atol=1e-9 * width)


def check_rotate(backend: Backend) -> None:
    """Rotations into another table, in place, and of some rows."""
    for dtype in DTYPES:
        for seed, (n, width) in enumerate([(0, 7), (1, 1), (300, 16), (257, 130)]):
            factors, basis = _normal(seed, (n, width), dtype), _basis(seed, width)
            truth = factors.astype(np.float64) @ basis
            bound = backend.TOLERANCE[dtype] * np.linalg.norm(truth, axis=1).max(initial=1.0)
            out, picked = np.empty_like(factors), np.random.default_rng(0).integers(0, max(n, 1), n)
            backend.rotate(factors, basis, 0, out, 2)
            np.testing.assert_allclose(out, truth, rtol=0, atol=bound)
            backend.rotate(factors, basis, 0, out, 2, picked)
            np.testing.assert_allclose(out, truth[picked], rtol=0, atol=bound)
            backend.rotate(factors, basis, 0, factors, 2)
            np.testing.assert_allclose(factors, truth, rtol=0, atol=bound)


def check_rotate_leaves_no_noise_in_null_directions(backend: Backend) -> None:
    """Values at the level of a row's rounding become 0; larger values stay, in short rows, too."""
    for dtype in DTYPES:
        basis = _basis(3, 9)
        factors = (_normal(3, (50, 7), "float64") @ basis[:, 2:].T).astype(dtype)
        out = np.empty_like(factors)
        backend.rotate(factors, basis, 2, out)
        assert not out[:, :2].any()
        assert out[:, 2:].all()
        factors = np.array([[1e6, 2e6, 0], [1e-3, 2e-3, 1e-6]], dtype)
        out = np.empty_like(factors)
        backend.rotate(factors, np.eye(3)[:, ::-1], 2, out)
        np.testing.assert_array_equal(out, factors[:, ::-1])


def check_extrapolate(backend: Backend) -> None:
    """The stored displacement is exactly what was added, so it can be subtracted again."""
    for dtype in DTYPES:
        for seed, (n, width) in enumerate([(0, 3), (1, 1), (300, 17), (40, 130)]):
            solved, before, moved = _normal(seed, (3, n, width), dtype)
            basis, turn = _basis(seed, width), _basis(seed + 1, width)
            displacements = halved(moved)
            given, last = solved.copy(), (before - widened(displacements) @ turn) @ basis
            backend.extrapolate(solved, 0.75, before, basis, displacements, turn, 2)
            step = widened(displacements)
            np.testing.assert_array_equal(solved, given + step)
            size = max(float(np.abs(given - last).max(initial=0.0)), 1.0)
            half, rounding = (2.0**-8, 1e-5) if dtype == "float32" else (2.0**-24, 1e-13)
            np.testing.assert_allclose(step, 0.75 * (given - last), half, rounding * size)


def check_observed_value(backend: Backend) -> None:
    """The observed cells' part of the objective."""
    for dtype in DTYPES:
        for width in (1, 17, 64):
            fixed, own = _fixed(dtype, width), _normal(9, (len(_LENGTHS), width), dtype)
            for problem, _ in _problems(dtype, width):
                truth = reference.observed_value(problem, own, fixed)
                size = abs(reference.observed_value(problem, np.abs(own), -np.abs(fixed)))
                found = backend.observed_value(problem, own, fixed)
                assert abs(found - truth) <= backend.TOLERANCE[dtype] * max(1.0, size)


def check_sparse_product(backend: Backend) -> None:
    """Sparse products with empty rows, and rows of many entries."""
    rng, lengths = np.random.default_rng(0), np.array([0, 3, 700, 0, 257, 1])
    columns = [np.sort(rng.choice(800, n, replace=False)) for n in lengths]
    indptr, indices = np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(columns)
    rows = CSR(indptr, indices.astype(np.int32), rng.standard_normal(len(indices)), 800)
    dense = np.zeros((len(lengths), 800))
    dense[np.repeat(np.arange(len(lengths)), lengths), indices] = rows.data
    for width in (1, 5, 70):
        table = rng.standard_normal((800, width))
        np.testing.assert_allclose(backend.sparse_product(rows, table), dense @ table, atol=1e-11)


def _compare(
    backend: Backend,
    problem: RowProblem,
    fixed: Factors,
    shared: Shared,
    options: SolveOptions,
    *,
    loose: float = 1.0,
    **prior: Factors,
) -> None:
    """Solutions to the tolerance, relative to each row's length, and gains."""
    dtype = fixed.dtype.name
    out, truth = (np.zeros((problem.rows.n_rows, fixed.shape[1]), dtype) for _ in range(2))
    gain = on_host(backend.solve_rows(problem, fixed, shared, out, options, **prior))
    wanted = reference.solve_rows(problem, fixed, shared, truth, options, **prior)
    bound = loose * backend.TOLERANCE[dtype]
    errors = np.linalg.norm(out - truth.astype(np.float64), axis=1)
    assert (errors <= bound * np.maximum(1, np.linalg.norm(truth, axis=1))).all(), errors.max()
    np.testing.assert_allclose(gain, wanted, rtol=10 * bound, atol=10 * bound)


def _problems(dtype: str, width: int, least: float = -0.2) -> list[tuple[RowProblem, Shared]]:
    """Rows of either side; ``least`` is the least curvature of a cell."""
    rng, made = np.random.default_rng(width), []
    columns = [np.sort(rng.choice(_N_COLUMNS, n, replace=False)) for n in _LENGTHS]
    indptr, n = np.concatenate([[0], np.cumsum(_LENGTHS)]), len(_LENGTHS)
    indices = np.concatenate(columns).astype(np.int32)
    values = rng.integers(1, 6, len(indices)).astype(dtype)
    for curvature, slope, users in ((1.0, 0.0, True), (least, 0.4, False), (0.0, 0.0, True)):
        rows = CSR(indptr, indices, values if slope else None, _N_COLUMNS)
        size = n if users else _N_COLUMNS
        offsets = (np.full(size, curvature), 1 + rng.random(size), rng.random(size))
        terms = (CellTerm(o, s) for o, s in zip(offsets, (slope, slope, 0.0), strict=True))
        observed = ObservedLoss(*terms)
        problem = RowProblem(rows, rng.random(n) + 0.5, rng.random(n) + 0.2, observed, users)
        values_of = np.linspace(0.5, 9, width) * width
        made += [
            (problem, Shared(values_of, scale * rng.standard_normal(width))) for scale in (0, 1)
        ]
    return made


def _fixed(dtype: str, width: int) -> NDArray[Any]:
    return _normal(1, (_N_COLUMNS, width), dtype)


def _normal(seed: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _basis(seed: int, width: int) -> NDArray[np.float64]:
    return np.linalg.qr(_normal(seed, (width, width), "float64"))[0]
