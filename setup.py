"""Builds the C++ extension; the rest of the package is configured in setup.cfg."""

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

NOT_BUILT = """
mfrank: the C++ extension was not built ({reason}).
mfrank is installed anyway and will use its numpy backend, which is many times slower.
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
        if has_flag(self.compiler, FUSE_ALWAYS):
            for extension in self.extensions:
                extension.extra_compile_args.append(FUSE_ALWAYS)
        super().build_extensions()


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
