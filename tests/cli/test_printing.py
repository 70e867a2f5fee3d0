"""What commands print and write: tables, lists, JSON, and how a fit went."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli import printing
from mfrank.cli.model_folders import Destination
from mfrank.retrieval import Answer
from tests.support.errors import refuses

LISTS = Answer(
    np.array([["tea", "pie"], ["jam", None]], object), np.array([[2.0, 0.5], [1.0, math.nan]])
)
ASKED = ("user", np.array(["ann", "bob"], object))
TABLE = {"user": np.array([1, 2]), "score": np.array([0.5, 1.0])}


def options(line: str, add: Any, *more: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add(parser, *more)
    return parser.parse_args(line.split())


def test_flags_of_lists_have_their_defaults_and_exclude_each_other() -> None:
    lists = (printing.add_list_flags, "items")
    assert vars(options("", *lists)) == {"n": 10, "output": None, "json": None}
    assert options("--n 3 --output a.csv", *lists).n == 3
    assert options("--json -", *lists).json == "-"
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        options("--output a.csv --json -", *lists)
    assert options("", printing.add_fallback_flag).fallback == "none"
    assert options("--fallback popularity", printing.add_fallback_flag).fallback == "popularity"
    with pytest.raises(argparse.ArgumentError):
        options("--fallback luck", printing.add_fallback_flag)


def test_a_result_is_text_or_json_or_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, file = {"a": [1, math.inf], "é": None}, tmp_path / "a.json"
    printing.tell("text", content, None)
    assert capsys.readouterr() == ("text\n", "")
    printing.tell("text", content, str(file))
    assert capsys.readouterr() == ("text\n", "")
    printing.tell("text", content, "-")
    shown = capsys.readouterr().out
    assert json.loads(shown) == json.loads(file.read_text("utf-8")) == {"a": [1, None], "é": None}
    assert shown == file.read_text("utf-8")
    assert shown.startswith('{\n  "a"')
    assert shown.endswith("}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_where_nothing_can_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none" / "a.csv")
    for given in ({"output": nowhere, "json": None}, {"output": None, "json": nowhere}):
        with refuses(ValueError, place="a.csv", remedy="make it first"):
            printing.check_output(argparse.Namespace(**given))
    with refuses(ValueError, place="a.doc", remedy="name it by its format"):
        printing.check_output(argparse.Namespace(output=str(tmp_path / "a.doc"), json=None))
    for given in ({"output": None, "json": "-"}, {"output": str(tmp_path / "a.csv"), "json": None}):
        printing.check_output(argparse.Namespace(**given))


def test_a_table_is_csv_on_stdout_or_a_file_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printing.write(TABLE, None)
    assert capsys.readouterr() == ("user,score\n1,0.5\n2,1.0\n", "")
    printing.write(TABLE, str(tmp_path / "a.csv"))
    assert capsys.readouterr() == ("", f"2 rows written to {tmp_path / 'a.csv'}\n")
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "user,score"


def test_lists_are_rows_without_padding_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    printing.write_lists(ASKED, "item", LISTS, argparse.Namespace(json=None, output=None))
    rows = capsys.readouterr().out.splitlines()
    assert rows == ["user,rank,item,score", "ann,1,tea,2.0", "ann,2,pie,0.5", "bob,1,jam,1.0"]
    printing.write_lists(ASKED, "item", LISTS, argparse.Namespace(json="-", output=None))
    assert json.loads(capsys.readouterr().out) == [
        {"user": "ann", "items": [{"id": "tea", "score": 2.0}, {"id": "pie", "score": 0.5}]},
        {"user": "bob", "items": [{"id": "jam", "score": 1.0}]},
    ]


def test_a_listing_has_ten_items_of_each_user() -> None:
    data = mfrank.synthetic(20, 30, 120, random_state=0)
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)
    users = np.array([3, 4])
    ids, scores = model.recommend(users, N=10)
    table = printing.listing(model, users)
    assert list(table) == ["user", "rank", "item", "score"]
    np.testing.assert_array_equal(table["user"], np.repeat(users, 10))
    np.testing.assert_array_equal(table["item"], ids.ravel())
    np.testing.assert_array_equal(table["score"], scores.ravel())
    few = printing.listing(model, users, 2, filter_items=[int(ids[0, 0])])
    assert few["item"][:2].tolist() == ids[0, 1:3].tolist()
    assert few["rank"].tolist() == [1, 2, 1, 2]


def test_only_a_terminal_is_told_that_a_fit_began(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = mfrank.synthetic(4, 4, 8, random_state=0)
    printing.announce("IALS()", data)
    assert not printing.somebody_watches()
    assert capsys.readouterr() == ("", "")
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    printing.announce("IALS()", data)
    assert terminal.getvalue() == f"mfrank: fitting IALS() to {data}\n"


def test_epochs_are_counted_from_one(capsys: pytest.CaptureFixture[str]) -> None:
    printing.print_objective(0, 1.234, 12345.678901)
    assert capsys.readouterr().out == "epoch 1: objective 12345.679, 1.23 s\n"


@pytest.mark.parametrize("tracked", [True, False])
def test_a_report_has_epochs_seconds_and_the_last_objective(*, tracked: bool) -> None:
    history = [{"seconds": 1.0, "objective": value} for value in (9.0, 4.0, 0.125)]
    if not tracked:
        history = [{"seconds": 1.0}] * 3
    model: Any = SimpleNamespace(store=SimpleNamespace(history=history))
    last = ", last objective 0.125" if tracked else ""
    assert printing.told(model, "IALS()", "data", "m") == (  # type: ignore[arg-type]
        f"fitted IALS() to data\n3 epochs in 3.00 s{last}; saved to m"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk full")])
def test_what_there_is_of_a_fit_that_ends_early_is_saved(
    error: BaseException, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = mfrank.synthetic(20, 10, 60, random_state=0)
    model = mfrank.ALS(factors=2, iterations=3, random_state=0)
    folder = str(tmp_path / "m")
    destination = Destination.of(folder)
    with pytest.raises(type(error)), printing.saved_when_fitted(model, destination, None):
        raise error
    assert "no epoch was complete, nothing was saved" in capsys.readouterr().err
    assert not os.path.exists(folder)
    model.fit(data)
    with pytest.raises(type(error)), printing.saved_when_fitted(model, destination, None):
        raise error
    assert f"saved the model after 3 of 3 epochs to {folder}" in capsys.readouterr().err
    assert mfrank.load(folder).store.n_users == 20
    with (
        pytest.raises(ValueError, match="wrong"),
        printing.saved_when_fitted(model, Destination.of("elsewhere"), None),
    ):
        raise ValueError("wrong")
    assert not os.path.exists("elsewhere")


def test_a_walk_that_ends_early_has_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = mfrank.synthetic(20, 10, 80, random_state=0)
    walk = mfrank.SupervisedPageRank(method=None).fit(data)
    with (
        pytest.raises(OSError, match="full"),
        printing.saved_when_fitted(walk, Destination.of(str(tmp_path / "w")), None),
    ):
        raise OSError("full")
    assert "saved the model after 0 steps" in capsys.readouterr().err
