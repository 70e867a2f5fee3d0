"""NVIDIA's own compiler takes every kernel, for the GPUs in use; it needs none to do so."""

from __future__ import annotations

import ctypes
import hashlib
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path

import pytest

from mfrank.backends.cuda.kernel_sources import Module, modules

_TAKEN = Path(__file__).parents[2] / ".pytest_cache" / "nvrtc"
"""An empty file for each text that the compiler has taken, with its options: a minute, once."""


@pytest.fixture(scope="session")
def nvrtc() -> ctypes.CDLL:
    """NVIDIA's run-time compiler, from the wheel that the extra `dev` names."""
    try:
        found = [f for f in files("nvidia-cuda-nvrtc") or [] if f.match("libnvrtc.so.*")]
    except PackageNotFoundError:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    return ctypes.CDLL(str(found[0].locate()))


def _cases() -> list[tuple[Module, str]]:
    """Every module for one architecture, every file for the others: half a minute, not two."""
    files_once = {module.name: module for module in modules()}
    others = [(module, sm) for module in files_once.values() for sm in ("sm_80", "sm_100")]
    return [(module, "sm_90") for module in modules()] + others


@pytest.mark.parametrize(("module", "architecture"), _cases(), ids=lambda v: getattr(v, "name", v))
def test_every_kernel_compiles(nvrtc: ctypes.CDLL, module: Module, architecture: str) -> None:
    text = module.text.encode()
    options = [option.encode() for option in (*module.options, f"-arch={architecture}")]
    compiler = version("nvidia-cuda-nvrtc").encode()
    taken = _TAKEN / hashlib.sha256(b"\n".join([compiler, *options, text])).hexdigest()
    if taken.exists():
        return
    program, log = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 16)
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"k.cu", 0, None, None) == 0
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    assert status == 0, log.value.decode()
    assert b"error" not in log.value
    _TAKEN.mkdir(parents=True, exist_ok=True)
    taken.touch()


def test_every_kernel_states_its_threads() -> None:
    for module in modules():
        assert module.text.count("__global__ void __launch_bounds__(") == module.text.count(
            "__global__"
        )
