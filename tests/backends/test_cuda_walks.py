"""Random walks on the CUDA backend, on an emulated GPU: those of the other backends."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from emulated_gpu import DeviceArray, EmulatedGPU, Launched
from test_walks import (
    test_steps_are_those_of_the_dense_matrix as test_steps_are_those_of_the_dense_matrix,
)

from mfrank import backends
from mfrank.arrays import CSR
from mfrank.backends import Moves, Until, reference
from mfrank.testing import chain


def test_settled_walks_are_those_of_the_reference(
    backend: backends.Backend, launched: list[Launched]
) -> None:
    """Of 64 restarts at a time."""
    rng = np.random.default_rng(2)
    links = sp.random_array((60, 60), density=0.05, random_state=rng, format="csr")
    dense = rng.random((70, 60)) * (rng.random((70, 60)) < 0.1) + np.eye(70, 60)
    dense[60:, 0] += 1
    restarts = CSR.from_scipy(sp.csr_array(dense / dense.sum(1, keepdims=True)), np.float64)
    asked = Moves.of(links), restarts, 0.2, 1e-9, 1000
    got, truth = backend.stationary(*asked), reference.stationary(*asked)
    np.testing.assert_allclose(got.values, truth.values, rtol=0, atol=1e-9)
    assert (got.errors <= 1e-9).all()
    assert (np.abs(got.values - truth.values).sum(axis=1) <= got.errors + truth.errors).all()
    np.testing.assert_allclose(got.errors, truth.errors, rtol=1e-5)
    np.testing.assert_array_equal(got.steps, truth.steps)
    assert {one.args[-2] for one in launched if one.kernel == "advance"} == {64, 6}


@pytest.mark.parametrize("k", [1, 3, 40, 140])
def test_walks_of_large_blocks_are_those_of_the_reference(
    backend: backends.Backend, k: int
) -> None:
    """Their changes are summed by several blocks of threads, of some columns or many."""
    steps, dense = chain([600, 3, 256], 0.01, "float64")
    base, start = np.random.default_rng(k).random((2, len(dense), k))
    for norm in ("sum", "spread"):
        asked = steps, base, start, 0.7, Until(30, np.array([1e-3, 0.5, 1e-6]), norm)
        got, truth = backend.walk(*asked), reference.walk(*asked)
        np.testing.assert_array_equal(got.steps, truth.steps)
        np.testing.assert_allclose(got.changes, truth.changes, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(got.values, truth.values, rtol=1e-12)


def test_a_walk_that_stands_still_ends_at_once(backend: backends.Backend) -> None:
    steps, dense = chain([5, 4], 0.5, "float64")
    nothing = np.zeros((len(dense), 2))
    got = backend.walk(steps, nothing, nothing, 0.5, Until(20, np.zeros(2)))
    assert got.steps.tolist() == [1, 1]


def test_whether_all_walks_have_ended_is_asked_at_every_eighth_step(
    backend: backends.Backend, device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time the host waits for the device; steps that were not needed change nothing."""
    steps, dense = chain([8, 5], 0.5, "float64")
    base, asked = np.ones((len(dense), 1)), []
    launched: list[str] = []
    launch, is_true = device.launch, DeviceArray.__bool__
    monkeypatch.setattr(
        device, "launch", lambda m, name, *rest: (launched.append(name), launch(m, name, *rest))[1]
    )
    monkeypatch.setattr(
        DeviceArray, "__bool__", lambda array: (asked.append(array), is_true(array))[1]
    )
    got = backend.walk(steps, base, 0 * base, 0.8, Until(500, np.full(2, 1e-6)))
    last = -(-int(got.steps.max()) // 8) * 8 + 1
    assert got.steps.max() > 9
    assert launched.count("advance") == last
    assert len(asked) == last // 8 + 1
