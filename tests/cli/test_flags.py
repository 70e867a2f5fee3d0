"""Flags are the fields of the dataclasses, with their defaults, choices and help."""

from __future__ import annotations

import argparse
import logging
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank import ALS, IALS, RG2, RGX, WRMF, RG2Sampled, Steering
from mfrank.cli.flags import (
    OBJECTIVES,
    add_address_flags,
    add_cluster_flag,
    add_flags,
    add_objective_flags,
    add_steering_flags,
    add_threads_flag,
    given,
    objective,
    objective_of,
    option_fields,
    parameters,
    spec_reader,
    steering_of,
    summaries,
    summary,
)
from mfrank.data import Ids
from tests.support.errors import refuses


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    add_objective_flags(parser, RG2())
    add_flags(parser, ALS, leave_out=["objective"])
    return parser


def test_every_field_is_a_flag_and_has_help(parser):
    flags = {action.dest: action for action in parser._actions}
    expected = {field.name for options in (ALS, *OBJECTIVES.values()) for field in fields(options)}
    assert expected <= set(flags)
    for name in expected:
        assert len(flags[name].help) > len("(default: )")
        assert flags[name].option_strings[0] == "--" + name.replace("_", "-")


def test_nothing_given_leaves_all_to_the_dataclasses(parser):
    args = parser.parse_args([])
    assert given(args, ALS) == {"objective": RG2()}
    assert objective_of(args) == RG2()


def test_values_are_read_as_the_fields_types(parser):
    line = "--factors 8 --random-state 3 --dtype float64 --track-objective --solver cg"
    assert given(parser.parse_args(line.split()), ALS) == {
        "objective": RG2(),
        "factors": 8,
        "random_state": 3,
        "dtype": "float64",
        "track_objective": True,
        "solver": "cg",
    }


def test_numbers_that_may_be_none_are_given_as_none() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_flags(parser, mfrank.Descent, leave_out=["loss", "optimizer", "schedule"])
    line = "--negatives none --positives None --clip 0.5"
    asked = given(parser.parse_args(line.split()), mfrank.Descent)
    assert asked == {"negatives": None, "positives": None, "clip": 0.5}
    for wrong in ("--factors none", "--negatives few"):
        with pytest.raises(argparse.ArgumentError):
            parser.parse_args(wrong.split())


def test_help_names_other_options_as_flags(parser: argparse.ArgumentParser) -> None:
    flags = {action.dest: action for action in parser._actions}
    assert "whatever --n-threads" in flags["random_state"].help
    for action in flags.values():
        assert not re.search("cg_|n_threads|random_state", action.help)


@pytest.mark.parametrize("line", ["--factors many", "--dtype float16", "--ridge none"])
def test_other_values_are_refused(parser, line):
    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(line.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--objective ials --alpha0 0.5", IALS(alpha0=0.5)),
        ("--objective RG2 --alpha 0.5 --ridge authors", RG2(alpha=0.5, ridge="authors")),
        ("--objective rgx:alpha=0.5,nu=0.25 --nu 1", RGX(alpha=0.5, nu=1.0)),
        ("--objective wrmf --confidence 1+alpha*r", WRMF(confidence="1+alpha*r")),
        ("--objective rg2sampled:negatives=7", RG2Sampled(negatives=7)),
    ],
)
def test_objectives_are_chosen_with_their_options(parser, line, expected):
    assert objective_of(parser.parse_args(line.split())) == expected


def test_an_option_of_another_objective_is_refused(parser):
    args = parser.parse_args(["--objective", "ials", "--alpha", "1"])
    with refuses(ValueError, "alpha"):
        objective_of(args)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bpr", "unknown objective 'bpr'; choose from eals"),
        ("wrmf:alpha0=1", "wrmf has no option 'alpha0'; it has alpha"),
        ("wrmf:alpha=-1", "alpha must be"),
        ("wrmf:alpha", "could not convert"),
    ],
)
def test_a_bad_objective_says_why(text, message):
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        objective(text)


def test_docstrings_are_read_by_parameter():
    def documented():
        """Add, as in :func:`sum`.

        Parameters
        ----------
        a, b : int, default 3
            Both of ``them``,
            summed.
        c : {"x", "y"}

        Returns
        -------
        d : int
            Not a parameter.
        """

    found = parameters(documented)
    assert summary(documented) == "Add, as in sum."
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == found["b"]
    assert (found["a"].kind, found["a"].text) == ("int, default 3", "Both of them, summed.")
    assert found["c"].kind == '{"x", "y"}'


def test_a_class_that_refers_to_its_base_has_the_bases_text():
    assert parameters(RGX)["alpha"] == parameters(RG2)["alpha"]
    assert not any(text.text.startswith("As in") for text in parameters(RGX).values())


def test_a_class_that_says_more_than_its_base_has_its_own_text():
    class Base:
        """Parameters.

        Parameters
        ----------
        a : int
            Of the base.
        """

    class Own(Base):
        """Parameters.

        Parameters
        ----------
        a : int
            Of its own.
        """

    assert parameters(Own)["a"].text == "Of its own."
    assert summary(lambda: 0) == ""


@dataclass
class Options:
    """Options of a made-up kind."""

    needed: int
    many: bool = False
    made: int = field(default=3, init=False)


def test_options_are_the_fields_that_may_be_left_out():
    assert [each.name for each in option_fields(Options)] == ["many"]
    assert summaries({"a": Options, "long": RG2}).splitlines() == [
        "a     Options of a made-up kind.",
        f"long  {summary(RG2)}",
    ]


@dataclass
class Switched:
    """One switch."""

    many: bool = False


@pytest.mark.parametrize(("text", "many"), [("true", True), ("False", False), ("TRUE", True)])
def test_a_switch_is_true_or_false(text: str, many: bool) -> None:
    read = spec_reader({"switched": Switched}, "thing")
    assert read(f"Switched:many={text}") == Switched(many)
    with pytest.raises(argparse.ArgumentTypeError, match="must be true or false, got '1'"):
        read("switched:many=1")


def test_help_tells_each_objectives_default(parser: argparse.ArgumentParser) -> None:
    flags = {action.dest: action for action in parser._actions}
    for name in ("alpha", "nu", "regularization", "ridge", "beta", "negatives"):
        told = re.findall(r"(?:^|; )([a-z0-9, ]+): (.*?) \(default: (.*?)\)", flags[name].help)
        assert not any(text.endswith(".") for _, text, _ in told)
        defaults = {kind: of for kinds, _, of in told for kind in kinds.split(", ")}
        assert defaults == {
            kind: str(each.default)
            for kind, options in OBJECTIVES.items()
            for each in fields(options)
            if each.name == name
        }


def test_flags_of_several_commands_have_their_defaults_and_types() -> None:
    parser = argparse.ArgumentParser()
    add_threads_flag(parser)
    add_address_flags(parser, 8000)
    add_cluster_flag(parser, "fit", "the model is the same")
    here = {"port": 8000, "host": "127.0.0.1", "allow_hosts": []}
    assert vars(parser.parse_args([])) == {"n_threads": 0, "cluster": None, **here}
    line = "--n-threads 2 --port 9 --host 0.0.0.0 --allow-host a --allow-host b --cluster 3"
    there = {"port": 9, "host": "0.0.0.0", "allow_hosts": ["a", "b"]}
    assert vars(parser.parse_args(line.split())) == {"n_threads": 2, "cluster": 3, **there}
    assert parser.parse_args(["--cluster", "tcp://10.0.0.1:8786"]).cluster == "tcp://10.0.0.1:8786"


ITEMS = Ids.factorize(np.array(["tea", "pie", "jam", "egg"]))[0]


def steered(*line: object) -> Steering | None:
    parser = argparse.ArgumentParser()
    add_steering_flags(parser)
    return steering_of(parser.parse_args([str(word) for word in line]), ITEMS)


@pytest.mark.parametrize(
    ("line", "steer"),
    [
        ("", None),
        ("--boost tea=0.5 --boost jam=-1", Steering({"tea": 0.5, "jam": -1.0})),
        ("--popularity-penalty 0.2", Steering(popularity_penalty=0.2)),
        ("--diversity 0.3", Steering(diversity=0.3)),
    ],
)
def test_every_lever_has_its_flag(line: str, steer: Steering | None) -> None:
    assert steered(*line.split()) == steer


@pytest.mark.parametrize("wrong", ["tea", "=0.5", "tea=much"])
def test_a_boost_is_an_id_and_a_number(wrong: str) -> None:
    with refuses(ValueError, "boost"):
        steered("--boost", wrong)
    with refuses(ValueError, "boost"):
        steered("--boost", "pie=1", "--boost", wrong)


@pytest.mark.parametrize(
    "table",
    [
        "item,kind\ntea,hot | drink|\npie,\ntea,old\nale,drink\n",
        "kind,itemid\nhot | drink|,tea\n,pie\nold,tea\ndrink,ale\n",
        "item,price,kind\ntea,3,hot | drink|\npie,2,\ntea,3,old\nale,1,drink\n",
    ],
)
def test_categories_are_read_from_the_last_column_that_has_no_ids(
    table: str, tmp_path: Path
) -> None:
    (tmp_path / "kinds.csv").write_text(table)
    found = steered("--categories", tmp_path / "kinds.csv", "--at-most", "2", "--calibration", ".1")
    kinds = {"tea": ["hot", "drink", "old"], "pie": [], "ale": ["drink"]}
    assert found == Steering(categories=kinds, at_most=2, calibration=0.1)


@pytest.mark.parametrize("table", ["", "item,kind\n", "item\ntea\n", "item,kind\ntea,hot,old\n"])
def test_a_table_without_categories_is_refused(table: str, tmp_path: Path) -> None:
    (tmp_path / "kinds.csv").write_text(table)
    with refuses(ValueError, place="kinds.csv"):
        steered("--categories", tmp_path / "kinds.csv", "--at-most", "2")


@pytest.mark.parametrize(
    ("rows", "level"), [("tea,hot\n", logging.WARNING), ("tea,hot\njam,sweet\n", logging.INFO)]
)
def test_most_items_without_categories_are_told_loudly(
    rows: str, level: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kinds.csv").write_text(f"item,kind\n{rows}")
    with caplog.at_level(logging.INFO, "mfrank"):
        steered("--categories", tmp_path / "kinds.csv", "--at-most", "2")
    told: Any = [record for record in caplog.records if "categories are those" in record.message]
    assert [record.levelno for record in told] == [level]


@pytest.mark.parametrize(("mark", "n_told"), [("; ", 1), ("|", 0)])
def test_categories_that_are_lists_by_another_mark_are_told(
    mark: str, n_told: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "".join(f"{item},hot{mark}cold\n{item},cold{mark}hot\n" for item in ("tea", "pie"))
    (tmp_path / "kinds.csv").write_text(f"item,kind\n{rows}")
    steered("--categories", tmp_path / "kinds.csv", "--at-most", "2")
    assert sum("each is one category" in each for each in caplog.messages) == n_told
