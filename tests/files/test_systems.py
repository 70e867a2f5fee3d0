"""What systems do differently is in one file, and that does on Windows what it does elsewhere."""

from __future__ import annotations

import ast
import errno
import importlib.util
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from children import ROOT

from mfrank import _system

fcntl = pytest.importorskip("fcntl", reason="emulates Windows' locks by those of POSIX")
PACKAGE = Path(_system.__file__).parent
OF_SYSTEMS = {"_winapi", "fcntl", "grp", "msvcrt", "pwd", "resource", "termios", "winreg"}


def named_in(path: Path) -> Iterator[str]:
    """Modules that a file imports, and names such as ``sys.platform`` that it reads."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def test_one_file_asks_on_which_system_it_runs() -> None:
    asking = OF_SYSTEMS | {"sys.platform", "os.fork", "os.rename", "os.replace"}
    found = {
        str(path.relative_to(PACKAGE)): names
        for path in sorted(PACKAGE.rglob("*.py"))
        if (names := asking.intersection(named_in(path)))
    }
    assert set(found) == {"_system.py"}, found


def files_of(names: list[str]) -> list[Path]:
    """The test files of these files and folders."""
    found = [ROOT / name for name in names]
    return [path for one in found for path in (one.glob("test_*.py") if one.is_dir() else [one])]


def loaded_with(path: Path, root: Path) -> set[str]:
    """Modules that a file imports outside of functions, by way of the tests' helpers, too."""
    needed: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            helper = root / "tests" / "support" / f"{name.removeprefix('tests.support.')}.py"
            needed |= loaded_with(helper, root) if helper.exists() else {name.partition(".")[0]}
    return needed


@pytest.mark.parametrize("where", ["a release", "arm64"])
def test_what_other_systems_run_loads_with_what_they_install(where: str) -> None:
    if where == "a release":
        settings = ROOT / "pyproject.toml"
        if not settings.exists():
            pytest.skip("the settings of a release are not beside the tests")
        release = tomllib.loads(settings.read_text())["tool"]["cibuildwheel"]
        installed = set(re.findall(r"[a-z]+", release["test-requires"]))
        names = [
            name for line in release["test-command"] for name in re.findall(r"tests/\S+", line)
        ]
    else:
        installed = {"pytest", "hypothesis"}
        pytest.importorskip("pybind11", reason="the script for arm64 compiles with it")
        script = runpy.run_path(str(ROOT / "tests" / "robustness" / "arm64.py"))
        names = [f"tests/{name}" for name in script["TESTS"]]
    there = installed | {"mfrank", "numpy", "scipy", "tests"} | sys.stdlib_module_names
    files = [ROOT / "tests" / "conftest.py", *files_of(names)]
    assert len(files) > len(names)
    for path in files:
        assert not loaded_with(path, ROOT) - (there - OF_SYSTEMS), path


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The file as on Windows, with locks that refuse as those of Windows do."""

    def locking(descriptor: int, mode: str, _length: int) -> None:
        how = fcntl.LOCK_UN if mode == "unlock" else fcntl.LOCK_EX | fcntl.LOCK_NB
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    calls = SimpleNamespace(locking=locking, LK_NBLCK="lock", LK_UNLCK="unlock")
    monkeypatch.setitem(sys.modules, "msvcrt", calls)  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "platform", "win32")
    assert _system.__file__ is not None
    spec = importlib.util.spec_from_file_location("_system_of_windows", _system.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["here", "windows"])
def system(request: pytest.FixtureRequest) -> ModuleType:
    return request.getfixturevalue("windows") if request.param == "windows" else _system


def test_a_lock_has_one_holder(system: ModuleType, tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert system.lock(first)
    assert not system.lock(second, wait=False)
    system.unlock(first)
    assert system.lock(second)
    os.close(second)  # as at the end of its process
    assert system.lock(first, wait=False)
    os.close(first)


def test_a_folder_is_locked_until_it_is_closed(system: ModuleType, tmp_path: Path) -> None:
    (folder := tmp_path / "x").mkdir()
    first, second = (system.open_folder(folder) for _ in range(2))
    assert system.lock(first)
    assert not system.lock(second, wait=False)
    system.close_folder(folder, first)
    assert system.lock(second, wait=False)
    system.close_folder(folder, second)
    assert os.listdir(tmp_path) == ["x"]
    assert os.listdir(folder) == []


def test_what_is_no_folder_is_not_locked(system: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        system.open_folder(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        system.open_folder(tmp_path / "nothing")
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_takes_the_place_of_another(system: ModuleType, tmp_path: Path) -> None:
    (draft := tmp_path / "draft").write_text("new")
    (path := tmp_path / "x").write_text("old")
    system.replace(draft, path)
    assert (path.read_text(), os.listdir(tmp_path)) == ("new", ["x"])


@pytest.mark.parametrize("patient", [True, False])
def test_windows_waits_for_readers(
    windows: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    """There, a file that a program reads cannot be replaced."""
    (draft := tmp_path / "draft").write_text("new")
    replace, refusals = os.replace, iter([True] * 3)

    def refusing(source: Path, target: Path) -> None:
        if not patient or next(refusals, False):
            raise PermissionError(errno.EACCES, "in use")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refusing)
    monkeypatch.setattr(windows, "_PATIENCE", 9.0 if patient else 0.01)
    if patient:
        windows.replace(draft, tmp_path / "x")
        assert (tmp_path / "x").read_text() == "new"
    else:
        with pytest.raises(PermissionError):
            windows.replace(draft, tmp_path / "x")
        assert draft.read_text() == "new"


def test_a_process_that_is_gone_has_ended() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert _system.has_ended(gone.pid)
    assert not _system.has_ended(os.getpid())


def test_what_windows_does_not_tell_is_unknown(windows: ModuleType, tmp_path: Path) -> None:
    windows.sync(tmp_path)
    assert windows.memory_of_the_machine() is None
    assert windows.limit_of_the_process() is None
    assert windows.own_pages(1 << 30) is None
    assert not windows.INHERITS_PIPES
