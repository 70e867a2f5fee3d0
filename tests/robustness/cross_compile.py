"""Compiles and links the extension for other systems and processors, by PyPI's ziglang.

``python tests/robustness/cross_compile.py`` builds every translation unit for every target, without
optimization, in ``build/cross``. ``--release`` optimizes, and gives the sizes of what a wheel has.
A target may be named, as in ``... aarch64-macos``. Nothing is run: ``arm64.py`` runs the tests of
the kernels on arm64. zig brings clang, and the headers and libraries of every target; Python's
headers are those of the Python that runs this.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pybind11

ROOT = Path(__file__).resolve().parents[2]
HEADERS = Path(sysconfig.get_path("include"))
TARGETS = {  # with the oldest system that wheels of pyproject.toml are for
    "aarch64-linux": "aarch64-linux-gnu.2.28",
    "aarch64-macos": "aarch64-macos.11.0",
    "x86_64-macos": "x86_64-macos.10.13",
    "x86_64-windows": "x86_64-windows-gnu",
}
# As in setup.py, with the warnings of both compilers as errors.
FLAGS = [
    "-std=c++17",
    "-g0",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-Werror",
    "-Wno-unused-command-line-argument",
]
LEVELS = {False: ("-O0", "-fno-sanitize=all"), True: ("-O3",)}

# What differs in Windows' pyconfig.h, as far as Python's other headers ask for it; with its guard.
OF_WINDOWS = """
#include <pyconfig.h>
#undef HAVE_PTHREAD_H
#undef HAVE_SYS_SELECT_H
#undef SIZEOF_LONG
#undef SIZEOF_PID_T
#undef SIZEOF_WCHAR_T
#define HAVE_DECLSPEC_DLL 1
#define MS_WIN64 1
#define MS_WINDOWS 1
#define NT_THREADS 1
#define Py_ENABLE_SHARED 1
#define SIZEOF_LONG 4
#define SIZEOF_PID_T 8
#define SIZEOF_WCHAR_T 2
"""
DECLARED = re.compile(r"PyAPI_(FUNC|DATA)\([^;]*?\)\s+(\w+)")


def zig(*arguments: str | Path) -> None:
    """Run zig; its messages, and nothing else, end the program."""
    command = [sys.executable, "-m", "ziglang", *map(str, arguments)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"cross_compile: {' '.join(command)}\n{ended.stderr}")


def python_of_windows(folder: Path) -> Path:
    """A library that imports what Python's headers declare, as python311.lib does on Windows."""
    names = {
        f"{name} DATA" if kind == "DATA" else name
        for header in HEADERS.rglob("*.h")
        for kind, name in DECLARED.findall(header.read_text(encoding="utf-8"))
    }
    definition, library = folder / "python.def", folder / "libpython.a"
    dll = f"python{sys.version_info.major}{sys.version_info.minor}.dll"
    definition.write_text(f"LIBRARY {dll}\nEXPORTS\n" + "\n".join(sorted(names)))
    zig("dlltool", "-m", "i386:x86-64", "-d", definition, "-l", library)
    return library


def built(target: str, release: bool) -> Path:
    """The extension for a target, compiled and linked."""
    folder = ROOT / "build" / "cross" / target
    folder.mkdir(parents=True, exist_ok=True)
    includes: list[str | Path] = ["-Icext", f"-I{pybind11.get_include()}"]
    linked: list[str | Path] = []
    if "windows" in target:
        (folder / "pyconfig_of_windows.h").write_text(OF_WINDOWS)  # Python.h then includes no other
        includes += ["-include", folder / "pyconfig_of_windows.h"]
        linked.append(python_of_windows(folder))
    elif "macos" in target:
        linked += ["-undefined", "dynamic_lookup"]
    compiler = ["c++", "-target", TARGETS[target], *LEVELS[release]]
    if "windows" not in target:
        compiler.append("-fPIC")

    def compiled(source: Path) -> Path:
        made = folder / f"{source.stem}.o"
        zig(*compiler, *FLAGS, *includes, "-isystem", HEADERS, "-c", source, "-o", made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, sorted((ROOT / "cext").glob("*.cpp"))))
    extension = folder / f"_ext.{'pyd' if 'windows' in target else 'so'}"
    zig(*compiler, "-shared", "-s", *objects, *linked, "-o", extension)
    return extension


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--release", action="store_true", help="optimize as a wheel is")
    asked = parser.parse_args()
    if unknown := set(asked.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(unknown)}")
    for target in asked.targets or TARGETS:
        start = time.monotonic()
        size = built(target, asked.release).stat().st_size
        took = time.monotonic() - start
        print(f"cross_compile: {target}: linked, {size / 1e6:.1f} MB, {took:.0f} s", flush=True)


if __name__ == "__main__":
    main()
