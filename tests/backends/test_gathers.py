"""Fixed factors read in float16: what that means, and that the device means the same."""

from __future__ import annotations

from collections.abc import Iterator
from math import frexp
from pathlib import Path
from typing import Any

import emulated_gpu
import numpy as np
import pytest
import scipy.sparse as sp
import test_backends as contract
from emulated_gpu import EmulatedGPU
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import OBJECTIVES, toy

import mfrank
from mfrank import backends
from mfrank.als import Eigenbasis
from mfrank.arrays import Grid
from mfrank.arrays import device as gpu
from mfrank.backends import Gram, SolveOptions, reference, rounded, scale_of
from mfrank.backends.cuda import half_step as workers
from mfrank.backends.cuda import plan
from mfrank.backends.cuda.kernel_sources import Module
from tests.support.errors import refuses

needs_compiler = pytest.mark.skipif(
    emulated_gpu.why_unavailable() is not None, reason=str(emulated_gpu.why_unavailable())
)
HALF: dict[str, Any] = {"gather_dtype": "float16"}


@pytest.fixture
def device() -> Iterator[EmulatedGPU]:
    with emulated_gpu.installed() as emulated:
        yield emulated


@pytest.fixture(params=[pytest.param("device", marks=needs_compiler), "GPU"])
def cuda(request: pytest.FixtureRequest) -> backends.Backend:
    """On the emulated device, and on a GPU where there is one."""
    if request.param == "device":
        request.getfixturevalue("device")
    elif reason := gpu.why_unavailable():
        pytest.skip(reason)
    return backends.choose("cuda")


class Turned:
    """A half-step in its eigenbasis, the same bits for every backend."""

    def __init__(self, step: contract.HalfStep, size: float = 1.0) -> None:
        self.problem, gram = step.problem, step.gram
        self.fixed = (size * step.fixed).astype(step.fixed.dtype)
        at = Eigenbasis.of(Gram(size**2 * gram.matrix, size * gram.vector))
        self.shared = at.shared
        at.turn(reference, self.fixed, self.fixed)
        self.start = step.start() @ at.basis / size

    def solve(self, backend: Any, **options: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
        out = self.start.astype(self.fixed.dtype)
        how = SolveOptions(**{"solver": "cholesky", **HALF, **options})
        gain = backend.solve_rows(self.problem, self.fixed, self.shared, out, how)
        return out, gain


def steps(name: str, dtype: str, n_factors: int = 9, size: float = 1.0) -> Turned:
    """Rows from empty to full; dislikes where the objective knows them."""
    rng = np.random.default_rng(3)
    density = np.linspace(0, 1, 12)[:, None]
    dense = np.ceil(5 * rng.random((12, 40))) * (rng.random((12, 40)) < density)
    matrix = contract.with_dislikes(OBJECTIVES[name], sp.csr_array(dense))
    step = contract.half_step(OBJECTIVES[name], matrix, "users", n_factors, dtype)
    return Turned(step, size)


def check(got: NDArray[Any], truth: NDArray[Any], tolerance: float) -> None:
    """No row is further from the truth than the tolerance, relative to its norm."""
    norms = np.linalg.norm(truth.astype(np.float64), axis=1)
    errors = np.linalg.norm(got.astype(np.float64) - truth, axis=1)
    assert (errors <= tolerance * np.where(norms > 0, norms, 1)).all()


# --- what it means


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=30),
    st.integers(-25, 40),
    st.sampled_from([-1, 1]),
)
@settings(max_examples=200, deadline=None)
def test_factors_of_any_size_keep_eleven_bits(values: list[float], power: int, sign: int) -> None:
    factors = sign * np.array([[*values, 1e12]]) * 2.0**power / 1e12
    scale = scale_of(factors)
    assert 2.0**14 <= np.abs(factors).max() / scale < 2.0**15
    assert frexp(scale)[0] == 0.5  # a power of two
    read = scale * rounded(factors, scale).astype(np.float64)
    large = np.abs(factors) >= 2.0**-28 * np.abs(factors).max()
    np.testing.assert_allclose(read[large], factors[large], rtol=2.0**-11 * (1 + 1e-6))
    assert (np.abs(read - factors)[~large] <= 2.0**-38 * np.abs(factors).max()).all()


@pytest.mark.parametrize("size", [0.0, np.inf, np.nan])
def test_what_has_no_size_is_left_at_that(size: float) -> None:
    assert scale_of(np.full((2, 3), size)) == 1.0
    assert scale_of(np.empty((0, 3))) == 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_systems_are_those_of_rounded_rows(dtype: str) -> None:
    """The reference against numpy's: rows rounded to 11 bits, the shared matrix not."""
    of = steps("ials", dtype)
    got, _ = of.solve(reference)
    mantissas, exponents = np.frexp(of.fixed.astype(np.float64))
    seen = np.ldexp(np.round(mantissas * 2**11) / 2**11, exponents)
    curvature, pull, problem = of.problem.curvature(), of.problem.pull(), of.problem
    for r in range(problem.rows.n_rows):
        entries = slice(problem.rows.indptr[r], problem.rows.indptr[r + 1])
        rows = seen[problem.rows.indices[entries]]
        matrix = (rows.T * curvature[entries]) @ rows
        matrix += np.diag(problem.weight[r] * of.shared.values + problem.ridge[r])
        right = rows.T @ pull[entries] + problem.weight[r] * of.shared.vector
        np.testing.assert_allclose(got[r], np.linalg.solve(matrix, right), rtol=1e-4, atol=1e-6)


# --- the device against the reference


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective(cuda: backends.Backend, name: str, solver: str, dtype: str) -> None:
    of = steps(name, dtype)
    tolerance = cuda.TOLERANCE[dtype]
    truth, gain = of.solve(reference)
    got, gained = of.solve(cuda, solver=solver, cg_tolerance=tolerance / 100)
    check(got, truth, tolerance)
    np.testing.assert_allclose(gained, gain, rtol=tolerance, atol=tolerance * np.abs(gain).max())


@pytest.mark.parametrize("size", [1e-9, 1e-4, 1e6])
@pytest.mark.parametrize("n_factors", [9, 70])
def test_factors_too_small_or_too_large_for_float16(
    cuda: backends.Backend, size: float, n_factors: int
) -> None:
    """By themselves they would become 0 or infinite."""
    of = steps("ials", "float32", n_factors, size)
    check(of.solve(cuda)[0], of.solve(reference)[0], cuda.TOLERANCE["float32"])


@needs_compiler
def test_rows_that_float32_cannot_tell_are_those_of_rounded_factors_too(
    device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[tuple[str, bool]] = []
    launch = device.launch
    monkeypatch.setattr(
        device, "launch", lambda m, *rest: (launched.append((m.real, m.half)), launch(m, *rest))[1]
    )
    matrix = sp.csr_array((np.random.default_rng(6).random((12, 30)) < 0.6).astype(np.float64))
    objective = mfrank.WRMF(alpha=1e6, regularization=1.0, confidence="1+alpha*r")
    cuda = backends.choose("cuda")
    for n_factors in (24, 8):  # dual and primal
        step = contract.half_step(objective, matrix, "users", n_factors, "float32")
        of = Turned(step)
        check(of.solve(cuda)[0], of.solve(reference)[0], cuda.TOLERANCE["float32"])
    assert {("float", True), ("double", False)} <= set(launched)


@needs_compiler
def test_heavy_rows_and_two_devices(device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, of = backends.choose("cuda"), steps("ials", "float32", 20)
    wanted = of.solve(cuda)[0]
    monkeypatch.setattr(gpu, "devices", lambda: (device, EmulatedGPU()))
    monkeypatch.setattr(workers, "WORTH_A_DEVICE", 1)
    np.testing.assert_array_equal(of.solve(cuda)[0], wanted)
    monkeypatch.setattr(plan, "HEAVY", 25)
    monkeypatch.setattr("mfrank.backends.cuda.rows.HEAVY", 25)
    check(of.solve(cuda)[0], of.solve(reference)[0], cuda.TOLERANCE["float32"])


@needs_compiler
@pytest.mark.parametrize("n_factors", [20, 70])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_the_order_of_threads_changes_no_bit(
    device: EmulatedGPU, n_factors: int, solver: str
) -> None:
    cuda, of, results = backends.choose("cuda"), steps("ials", "float32", n_factors), []
    for device.reversed in (False, True):
        results.append(of.solve(cuda, solver=solver)[0])
    device.reversed = False
    np.testing.assert_array_equal(*results)


@needs_compiler
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_every_number_of_float16_is_read_as_it_is(device: EmulatedGPU, real: type) -> None:
    """Subnormal ones too; a row takes one row of them each."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    fixed = np.where(np.isfinite(every), every, 0).reshape(64, 1024)
    xp, put = device.xp, device.asarray
    out, ones, none = xp.empty((64, 1024), real), xp.ones(64, real), xp.zeros(64)
    rows, indptr = put(np.arange(64, dtype=np.int32)), put(np.arange(65))
    beside = none, none, xp.zeros(1024), None  # of rows without anything beside their entries
    args = rows, indptr, 0, rows, ones, ones, *beside, put(fixed), 1024, False, out
    module = Module.of("diagonal", real, half=True)
    device.launch(module, "add_pulls", Grid(64, 256, 1024 * np.dtype(real).itemsize), args)
    np.testing.assert_array_equal(out.get(), fixed.astype(real))


# --- fits


def fitted(backend: str, **options: Any) -> mfrank.ALS:
    data = mfrank.synthetic(150, 80, 3000, random_state=1)
    model = mfrank.ALS(
        mfrank.IALS(), factors=8, iterations=4, random_state=0, backend=backend, **options
    )
    return model.set_params(track_objective=True).fit(data)


@pytest.mark.parametrize("backend", ["reference", pytest.param("cuda", marks=needs_compiler)])
def test_a_fit_hardly_moves(request: pytest.FixtureRequest, backend: str) -> None:
    if backend == "cuda":
        request.getfixturevalue("device")
    plain, half = fitted("auto"), fitted(backend, **HALF)
    for a, b in zip(plain.store.history, half.store.history, strict=True):
        assert b["objective"] == pytest.approx(a["objective"], rel=2e-4)
    scores, again = (m.user_factors @ m.item_factors.T for m in (plain, half))
    assert 0 < np.abs(again - scores).max() <= 5e-3 * np.abs(scores).max()
    lists, others = (np.argsort(-each, axis=1)[:, :10] for each in (scores, again))
    same = [len(np.intersect1d(a, b)) for a, b in zip(lists, others, strict=True)]
    assert np.mean(same) >= 9.8


@needs_compiler
@pytest.mark.parametrize("name", ["rgx", "wrmf below one", "eals"])
def test_a_fit_on_the_device_is_that_of_the_reference(device: EmulatedGPU, name: str) -> None:
    """RGx couples its items: all their systems are of the same rounded factors."""
    data = mfrank.Interactions.from_sparse(toy(30, 20, 0.3))
    models = [
        mfrank.ALS(OBJECTIVES[name], 5, 2, dtype="float64", random_state=0, backend=of, **HALF)
        for of in ("reference", "cuda")
    ]
    a, b = (m.fit(data).user_factors @ m.item_factors.T for m in models)
    np.testing.assert_allclose(a, b, atol=1e-3 * np.abs(a).max())


def test_a_backend_that_cannot_refuses_before_any_work() -> None:
    model = mfrank.ALS(gather_dtype="float16", backend="cpu")
    with refuses(
        ValueError, "gather_dtype", remedy=r"leave gather_dtype out, or .* backend='cuda'"
    ):
        model.fit(toy(), callback=lambda *_: pytest.fail("it began"))
    for wrong in ("float32", "bfloat16", 16, object()):
        with refuses(ValueError, "gather_dtype"):
            mfrank.ALS(gather_dtype=wrong)  # type: ignore[arg-type]


@needs_compiler
def test_a_saved_model_is_read_where_there_is_no_gpu(tmp_path: Path) -> None:
    with emulated_gpu.installed():
        model = fitted("cuda", gather_dtype=np.float16)
        model.save(tmp_path / "model")
        wanted, _ = model.recommend([0], N=3)
    loaded = mfrank.load(tmp_path / "model")
    assert loaded.get_params()["gather_dtype"] == "float16"
    np.testing.assert_array_equal(loaded.recommend([0], N=3)[0], wanted)
    if gpu.why_unavailable() is not None:
        with refuses(ValueError, "gather_dtype", remedy="leave gather_dtype out"):
            loaded.fit(toy())
