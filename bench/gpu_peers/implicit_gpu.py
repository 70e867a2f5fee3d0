"""implicit's GPU build, and the libraries that it is linked against.

Its wheel (0.7.3) calls cuBLAS, cuRAND and CUDA's runtime of CUDA 13, and RMM, none of which it says
that it needs. ``pip install -e ".[bench-gpu]"`` brings them, RMM in the versions that have every
function the wheel calls: 26.2 and 26.4. Those before and after have not.
"""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

__all__ = ["extension", "why_unavailable"]

_LIBRARIES = ("cudart", "cublasLt", "cublas", "curand")


def extension() -> ModuleType:
    """``implicit.gpu._cuda``; its being there says that every function it calls was found.

    The loader finds a library that was loaded before, wherever it lies: so all are, from the
    wheels, before implicit is imported for the first time. RMM is loaded by its own package, which
    implicit imports.

    Raises
    ------
    ImportError, RuntimeError
        A library is not there, or lacks a function. That there is no GPU is no error here.
    """
    from cuda.pathfinder import load_nvidia_dynamic_lib

    for name in _LIBRARIES:
        load_nvidia_dynamic_lib(name)
    importlib.import_module("rmm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a GPU that is not there
        return importlib.import_module("implicit.gpu._cuda")


def why_unavailable() -> str | None:
    """None where implicit's GPU build can run, else what is missing."""
    try:
        extension().get_device_count()
    except (ImportError, RuntimeError) as error:
        return f'{error} (pip install -e ".[bench-gpu]", CUDA 13)'
    return None
