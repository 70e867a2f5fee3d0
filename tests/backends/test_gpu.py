"""On a GPU, where there is one: whole fits, lists, numbers and filters, against the processor's.

The contract of a backend's arithmetic runs there too (``test_backend_contract``, ``test_backends``,
``test_walks``); all else that the emulated GPU is tested with shows what does not depend on one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_cuda
import test_cuda_sketches
import test_row_priors
from problems import OBJECTIVES, toy
from rankings import problem
from served import CALLS, N_ITEMS, N_USERS, serving, store
from test_cuda_descent import LOSSES, check_fit
from test_cuda_evaluate import METRICS, check_equal, on

import mfrank
from mfrank.arrays import device as gpu
from mfrank.arrays import is_on_gpu, to_host
from mfrank.backends import choose
from mfrank.backends.cuda import half_step as workers
from mfrank.evaluation import evaluate
from mfrank.losses import Loss
from mfrank.testing import random_lists, uneven_factors

if reason := gpu.why_unavailable():
    pytest.skip(reason, allow_module_level=True)

OPTIONS: dict[str, Any] = {"factors": 7, "iterations": 2, "random_state": 0, "backend": "cuda"}


def another_worker() -> gpu.Device:
    """A second one on the GPU there is."""
    from mfrank.backends.cuda.cupy_device import CupyDevice, cp

    return CupyDevice(cp.cuda.Device().id)


def fitted(given: Any) -> bytes:
    """Bits of all factors."""
    model = mfrank.ALS(mfrank.WRMF(alpha=2.0), **OPTIONS).fit(given)
    return model.user_factors.tobytes() + model.item_factors.tobytes()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective(name: str) -> None:
    test_cuda.test_a_fit_is_the_one_of_the_cpu(None, name)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_loss(loss: Loss) -> None:
    check_fit(loss=loss)


@pytest.mark.parametrize("fitter", [mfrank.ALS, mfrank.Descent])
def test_a_fit_repeats_bit_by_bit(fitter: Any) -> None:
    data = mfrank.synthetic(600, 300, 20_000, random_state=0)
    first, again = (fitter(**OPTIONS).fit(data) for _ in range(2))
    np.testing.assert_array_equal(first.user_factors, again.user_factors)
    np.testing.assert_array_equal(first.item_factors, again.item_factors)


def test_rows_that_are_streamed_or_shared_are_solved_to_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Through pinned memory, and by two workers on the one GPU."""
    data = mfrank.synthetic(600, 300, 20_000, random_state=0)
    wanted = fitted(data)
    with monkeypatch.context() as patch:
        patch.setattr("mfrank.backends.cuda.blocks._MOST_STREAMED", 1000)
        patch.setattr("mfrank.backends.cuda.resident._MOST_OF_FREE", 0)
        assert fitted(mfrank.synthetic(600, 300, 20_000, random_state=0)) == wanted
    both = gpu.device(), another_worker()
    monkeypatch.setattr(gpu, "devices", lambda: both)
    monkeypatch.setattr(workers, "WORTH_A_DEVICE", 1)
    assert fitted(data) == wanted


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_factors", [33, 128])
@pytest.mark.parametrize("with_bias", [False, True])
def test_lists_by_sketches_have_the_bits_of_those_without(
    dtype: type, n_factors: int, with_bias: bool
) -> None:
    rng = np.random.default_rng(0)
    queries, items = (uneven_factors(rng, (n, n_factors), dtype) for n in (400, 20_000))
    items[5000:6000] = items[:1000] * (1 + 1e-4 * rng.standard_normal((1000, n_factors)))
    items[6000:7000] = items[:1000]
    options: dict[str, Any] = {"exclude": [random_lists(rng, 400, 20_000, 0.05)]}
    if with_bias:
        options["item_bias"] = (3 * rng.standard_normal(20_000)).astype(dtype)
    backend = choose("cuda")
    for n in (1, 10, 100, 192):
        found = backend.top_k(queries, items, n, **options)
        wanted = test_cuda_sketches.without_sketches(backend, queries, items, n, **options)
        test_cuda_sketches.assert_same_bits(found, wanted)


@pytest.mark.parametrize("call", CALLS)
def test_who_asks_on_the_gpu_is_answered_there(call: str) -> None:
    ids, more = np.array([3, 0, 7]), np.array([4, 2, 9])
    wanted = CALLS[call](serving(store(), "reference"), ids, more)
    place = gpu.device().asarray
    got = CALLS[call](serving(store(place=place), "cuda"), place(ids), place(more))
    for one, other in zip(got, wanted, strict=True):
        assert is_on_gpu(one)
        np.testing.assert_allclose(to_host(one, ""), other, rtol=1e-9, atol=1e-12)


def test_metrics() -> None:
    model, train, test = problem(3, 40, 30)
    wanted = evaluate(model, test, train=train, metrics=METRICS, backend="reference")
    there: Any = on(gpu.device(), model)  # type: ignore[arg-type]
    check_equal(evaluate(there, test, train=train, metrics=METRICS, backend="cuda"), wanted)


@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix", "coo_matrix"])
def test_sparse_matrices_of_cupy(form: str) -> None:
    """As data and as a filter."""
    from cupyx.scipy import sparse

    matrix = toy(N_USERS, N_ITEMS).astype(np.float32)
    there = getattr(sparse, form)(sparse.csr_matrix(matrix))
    assert fitted(mfrank.Interactions.of(there)) == fitted(mfrank.Interactions.of(matrix))
    users = np.array([3, 0, 7])
    wanted = serving(store(), "reference").recommend(users, matrix, N=6)
    model = serving(store(place=gpu.device().asarray), "cuda")
    ids, _ = model.recommend(gpu.device().asarray(users), there, N=6)
    np.testing.assert_array_equal(to_host(ids, ""), wanted[0])


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch, whose tensors are given")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    held = store(place=lambda array: torch.as_tensor(array).cuda())
    ids, _ = serving(held, "cuda").similar_items(torch.tensor([3, 4]).cuda(), N=5)
    wanted, _ = serving(store(), "reference").similar_items(np.array([3, 4]), N=5)
    np.testing.assert_array_equal(to_host(ids, ""), wanted)


@pytest.mark.parametrize("name", ["rg2", "rgx"])
def test_features(name: str) -> None:
    test_row_priors.test_a_fit_with_features_on_a_gpu_is_the_one_of_the_cpu(None, name)


def test_biases() -> None:
    test_row_priors.test_a_fit_with_biases_on_a_gpu_is_the_one_of_the_cpu(None, "wrmf")
