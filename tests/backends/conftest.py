"""The CUDA backend that tests of kernels share; files about several backends have their own."""

from __future__ import annotations

import pytest
from emulated_gpu import EmulatedGPU

from mfrank import backends


@pytest.fixture(scope="module")
def backend(device: EmulatedGPU) -> backends.Backend:
    """CUDA, on the emulated GPU."""
    return backends.choose("cuda")
