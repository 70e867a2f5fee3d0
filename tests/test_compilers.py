"""The extension compiles for other processors and with other compilers, where they are at hand."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("compiler", ["aarch64-linux-gnu-g++", "clang++"])
def test_the_extension_compiles(compiler: str) -> None:
    pybind11 = pytest.importorskip("pybind11", reason="what the extension is built with")
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    include = [pybind11.get_include(), sysconfig.get_path("include")]
    command = [compiler, "-std=c++17", "-fsyntax-only", *(f"-I{path}" for path in include)]
    compiled = subprocess.run(
        [*command, str(ROOT / "cext" / "module.cpp")], capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stderr
