"""The demo makes the files it names, and the commands it prints can be pasted."""

from __future__ import annotations

import csv
import io
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import children
import pytest

import mfrank
from mfrank.cli.commands import demo
from mfrank.cli.main import main
from mfrank.cli.printing import command_line


@dataclass(frozen=True)
class Shown:
    """A demo's working folder, and what it printed."""

    cwd: Path
    text: str


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """A small demo without implicit, called by ``python -m mfrank``."""
    cwd, out = tmp_path_factory.mktemp("cwd"), io.StringIO()
    tiny = demo.Scale(60, 40, 900, factors=4, iterations=2, repeats=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "FULL", tiny)
        patch.setattr(demo, "SMALL", tiny)
        patch.setattr(sys, "argv", [str(Path(mfrank.__file__).with_name("__main__.py"))])
        patch.setitem(sys.modules, "implicit", None)
        patch.chdir(cwd)
        with redirect_stdout(out):
            assert main(["demo", "--output", "my demo"]) == 0
    return Shown(cwd, out.getvalue())


def test_it_makes_everything_it_says(shown: Shown) -> None:
    for name in ("mfrank RG2", "recommendations.csv", "user-0", "Next, for example"):
        assert name in shown.text
    with open(shown.cwd / "my demo" / "recommendations.csv", newline="") as file:
        assert len({row["user"] for row in csv.DictReader(file)}) == 60
    assert mfrank.ALS.load(shown.cwd / "my demo" / "model").objective == mfrank.RG2()


def test_every_command_it_prints_works_when_pasted(shown: Shown) -> None:
    lines = [line for line in shown.text.splitlines() if " -m mfrank " in line]
    commands = [shlex.split(line)[3] for line in lines]
    assert {"recommend", "similar-items", "explain", "fit", "descend", "pagerank"} <= set(commands)
    running = [
        subprocess.Popen(
            line,
            shell=True,
            cwd=shown.cwd,
            env=os.environ | {"PYTHONPATH": str(children.ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in lines
    ]
    for line, child in zip(lines, running, strict=True):
        out, err = child.communicate(timeout=120)
        assert (child.returncode, err.count("error")) == (0, 0), f"{line}\n{err}"
        assert out, line


@pytest.mark.parametrize(
    ("called", "found", "printed_as"),
    [
        ("/venv/bin/mfrank", "/venv/bin/mfrank", "mfrank fit 'my file'"),
        (".venv/bin/mfrank", None, ".venv/bin/mfrank fit 'my file'"),
        (".venv/bin/mfrank", "/usr/bin/mfrank", ".venv/bin/mfrank fit 'my file'"),
        ("/site/mfrank/__main__.py", "/py/bin/python3", "python3 -m mfrank fit 'my file'"),
        ("/site/mfrank/__main__.py", None, "/py/bin/python3 -m mfrank fit 'my file'"),
        ("script.py", None, "mfrank fit 'my file'"),
    ],
)
def test_commands_are_printed_as_the_shell_finds_them(
    called: str, found: str | None, printed_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr(sys, "executable", "/py/bin/python3")
    monkeypatch.setattr("shutil.which", lambda _name: found)
    assert command_line("fit", "my file") == printed_as
