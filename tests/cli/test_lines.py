"""What a line of each command must have, which values its flags take, and what its help says."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import mfrank
from mfrank.cli.commands import commands
from mfrank.cli.dispatch import _parser
from mfrank.cli.main import main
from mfrank.models import loss_classes, objective_classes

NEEDED = {
    "compare": ["a.csv"],
    "demo": [],
    "descend": ["a.csv", "--model m"],
    "evaluate": ["--model m", "--test t.csv"],
    "explain": ["ann", "tea", "--model m"],
    "explore": ["m"],
    "export": ["--model m", "--to onnx", "m.onnx"],
    "fit": ["a.csv", "--model m"],
    "info": [],
    "ingest": ["a.csv", "--folder f"],
    "new-key": ["shop", "--key-file keys"],
    "pagerank": ["a.csv", "--model m"],
    "plot": ["cost", "a.json", "--output a.png"],
    "recommend": ["--model m"],
    "recommend-all": ["--model m", "--folder f"],
    "remove": ["--model m"],
    "report": ["--journal j"],
    "rollback": ["--model m"],
    "serve": ["m"],
    "similar-items": ["tea", "--model m"],
    "tune": ["a.csv", "--model m"],
    "update": ["--model m"],
}
COMMANDS = sorted(NEEDED)
NUMBERS = ("INT", "FLOAT", "MINUTES", "FRACTION", "DAYS", "GIB", "VALUE", "NUMBER", "SHARE")
TEXTS = (
    *(
        "ADDRESS",
        "COLUMN",
        "COLUMN=VALUE",
        "ID",
        "ID=NUMBER",
        "ITEM",
        "KIND",
        "MARK",
        "MODULE",
        "NAME",
        "NAME@K",
        "NAMES",
    ),
    *(
        "KIND=NUMBER,...",
        "NAME=SHARE,...",
        "NAME:OPTION=VALUE,...",
        "NAME[:OPTION=VALUE,...]",
        "TEXT",
        "TIME",
        "USER",
    ),
)
PATHS = ("FILE", "FOLDER", "MODEL", "MODEL2", "PATH", "SOURCE")


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    return _parser()


def flags_of(parser: argparse.ArgumentParser, command: str) -> Iterator[argparse.Action]:
    """The arguments of a command, those with a name and those without."""
    named = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    yield from named.choices[command]._actions


def read(parser: argparse.ArgumentParser, command: str, *more: str) -> argparse.Namespace:
    words = itertools.chain.from_iterable(map(str.split, NEEDED[command]))
    return parser.parse_args([command, *words, *more])


def test_there_is_a_line_for_each_command() -> None:
    assert sorted(commands()) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_line_is_parsed_by_its_own_command_alone(command: str) -> None:
    words = itertools.chain.from_iterable(map(str.split, NEEDED[command]))
    line = [command, *words]
    assert list(commands(line)) == [command]
    assert _parser(line).parse_args(line).parser.prog == f"mfrank {command}"


def test_a_command_may_be_the_name_of_something_else() -> None:
    """Of a module before the command, and of a file behind it; other words mean no command."""
    line = ["--import", "plot", "fit", "evaluate", "--model", "model"]
    assert _parser(line).parse_args(line).parser.prog == "mfrank fit"
    for line in ([], ["--help"], ["fiit", "plot"], ["--import", "module", "info"]):
        assert sorted(commands(line)) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_line_without_what_is_needed_is_refused(
    parser: argparse.ArgumentParser, command: str
) -> None:
    read(parser, command)
    for missing in NEEDED[command]:
        words = " ".join(word for word in NEEDED[command] if word != missing).split()
        with pytest.raises(ValueError, match=r"required|invalid choice"):
            parser.parse_args([command, *words])


@pytest.mark.parametrize("command", COMMANDS)
def test_what_help_shows_as_a_number_is_read_as_one(
    parser: argparse.ArgumentParser, command: str
) -> None:
    for flag in flags_of(parser, command):
        assert flag.metavar in (None, *NUMBERS, *PATHS, *TEXTS) or "|" in str(flag.metavar)
        if flag.metavar in NUMBERS:
            given = getattr(read(parser, command, flag.option_strings[0], "3"), flag.dest)
            assert (type(given), given) == (int if flag.metavar == "INT" else float, 3)
            with pytest.raises(ValueError, match=f"{flag.option_strings[0]}: invalid"):
                read(parser, command, flag.option_strings[0], "few")
        else:
            assert flag.type not in (int, float)


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ("compare a.csv", "--split never"),
        ("export --model m --to onnx a.onnx", "--to text"),
        ("ingest a.csv --folder f", "--at-least 4"),
        ("pagerank a.csv --model m", "--loss logistic"),
        ("plot cost a.json --output a.png", "--by users"),
        ("recommend --model m", "--fallback anything"),
        ("recommend-all --model m --folder f", "--format xml"),
        ("recommend-all --model m --folder f", "--fallback anything"),
    ],
)
def test_other_choices_are_refused(parser: argparse.ArgumentParser, line: str, flags: str) -> None:
    parser.parse_args(line.split())
    with pytest.raises(ValueError, match=r"invalid choice|unrecognized"):
        parser.parse_args(f"{line} {flags}".split())


@pytest.mark.parametrize(
    "line",
    [
        "evaluate --model m --test t.csv --train a.csv --include-seen",
        "explain ann tea --model m --output a.csv --json a.json",
        "pagerank a.csv --model m --untuned --method gbn",
        "recommend --model m --user ann --users all.txt",
        "recommend --model m --output a.csv --json a.json",
        "similar-items tea --model m --output a.csv --json a.json",
    ],
)
def test_flags_that_exclude_each_other_are_refused(
    parser: argparse.ArgumentParser, line: str
) -> None:
    with pytest.raises(ValueError, match="not allowed with"):
        parser.parse_args(line.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_path_is_refused(
    command: str, parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is what a variable of a shell is that was not set: neither the folder ., nor no flag."""
    needed = " ".join(NEEDED[command]).split()
    for flag in flags_of(parser, command):
        if flag.metavar in PATHS and flag.option_strings:
            assert main([command, *needed, f"{flag.option_strings[0]}="]) == 2
            assert f"{flag.option_strings[0]}: the path is empty" in capsys.readouterr().err
        elif flag.metavar in PATHS:
            place = [a for a in NEEDED[command] if not a.startswith("--")]
            words = ["" if word in place[-1:] else word for word in needed]
            assert main([command, *words, *([""] if flag.nargs == "?" else [])]) == 2
            assert "the path is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compare no.csv --json no/a.json", "cannot write no/a.json"),
        ("compare no.csv --csv no/a.csv", "cannot write no/a.csv"),
        ("descend no.csv --model here.csv", "cannot save to here.csv"),
        ("descend no.csv --model m --cluster here", "--cluster must be"),
        ("evaluate --model no --test no.csv --json no/a.json", "cannot write no/a.json"),
        ("evaluate --model no --test no.csv --cluster here", "--cluster must be"),
        ("explain ann tea --model no --json no/a.json", "cannot write no/a.json"),
        ("explain ann tea --model no --output no/a.csv", "cannot write no/a.csv"),
        ("export --model no --to onnx no/a.onnx", "cannot write no/a.onnx"),
        ("export --model no --to faiss here.csv", "cannot write here.csv"),
        ("fit no.csv --model here.csv", "cannot save to here.csv"),
        ("fit no.csv --model m --cluster here", "--cluster must be"),
        ("info --model no --json no/a.json", "cannot write no/a.json"),
        ("pagerank no.csv --model here.csv", "cannot save to here.csv"),
        ("plot cost no.json --output no/a.png", "cannot write no/a.png"),
        ("recommend --model no --output no/a.csv", "cannot write no/a.csv"),
        ("similar-items tea --model no --output no/a.csv", "cannot write no/a.csv"),
        ("tune no.csv --model here.csv", "cannot save to here.csv"),
        ("tune no.csv --model m --json no/a.json", "cannot write no/a.json"),
    ],
)
def test_where_nothing_can_be_written_is_told_before_anything_is_read(
    line: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.csv").touch()
    if line.startswith("plot"):
        pytest.importorskip("matplotlib", reason="needs matplotlib: pip install mfrank[plot]")
    assert main(line.split()) == 2
    assert message in capsys.readouterr().err


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    assert f"\n  mfrank {command}" in capsys.readouterr().out.partition("examples:")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_command_lines(command: str, parser: argparse.ArgumentParser) -> None:
    for line in commands()[command].EXAMPLES.splitlines():
        parser.parse_args(line.split()[1:])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_the_default_that_applies(parser: argparse.ArgumentParser, command: str) -> None:
    for flag in flags_of(parser, command):
        told = re.search(r"\(default: (\S+)\)$", flag.help or "")
        if flag.default is None:
            assert not told or told[1] != "none"
        elif type(flag.default) in (str, int, float) and flag.default is not argparse.SUPPRESS:
            assert told, flag.dest
            assert told[1] in (str(flag.default), f"{flag.default}".removesuffix(".0"))


@pytest.mark.parametrize(
    ("command", "title", "members"),
    [
        ("fit", "objective", objective_classes()),
        ("descend", "loss", loss_classes()),
        ("descend", "optimizer", ["Adam", "Adagrad", "SGD", "Langevin"]),
        ("descend", "schedule", ["Constant", "StepDecay", "CosineDecay"]),
        ("pagerank", "method", ["GBN", "GFN", "GBP"]),
    ],
)
def test_help_lists_what_can_be_chosen_above_its_flag(
    command: str, title: str, members: Iterable[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    listed, _, flags = capsys.readouterr().out.partition(f"\n{title}:\n")[2].partition("\n\n")
    assert [line.split()[0] for line in listed.splitlines()] == [one.lower() for one in members]
    assert flags.startswith(f"  --{title} ")


def test_help_and_version_are_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mfrank {mfrank.__version__}\n"
