"""Builds the C++ extension; the rest of the package is configured in setup.cfg."""

import platform
import subprocess
import sys
from pathlib import Path

from pybind11 import get_include
from pybind11.setup_helpers import ParallelCompile, has_flag
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

FLAGS = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-pthread",
]

# GCC 13 and later leave some sums of products unfused, by the length of their vectors. Then a sum
# over whole vectors and one over the columns that remain round differently, and a row's bits depend
# on which other rows are at hand.
FUSE_ALWAYS = "--param=avoid-fma-max-bits=0"

ON_WINDOWS = sys.platform == "win32"

NOT_BUILT = """
mfrank: the C++ extension was not built ({reason}).
mfrank is installed anyway and will use its numpy backend: fits take about nine times as long.
To get the fast backend, install a C++17 compiler and Python's headers (Debian, Ubuntu:
"apt install g++ python3-dev"; Fedora: "dnf install gcc-c++ python3-devel"; macOS:
"xcode-select --install"), then reinstall with "pip install --force-reinstall --no-deps mfrank".
"""


class OptionalBuildExt(build_ext):
    """Build the extension; if that fails, print why and continue the installation without it."""

    def run(self):
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            print(NOT_BUILT.format(reason=error), file=sys.stderr)
            self.extensions = []

    def build_extensions(self):
        if not ON_WINDOWS and has_flag(self.compiler, FUSE_ALWAYS):
            for extension in self.extensions:
                extension.extra_compile_args.append(FUSE_ALWAYS)
        super().build_extensions()

    def build_extension(self, ext):
        """On Windows, compile by zig, which pip fetches: Microsoft's compiler has no vectors."""
        if not ON_WINDOWS:
            super().build_extension(ext)
            return
        processor = {"ARM64": "aarch64"}.get(platform.machine(), "x86_64")
        version = f"{sys.version_info.major}{sys.version_info.minor}"
        includes = [f"-I{path}" for path in (*ext.include_dirs, *self.include_dirs)]
        made = Path(self.get_ext_fullpath(ext.name))
        made.parent.mkdir(parents=True, exist_ok=True)
        zig = [sys.executable, "-m", "ziglang", "c++", "-target", f"{processor}-windows-gnu"]
        flags = [flag for flag in ext.extra_compile_args if flag != "-pthread"]
        python = Path(sys.base_prefix, "libs", f"python{version}.lib")
        command = [*zig, *flags, *includes, "-shared", "-s", *ext.sources, python, "-o", made]
        ended = subprocess.run(list(map(str, command)), check=False)
        if ended.returncode:
            raise CCompilerError(f"zig ended with {ended.returncode}")


extension = Extension(
    "mfrank._ext",
    sources=sorted(map(str, Path("cext").glob("*.cpp"))),
    depends=sorted(map(str, Path("cext").rglob("*.h"))),
    include_dirs=["cext", get_include()],
    extra_compile_args=FLAGS,
    extra_link_args=["-pthread"],
    language="c++",
)
ParallelCompile().install()  # compile the instruction sets in parallel
setup(ext_modules=[extension], cmdclass={"build_ext": OptionalBuildExt})
