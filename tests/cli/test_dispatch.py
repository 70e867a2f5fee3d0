"""What every command has in common: its line, its messages and how it ends."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.errors import InputValueError, Notice

Run = Callable[[argparse.Namespace], None]


@pytest.fixture
def does(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], None]:
    """There is one command, ``mfrank try WORD --many INT --sep MARK``, which does what is given."""

    def only(run: Run) -> None:
        def add_options(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("word", nargs="?", default="nothing")
            parser.add_argument("--many", type=int, default=1, metavar="INT", help="how many")
            parser.add_argument("--sep", metavar="MARK")

        command = SimpleNamespace(
            __doc__="Try a thing.\n\nThen  another,\nin this form.\n",
            EXAMPLES="  mfrank try tea\n  mfrank try pie\n",
            add_options=add_options,
            run=run,
        )
        monkeypatch.setattr("mfrank.cli.dispatch.commands", lambda *_: {"try": command})

    only(lambda args: None)
    return only


def raises(error: BaseException) -> Run:
    def run(args: argparse.Namespace) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (InputValueError("`many` must be\n  at least 1"), 2, "--many must be at least 1"),
        (TypeError("no word"), 2, "no word"),
        (FileNotFoundError("there is no file a.csv"), 2, "there is no file a.csv"),
        (IsADirectoryError(21, "Is a directory", "a"), 2, "a: Is a directory"),
        (NotADirectoryError(20, "Not a directory"), 2, "Not a directory"),
        (OSError(28, "No space left on device", "a/b"), 1, "a/b: No space left on device"),
        (OSError("disk gone"), 1, "disk gone"),
        (MemoryError(), 1, "MemoryError"),
        (FloatingPointError("nan"), 1, "nan"),
        (ModuleNotFoundError("pip install mfrank[plot]"), 1, "pip install mfrank[plot]"),
        (ImportError("broken"), 1, "ImportError: broken (--debug shows where)"),
        (RuntimeError(), 1, "RuntimeError: RuntimeError (--debug shows where)"),
    ],
)
def test_an_error_is_one_line_and_its_kind_an_exit_code(
    does: Any, capsys: pytest.CaptureFixture[str], error: Exception, code: int, told: str
) -> None:
    does(raises(error))
    assert main(["try"]) == code
    assert capsys.readouterr() == ("", f"mfrank: error: {told}\n")
    for line in (["--debug", "try"], ["try", "--debug"]):
        assert main(line) == code
        shown = capsys.readouterr().err
        assert shown.startswith("Traceback")
        assert shown.endswith(f"mfrank: error: {told}\n")


def test_the_line_of_the_process_is_run_where_none_is_given(
    does: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    does(lambda args: seen.append((args.word, args.many, args.sep)))
    monkeypatch.setattr(sys, "argv", ["mfrank", "try", "tea", "--many", "3"])
    assert main() == 0
    assert main(("try", "--sep=-")) == 0
    assert seen == [("tea", 3, None), ("nothing", 1, "-")]


def test_ctrl_c_is_130_even_as_an_import_error(
    does: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted = ImportError("initialization failed")
    interrupted.__cause__ = KeyboardInterrupt()
    for error in (KeyboardInterrupt(), interrupted):
        does(raises(error))
        assert main(["try"]) == 130
        assert capsys.readouterr().err == "mfrank: stopped by Ctrl-C\n"
    does(raises(GeneratorExit()))
    with pytest.raises(GeneratorExit):
        main(["try"])


@pytest.mark.parametrize("text", ["few", "x" * 100_000])
def test_a_reader_that_is_gone_is_141_and_no_second_error(
    does: Any, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Whether the pipe is found closed by a print or by the flush after the command."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    does(lambda args: print(text))
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["try"]) == 141
    stream.flush()  # as Python does when it exits
    stream.close()


def test_what_is_logged_or_warned_is_a_line_on_stderr(
    does: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(args: argparse.Namespace) -> None:
        logging.getLogger("mfrank").info(Notice("some of\n  them; lower `many`"))
        logging.getLogger("mfrank.part").warning(Notice("`many=2` is taken"))
        logging.getLogger("mfrank").debug("not this")
        warnings.warn(Notice("`many` is few"), stacklevel=1)
        print("done")

    logger = logging.getLogger("mfrank")
    monkeypatch.setattr(logger, "level", logging.ERROR)
    before, shows = (logger.level, list(logger.handlers)), warnings.showwarning
    does(run)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["try"]) == 0
    told = "some of them; lower --many", "--many 2 is taken", "--many is few"
    assert capsys.readouterr() == ("done\n", "".join(f"mfrank: {line}\n" for line in told))
    does(raises(ValueError("wrong")))
    assert main(["try"]) == 2
    assert (logger.level, logger.handlers) == before
    assert warnings.showwarning is shows


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "the following arguments are required: COMMAND (see mfrank --help)"),
        ("try a b", "unrecognized arguments: b (see mfrank try --help)"),
        ("try --man 3", "unrecognized arguments: --man (see mfrank try --help)"),
        ("--vers", "the following arguments are required: COMMAND (see mfrank --help)"),
        ("try --many", "argument --many: expected one argument (see mfrank try --help)"),
        ("try --many x", "argument --many: invalid int value: 'x' (see mfrank try --help)"),
        (
            "try --sep -x",
            "argument --sep: expected one argument; write --sep=-x for a value that begins with - "
            "(see mfrank try --help)",
        ),
        (
            "try --sep --many",
            "argument --sep: expected one argument; write --sep=--many for a value that begins "
            "with - (see mfrank try --help)",
        ),
        (
            "try a -b",
            "unrecognized arguments: -b; write -- -b for a word that is no flag; flags begin with "
            "--, as in --n 5 (see mfrank try --help)",
        ),
    ],
)
def test_a_wrong_line_is_told_with_its_remedy(
    does: Any, capsys: pytest.CaptureFixture[str], line: str, told: str
) -> None:
    does(raises(AssertionError("it must not be run")))
    assert main(line.split()) == 2
    assert capsys.readouterr() == ("", f"mfrank: error: {told}\n")


def test_a_remedy_is_quoted_for_the_shell(does: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", "--sep", "-;"]) == 2
    assert "write '--sep=-;' for a value" in capsys.readouterr().err


def test_help_is_shown_as_it_is_written(does: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "\nTry a thing.\n\nThen  another,\nin this form.\n" in shown
    assert shown.endswith("\nexamples:\n  mfrank try tea\n  mfrank try pie\n")
    assert shown.startswith("usage: mfrank try [-h] [--many INT] [--sep MARK] [--debug]")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\n +try +Try a thing\.\n", shown)
    assert shown.startswith("usage: mfrank [-h] [--version]")
    assert "\nexamples:\n  mfrank demo\n" in shown
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"mfrank {mfrank.__version__}\n", "")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with two modules of the user's, one of which is broken."""
    (tmp_path / "mine_of_test.py").write_text("made = 1\n")
    (tmp_path / "json.py").write_text("raise RuntimeError('not the one of Python')\n")
    (tmp_path / "broken_of_test.py").write_text("raise KeyError('oh')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("mine_of_test", None)


def test_modules_of_the_user_are_imported_first(does: Any, home: Path) -> None:
    seen = []
    does(lambda args: seen.append("mine_of_test" in sys.modules))
    for line in (["--import", "mine_of_test", "try"], ["try", "--import", "json"]):
        sys.modules.pop("mine_of_test", None)
        assert main(line) == 0
    assert main(["try", "--import", "json", "--import", "mine_of_test"]) == 0
    assert seen == [True, False, True]
    assert sys.path.count(os.getcwd()) == 1
    assert sys.path[-1] == os.getcwd()


def test_a_module_that_cannot_be_imported_is_told(
    does: Any, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    does(raises(AssertionError("it must not be run")))
    assert main(["try", "--import", "broken_of_test"]) == 2
    assert capsys.readouterr().err == "mfrank: error: --import broken_of_test: KeyError: 'oh'\n"
    assert main(["try"]) == 1


def test_a_shell_that_asks_is_answered_where_argcomplete_is(
    does: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    found = SimpleNamespace(autocomplete=lambda parser: asked.append(parser.prog))
    monkeypatch.setitem(sys.modules, "argcomplete", found)
    monkeypatch.setattr("mfrank.cli.dispatch.find_spec", {"argcomplete": found}.get)
    assert main(["try"]) == 0
    assert asked == []
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    assert main(["try"]) == 0
    assert asked == ["mfrank"]
    monkeypatch.setattr("mfrank.cli.dispatch.find_spec", lambda name: None)
    assert main(["try"]) == 0
    assert asked == ["mfrank"]
