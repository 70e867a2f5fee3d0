"""The names of the package: each is there, imported when it is asked for, and known to checkers."""

from __future__ import annotations

import ast
import os
import re
import runpy
import sys
from pathlib import Path
from threading import RLock

import pytest
from children import run

import mfrank
from mfrank import _lazy

SOURCE = Path(mfrank.__file__)
FACES = list(SOURCE.parent.glob("*/__init__.py"))


@pytest.mark.parametrize("name", mfrank.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(mfrank, name) is not None
    assert name in dir(mfrank)


def test_nothing_else_is_completed_after_a_dot() -> None:
    assert set(dir(mfrank)) == {*mfrank.__all__, "backends", "losses", "pagerank", "plots"}


@pytest.mark.parametrize("name", sorted(each.parent.name for each in FACES))
def test_every_package_is_there_without_an_import(name: str) -> None:
    assert mfrank.__getattr__(name) is sys.modules[f"mfrank.{name}"]


def test_the_stub_is_the_one_list_of_names() -> None:
    stub = ast.parse(SOURCE.with_suffix(".pyi").read_text())
    seen = {alias.name for node in stub.body for alias in node.names}
    assert set(mfrank.__all__) == seen


def test_to_import_mfrank_imports_nothing_else() -> None:
    told = run(
        "import sys; import mfrank; print([m for m in sys.modules if m.startswith(('numpy', "
        "'scipy', 'mfrank.'))])"
    )
    assert told.stdout == "['mfrank._lazy', 'mfrank._version']\n", told.stderr


def test_a_fit_imports_nothing_that_it_does_not_need() -> None:
    told = run(
        "import sys, mfrank\n"
        "mfrank.ALS(factors=2, iterations=1).fit(mfrank.synthetic(20, 10, 50, random_state=0))\n"
        "print([m for m in ('pandas', 'implicit', 'mfrank.pagerank', 'mfrank.evaluation',\n"
        "    'mfrank.cli', 'mfrank.models.descent', 'catboost', 'cupy') if m in sys.modules])"
    )
    assert told.stdout == "[]\n", told.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'mfrank' has no attribute 'ALSS'"):
        mfrank.ALSS  # noqa: B018


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(mfrank), "ALS", raising=False)
    found = mfrank.ALS
    assert vars(mfrank)["ALS"] is found


def test_the_version_has_three_numbers() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?(a|b|rc|dev)\d+)*", mfrank.__version__)


def test_the_package_is_run_as_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag, status in (("--version", 0), ("--nonsense", 2)):
        monkeypatch.setattr(sys, "argv", ["mfrank", flag])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("mfrank", run_name="__main__")
        assert ended.value.code == status
    assert f"mfrank {mfrank.__version__}" in capsys.readouterr().out


def test_the_stub_of_a_package_says_where_its_names_are(tmp_path: Path) -> None:
    stub = "from os.path import join as join\nfrom math import pi as pi, tau as tau\nx: int\n"
    (tmp_path / "__init__.pyi").write_text(stub + "# names in UTF-8: \u03c0\n", encoding="utf-8")
    get, names, every = _lazy.lazy("mfrank", str(tmp_path / "__init__.py"), ("data",), ("files",))
    assert every == ["join", "pi", "tau"]
    assert names() == ["data", "join", "pi", "tau"]
    assert get("files") is sys.modules["mfrank.files"]
    for unknown in ("x", "als"):
        with pytest.raises(AttributeError, match=f"no attribute '{unknown}'"):
            get(unknown)


class Recorded:
    """A lock that tells what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def acquire(self) -> None:
        self.asked.append("acquire")

    def release(self) -> None:
        self.asked.append("release")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_holds_the_lock_of_imports_and_a_child_has_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = Recorded()
    monkeypatch.setattr(_lazy, "_importing", lock)
    child = os.fork()
    if not child:
        renewed = isinstance(_lazy._importing, type(RLock()))
        os._exit(3 if renewed and lock.asked == ["acquire"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert lock.asked == ["acquire", "release"]
    assert _lazy._importing is lock
