"""The extension compiles for other processors and with other compilers, where they are at hand."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig

import pytest
from children import ROOT


@pytest.mark.parametrize("compiler", ["aarch64-linux-gnu-g++", "clang++"])
def test_the_extension_compiles(compiler: str) -> None:
    pybind11 = pytest.importorskip("pybind11", reason="what the extension is built with")
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    include = [str(ROOT / "cext"), pybind11.get_include(), sysconfig.get_path("include")]
    command = [compiler, "-std=c++17", "-fsyntax-only", *(f"-I{path}" for path in include)]
    sources = sorted(map(str, (ROOT / "cext").glob("*.cpp")))
    compiled = subprocess.run([*command, *sources], capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
