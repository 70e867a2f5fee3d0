"""A day's interactions on a GPU, an emulated one here, as on the processor."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_gpu import EmulatedGPU
from problems import OBJECTIVES

import mfrank


@pytest.mark.parametrize("name", ["ials", "wrmf", "rgx"])
def test_a_day_on_the_gpu_is_that_on_the_processor(device: EmulatedGPU, name: str) -> None:
    """Rows with much news and with little, new users and items among them."""
    data = mfrank.synthetic(60, 30, 500, random_state=0)
    first = data.take((data.entry_users < 55) & (data.user_items.indices < 27)).k_core(1)
    today = data.take(data.entry_users >= 45).k_core(1)
    models = []
    for backend in ("cpu", "cuda"):
        model = mfrank.ALS(OBJECTIVES[name], 4, 2, random_state=0, dtype="float64", backend="cpu")
        model.fit(first)
        model.backend = backend
        models.append(model.partial_fit(today, alternations=2))
    on_cpu, on_gpu = (model.store.on_host() for model in models)
    assert on_gpu.history[-1]["rows"] == on_cpu.history[-1]["rows"] > 0
    np.testing.assert_allclose(on_gpu.user_factors, on_cpu.user_factors, atol=1e-8)
    np.testing.assert_allclose(on_gpu.item_factors, on_cpu.item_factors, atol=1e-8)
