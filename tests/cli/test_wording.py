"""What the library says in Python is answered on the command line with its flags."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from pathlib import Path

import pytest

import mfrank
from mfrank.cli.dispatch import _parser
from mfrank.cli.main import main
from mfrank.cli.wording import Wording

PYTHON = re.compile(r"\b[a-z_]+=|\w\(\S|mfrank\.[A-Z]|\b[a-z]+_[a-z]+\b")
"""Arguments, calls and names that are not typed in a shell."""


def words_of(command: str) -> Wording:
    (named,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return Wording(named.choices[command])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pairs = "user,item\na,x\na,y\nb,y\nb,z\nc,x\nc,z\n"
    Path("pairs.csv").write_text(pairs)
    Path("times.csv").write_text("user,item,time\na,x,1\na,y,2\nb,y,1\nb,z,2\nc,x,1\nc,z,2\n")
    Path("dislikes.csv").write_text("user,item,rating\na,x,-1\na,y,3\nb,x,4\n")
    Path("who.csv").write_text("who,what\n1,2\n3,4\n")
    Path("two.csv").write_text("user,item,rating,stars\na,x,1,2\nb,y,3,4\n")
    Path("many.txt").write_text("1;2;3;4;5\n6;7;8;9;10\n")
    assert main(["fit", "pairs.csv", "--model", "m", "--factors", "2", "--iterations", "1"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("descend pairs.csv --model d --start m", "use --factors 2 to match"),
        ("fit dislikes.csv --model d", "the file has 1 negative value"),
        ("fit dislikes.csv --model d", "Drop them with --at-least 0"),
        ("fit who.csv --model d", "name it with --user COLUMN"),
        ("fit two.csv --model d", "name one with --value COLUMN, or none with --no-value"),
        ("fit many.txt --model d", "name the separator with --sep MARK"),
        ("fit pairs.csv --model d --n-threads 99999", "--n-threads must be at most"),
        ("fit pairs.csv --model d --cg-tolerance 2.0", "--cg-tolerance must be None or a"),
        ("fit pairs.csv --model d --cg-steps 0", "--cg-steps must be at least 1"),
        ("fit pairs.csv --model d --gather-dtype float16", "leave --gather-dtype out, or fit"),
        ("descend pairs.csv --model d --loss sml --batches positives", "use --batches users"),
        (
            "descend pairs.csv --model d --shared-negatives --negative-sampling in-batch",
            "--shared-negatives draws one sample per batch, but --negative-sampling in-batch",
        ),
        ("pagerank pairs.csv --model d", "name their column with --timestamp"),
        ("compare pairs.csv --split time", "--split time needs timestamps"),
        ("compare pairs.csv --split time", "or use --split ratio"),
        ("compare pairs.csv --split leave-last", "or use --split leave-out"),
        ("compare pairs.csv --test-fraction 2", "--test-fraction must be a fraction in (0, 1)"),
        ("recommend --model m --user zoe", "user: unknown ids: 'zoe'"),
    ],
)
@pytest.mark.usefixtures("files")
def test_remedies_are_flags(line: str, remedy: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(line.split()) == 2
    told = capsys.readouterr().err
    assert remedy in told
    assert not PYTHON.search(told)


@pytest.mark.parametrize(
    ("command", "python", "shell"),
    [
        ("fit", "a fit of 9 factors; lower factors", "a fit of 9 factors; lower --factors"),
        ("descend", "lower batch_size, or set positives and negatives to smaller numbers",
         "lower --batch-size, or set --positives and --negatives to smaller numbers"),
        ("descend", "negatives=None uses all items", "--negatives none uses all items"),
        ("descend", "use item_biases=False", "use --no-item-biases"),
        ("fit", "with ids='text' or sep=';'", "with --ids text or --sep ';'"),
        ("fit", "column 'user_items' and users=3 in a_b.csv", "column 'user_items' and users=3 in "
         "a_b.csv"),
        ("info", "use set_params(factors=3)", "use factors=3"),
    ],
)  # fmt: skip
def test_only_arguments_become_flags(command: str, python: str, shell: str) -> None:
    assert words_of(command)(python) == shell


@pytest.mark.parametrize(
    ("command", "estimator"),
    [("fit", mfrank.ALS), ("descend", mfrank.Descent), ("pagerank", mfrank.SupervisedPageRank)],
)
def test_every_option_is_told_as_its_flag(command: str, estimator: type) -> None:
    say = words_of(command)
    for option in fields(estimator):
        flag = f"--{option.name.replace('_', '-')}"
        if (option.name, command) in {("loss", "pagerank"), ("feature_regularization", "fit")}:
            continue  # there is only one loss; there are no features: no flags
        assert say(f"{option.name} must be at least 1") == f"{flag} must be at least 1"
        assert say(f"use {option.name}=3 instead").startswith((f"use {flag} 3", f"use {flag} inst"))
