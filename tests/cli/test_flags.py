"""Flags are the fields of the dataclasses, with their defaults, choices and help."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields

import pytest

import mfrank
from mfrank import ALS, IALS, RG2, RGX, WRMF, RG2Sampled
from mfrank.cli.flags import (
    OBJECTIVES,
    add_flags,
    add_objective_flags,
    given,
    objective,
    objective_of,
    parameters,
    summary,
)


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
    with pytest.raises(ValueError, match="--alpha is not an option of ials, which has --alpha0"):
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
