"""The contract of a backend's arithmetic, against the reference, for every backend that runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray
from problems import OBJECTIVES, iterate_plainly, matrices, solve_plainly, solve_turned

import mfrank
from mfrank import backends
from mfrank.als import Eigenbasis, QuadraticObjective
from mfrank.arrays import CSR
from mfrank.backends import (
    CellTerm,
    Gram,
    ItemProbabilities,
    ObservedLoss,
    RowProblem,
    SolveOptions,
    reference,
)
from mfrank.data import Counts

DTYPES = ["float32", "float64"]
FACTORS = st.sampled_from([1, 2, 7, 16, 17, 33, 64, 100, 130])
FEW = settings(max_examples=12, deadline=None)


def _others() -> list[str]:
    return sorted(set(backends.names()) - {"reference"})


@pytest.fixture(scope="module", params=_others())
def backend(request: pytest.FixtureRequest) -> backends.Backend:
    if reason := backends.named(request.param).why_unavailable():
        pytest.skip(reason)
    return backends.choose(request.param)


class HalfStep:
    """One half-step with random factors, in any basis, and its answer."""

    def __init__(self, problem: RowProblem, fixed: NDArray[Any], gram: Gram) -> None:
        self.problem, self.fixed, self.gram = problem, fixed, gram

    def start(self) -> NDArray[Any]:
        rng = np.random.default_rng(5)
        shape = (self.problem.rows.n_rows, self.fixed.shape[1])
        return (0.1 * rng.standard_normal(shape)).astype(self.fixed.dtype)

    def solve(self, backend: Any, **options: Any) -> NDArray[Any]:
        """Solutions in the basis of ``fixed``, float64; exact ones where nothing else is said."""
        options = {"solver": "cholesky", **options}
        return solve_turned(backend, self.problem, self.fixed, self.gram, self.start(), **options)

    def error(self, got: NDArray[Any]) -> float:
        """Largest error of a row, relative to the row's norm; nan if any value is.

        Where the terms of the right-hand side cancel to less than a hundredth, their rounding is
        left over: the error is then relative to a hundredth of the row without cancellation.
        """
        system = self.problem, self.fixed, self.gram
        truth, uncancelled = solve_plainly(*system), solve_plainly(*system, magnitudes=True)
        norms = np.linalg.norm(truth, axis=1)
        norms = np.maximum(norms, 0.01 * np.linalg.norm(uncancelled, axis=1))
        errors = np.linalg.norm(got - truth, axis=1) / np.where(norms > 1e-12, norms, 1.0)
        return float(errors.max(initial=0.0))


def half_step(
    objective: QuadraticObjective,
    matrix: sp.csr_array,
    side: str,
    n_factors: int,
    dtype: DTypeLike,
    seed: int = 0,
) -> HalfStep:
    """The user or the item step of the objective on the matrix."""
    rng = np.random.default_rng(seed)
    counts = Counts(np.diff(matrix.indptr), np.bincount(matrix.indices, minlength=matrix.shape[1]))
    if side == "users":
        problem = objective.user_problem(CSR.from_scipy(matrix, dtype), counts)
        weights = objective.item_weights(counts.items, counts)
    else:
        transposed = sp.csr_array(matrix.T)
        transposed.sort_indices()
        problem = objective.item_problem(CSR.from_scipy(transposed, dtype), counts)
        weights = objective.user_weights(counts.users, matrix.shape[1])
    shape = (problem.rows.n_columns, n_factors)
    fixed = (rng.standard_normal(shape) * rng.choice([0.1, 1.0])).astype(dtype)
    gram = reference.gram(fixed, weights)
    return HalfStep(problem, fixed, Gram(gram.matrix, objective.target * gram.vector))


def with_dislikes(objective: QuadraticObjective, matrix: sp.csr_array) -> sp.csr_array:
    """The matrix with every third value negative, where the objective knows dislikes."""
    matrix = matrix.copy()
    if objective.accepts_dislikes:
        matrix.data[::3] *= -1
    return matrix


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["users", "items"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective(backend: backends.Backend, name: str, side: str, dtype: str) -> None:
    objective = OBJECTIVES[name]
    rng = np.random.default_rng(3)
    matrix = sp.random_array((25, 19), density=0.4, random_state=rng, format="csr")
    matrix.data = np.ceil(5 * matrix.data)
    step = half_step(objective, with_dislikes(objective, matrix), side, 9, dtype)
    assert step.error(step.solve(backend)) <= backend.TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@FEW
@given(matrices(), FACTORS, st.sampled_from(sorted(OBJECTIVES)), st.integers(1, 3))
def test_every_shape(
    backend: backends.Backend, dtype: str, matrix: sp.csr_array, k: int, name: str, n_threads: int
) -> None:
    objective = OBJECTIVES[name]
    step = half_step(objective, with_dislikes(objective, matrix), "users", k, dtype)
    got = step.solve(backend, n_threads=n_threads)
    assert step.error(got) <= backend.TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_factors", [5, 40])
@pytest.mark.parametrize("side", ["users", "items"])
def test_conjugate_gradients_converge(
    backend: backends.Backend, side: str, n_factors: int, dtype: str
) -> None:
    rng = np.random.default_rng(8)
    matrix = sp.random_array((30, 20), density=0.4, random_state=rng, format="csr")
    step = half_step(mfrank.WRMF(alpha=0.5), matrix, side, n_factors, dtype)
    tolerance = 0.01 * backend.TOLERANCE[dtype]
    got = step.solve(backend, solver="cg", cg_steps=200, cg_tolerance=tolerance)
    assert step.error(got) <= backend.TOLERANCE[dtype]
    one = step.solve(backend, solver="cg", cg_steps=1)
    assert step.error(got) < step.error(one) < step.error(step.start())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_factors", [5, 40])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("near", [1.0, 1e-3, 1e-5])
def test_conjugate_gradients_take_the_steps_they_are_given(
    backend: backends.Backend, near: float, steps: int, n_factors: int, dtype: str
) -> None:
    """However near the solution they start, as far as the dtype can tell."""
    matrix = sp.random_array(
        (30, 50), density=0.3, random_state=np.random.default_rng(8), format="csr"
    )
    step = half_step(mfrank.WRMF(alpha=9.0), matrix, "users", n_factors, dtype)
    system = step.problem, step.fixed, step.gram
    truth = solve_plainly(*system)
    start = (truth + near * step.start()).astype(dtype)
    got = solve_turned(backend, *system, start, solver="cg", cg_steps=steps)
    errors = np.linalg.norm(got - iterate_plainly(*system, start, steps), axis=1)
    bound = max(0.02 * backend.TOLERANCE[dtype], float(np.finfo(dtype).eps))
    assert (errors / np.linalg.norm(truth, axis=1)).max() <= bound


@pytest.mark.parametrize("dtype", DTYPES)
@FEW
@given(
    matrices(),
    st.sampled_from([1, 2, 5, 9]),
    st.sampled_from(sorted(OBJECTIVES)),
    st.sampled_from([0.0, 0.1, 10.0]),
)
def test_as_many_steps_as_factors_and_one_are_exact(
    backend: backends.Backend,
    dtype: str,
    matrix: sp.csr_array,
    n_factors: int,
    name: str,
    scale: float,
) -> None:
    objective = OBJECTIVES[name]
    step = half_step(objective, matrix, "users", n_factors, dtype)
    start = (10 * scale * step.start()).astype(dtype)
    system = step.problem, step.fixed, step.gram
    exact, got = (
        solve_turned(backend, *system, start, solver=solver, cg_steps=n_factors + 1)
        for solver in ("cholesky", "cg")
    )
    sizes = np.maximum(np.linalg.norm(exact, axis=1), np.linalg.norm(start, axis=1))
    errors = np.linalg.norm(got - exact, axis=1) / np.maximum(sizes, 1e-3)  # terms are about 1
    assert errors.max(initial=0.0) <= 2 * backend.TOLERANCE[dtype]  # each is off by up to one


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps_beyond_rounding_lead_nowhere(backend: backends.Backend, dtype: str) -> None:
    """Of rows whose solution is 0, as of users with dislikes alone, from anywhere."""
    matrix = sp.csr_array(-1.0 * (np.random.default_rng(0).random((12, 60)) < 0.5))
    step = half_step(mfrank.WRMF(alpha=3.0, regularization=0.1), matrix, "users", 24, dtype)
    got = step.solve(backend, solver="cg", cg_steps=300)
    assert np.linalg.norm(got) <= backend.TOLERANCE[dtype] * np.linalg.norm(step.start())


class Places(NamedTuple):
    """Queries, items, and lists of items with a number at each place, some 0."""

    queries: np.ndarray
    items: np.ndarray
    ids: np.ndarray
    gradients: np.ndarray


def places(shape: tuple[int, int, int], k: int, dtype: str, n_asking: int) -> Places:
    rng = np.random.default_rng(2)
    n_lists, n_places, n_items = shape
    ids = rng.integers(n_items, size=(n_lists, n_places))
    n_queries = n_lists * n_asking
    gradients = rng.standard_normal((n_queries, n_places))
    gradients *= rng.random(gradients.shape) < (0.7 if n_asking == 1 else 0.3)
    queries, items = rng.standard_normal((n_queries, k)), rng.standard_normal((n_items, k))
    return Places(*(x.astype(dtype) for x in (queries, items)), ids, gradients.astype(dtype))


LISTS = st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(1, 5000))


@pytest.mark.parametrize("dtype", DTYPES)
@FEW
@given(LISTS, FACTORS, st.integers(1, 3), st.integers(1, 3))
def test_scores_and_sums_of_lists(
    backend: backends.Backend,
    dtype: str,
    shape: tuple[int, int, int],
    k: int,
    n_asking: int,
    n_threads: int,
) -> None:
    queries, items, ids, gradients = places(shape, k, dtype, n_asking)
    wide, tolerance = items.astype(float), 200 * backend.TOLERANCE[dtype]
    every = queries.astype(float) @ wide.T
    scores = backend.score(queries, items, ids, n_threads)
    asked = np.repeat(ids, n_asking, axis=0)
    np.testing.assert_allclose(scores, np.take_along_axis(every, asked, axis=1), atol=tolerance)
    apart = backend.score(queries, items, ids, n_threads, distances=True)
    truth = -((queries[:, None] - items[asked].astype(float)) ** 2).sum(2)
    np.testing.assert_allclose(apart, truth, atol=tolerance)
    dense = np.zeros((len(queries), shape[2]))
    np.add.at(dense, (np.arange(len(queries))[:, None], asked), gradients)
    by_list = backend.sum_items(items, ids, gradients, n_threads)
    np.testing.assert_allclose(by_list, dense @ wide, atol=tolerance)
    touched, by_item, totals = backend.sum_queries(queries, shape[2], ids, gradients, n_threads)
    np.testing.assert_array_equal(touched, np.unique(asked[gradients != 0]))
    truth = dense.T[touched] @ queries.astype(float)
    np.testing.assert_allclose(by_item, truth, atol=tolerance)
    of_slopes = dense.sum(0, dtype=float)[touched]
    np.testing.assert_allclose(totals, of_slopes, atol=tolerance)
    assert {found.dtype for found in (scores, by_list, by_item, totals)} == {items.dtype}


@FEW
@given(matrices(), st.integers(1, 20), st.integers(0, 2**64 - 1), st.integers(1, 3), st.booleans())
def test_draws_are_the_same_on_every_backend(
    backend: backends.Backend,
    matrix: sp.csr_array,
    count: int,
    key: int,
    n_threads: int,
    by_chance: bool,
) -> None:
    assume(matrix.shape[1] > 0)
    rows, rng = CSR.from_scipy(matrix, None), np.random.default_rng(3)
    users = rng.permutation(rows.n_rows)
    weights = rng.random(rows.n_columns) * (rng.random(rows.n_columns) < 0.5)
    chances = ItemProbabilities.of(weights) if by_chance and weights.any() else None
    likes = backend.draw_positives(rows, users, count, key, n_threads)
    np.testing.assert_array_equal(likes, reference.draw_positives(rows, users, count, key))
    got = backend.draw_negatives(rows, users, count, key, chances, n_threads)
    truth = reference.draw_negatives(rows, users, count, key, chances)
    for array, expected in zip(got, truth, strict=True):
        np.testing.assert_array_equal(array, expected)
    assert [array.dtype for array in (likes, *got)] == [np.int64, np.int64, np.bool_]


@pytest.mark.parametrize("n_factors", [600, 2048])
def test_many_factors(backend: backends.Backend, n_factors: int) -> None:
    rng = np.random.default_rng(4)
    matrix = sp.csr_array((rng.random((2, 700)) < [[0.02], [0.93]]).astype(np.float64))
    step = half_step(mfrank.IALS(), matrix, "users", n_factors, "float32")
    got, problem = step.solve(backend).astype(np.float64), step.problem
    for r in range(2):  # The normal equations: cheaper at this size than the reference.
        seen = step.fixed[problem.rows.row(r)[0]].astype(np.float64)
        left = problem.weight[r] * step.gram.matrix @ got[r] + problem.ridge[r] * got[r]
        residual = left + seen.T @ (seen @ got[r]) - seen.sum(axis=0)
        assert np.linalg.norm(residual) <= 1e-4 * np.linalg.norm(seen.sum(axis=0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_entries_that_weigh_less_than_the_background(
    backend: backends.Backend, dtype: str
) -> None:
    """Fewer than factors, but more than are multiplied at a time."""
    rng = np.random.default_rng(4)
    matrix = sp.csr_array(rng.integers(1, 6, (2, 500)) * (rng.random((2, 500)) < 0.6))
    step = half_step(OBJECTIVES["wrmf below one"], matrix, "users", 320, dtype)
    assert (step.problem.curvature() < 0).any()
    assert step.error(step.solve(backend)) <= backend.TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("confidence", [1e4, 1e6])
def test_huge_confidences(backend: backends.Backend, confidence: float, dtype: str) -> None:
    rng = np.random.default_rng(6)
    matrix = sp.csr_array((rng.random((12, 30)) < 0.6).astype(np.float64))
    objective = mfrank.WRMF(alpha=confidence, regularization=1.0)
    step = half_step(objective, matrix, "users", 24, dtype)
    assert step.error(step.solve(backend)) <= 10 * backend.TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("solver", ["auto", "cholesky"])
def test_rank_deficient_without_ridge(backend: backends.Backend, solver: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    matrix = sp.random_array((15, 6), density=0.5, random_state=rng, format="csr")
    objective = mfrank.WRMF(alpha=3.0, regularization=0.0, confidence="1+alpha*r")
    step = half_step(objective, matrix, "users", 20, dtype)  # 6 items span 6 of 20 dimensions
    assert step.error(step.solve(backend, solver=solver)) <= backend.TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_background_no_ridge(backend: backends.Backend, dtype: str) -> None:
    """Plain least squares on the observed cells: singular wherever a row is short."""
    rng = np.random.default_rng(9)
    matrix = sp.csr_array((rng.random((10, 12)) < rng.random((10, 1))).astype(np.float64))
    step = half_step(mfrank.IALS(alpha0=0.0, regularization=0.0), matrix, "users", 5, dtype)
    assert step.error(step.solve(backend)) <= 10 * backend.TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_centred_gram(backend: backends.Backend, dtype: str) -> None:
    """RGx takes a direction out of the Gram matrix in which factors do have a part."""
    matrix = sp.random_array(
        (14, 30), density=0.3, random_state=np.random.default_rng(2), format="csr"
    )
    step = half_step(mfrank.RGX(), matrix, "users", 6, dtype)
    step.fixed[:, 0] = 1
    kept = reference.gram(step.fixed, np.ones(30))
    step.gram = Gram(kept.matrix - np.outer(kept.vector, kept.vector) / 30, -kept.vector)
    assert step.error(step.solve(backend)) <= backend.TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_entries_without_curvature_among_others(backend: backends.Backend, dtype: str) -> None:
    rng = np.random.default_rng(1)
    rows = CSR.from_scipy(sp.csr_array((rng.random((8, 20)) < 0.5).astype(float)), dtype)
    curvature = CellTerm(rng.choice([0.0, 0.0, 2.0], size=20))
    observed = ObservedLoss(curvature, CellTerm(rng.random(20)), CellTerm(np.zeros(20)))
    fixed = rng.standard_normal((20, 11)).astype(dtype)
    problem = RowProblem(rows, rng.random(8), rng.random(8), observed, users_are_rows=False)
    step = HalfStep(problem, fixed, reference.gram(fixed, rng.random(20)))
    assert step.error(step.solve(backend)) <= backend.TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_thread_count_changes_no_bit(backend: backends.Backend, dtype: str) -> None:
    rng = np.random.default_rng(11)
    matrix = sp.random_array((900, 300), density=0.05, random_state=rng, format="csr")
    matrix.data = np.ceil(5 * matrix.data)
    step = half_step(mfrank.WRMF(alpha=2.0), matrix, "users", 20, dtype)
    weights = rng.random(900)

    def everything(n_threads: int) -> list[bytes]:
        at, turned = Eigenbasis.of(step.gram), np.empty_like(step.fixed)
        backend.rotate(step.fixed, at.basis, 0, turned, n_threads)
        out, options = step.start(), SolveOptions(n_threads=n_threads)
        gain = backend.solve_rows(step.problem, turned, at.shared, out, options)
        gram = backend.gram(out, weights, n_threads)
        value = backend.observed_value(step.problem, out, turned, n_threads)
        arrays = turned, out, gain, gram.matrix, gram.vector, np.array(value)
        return [array.tobytes() for array in arrays]

    assert everything(1) == everything(2) == everything(3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gram_matrices_of_huge_factors_do_not_overflow(
    backend: backends.Backend, dtype: str
) -> None:
    """A row of 6e19, as a degenerate objective may have, has products beyond float32."""
    factors = np.array([[6e19, 1.0], [-6e19, 2.0]], dtype)
    found = backend.gram(factors, np.ones(2))
    expected = reference.gram(factors, np.ones(2))
    np.testing.assert_allclose(found.matrix, expected.matrix, rtol=1e-6)
