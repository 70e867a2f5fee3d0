"""Errors that know their argument and their remedy."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank.data import BadRow
from mfrank.errors import InputTypeError, InputValueError, Notice, unreadable, within
from tests.support.errors import refuses


@pytest.mark.parametrize("kind", [InputValueError, InputTypeError, mfrank.InputMemoryError])
def test_an_error_knows_its_argument_and_its_remedy(kind: type[mfrank.InputError]) -> None:
    error = kind("`start` has other users", "fit without `start`")
    assert (error.argument, error.remedy) == ("start", "fit without start")
    assert str(error) == "start has other users; fit without start"
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is kind
        assert (str(twin), twin.marked) == (str(error), error.marked)
        assert (twin.argument, twin.remedy) == ("start", "fit without start")
    assert error.place == ""


def test_a_code_names_the_function_that_made_the_error() -> None:
    def made(file: str, call: str) -> str:
        names: dict[str, Any] = {"__name__": file, "kinds": (InputValueError, unreadable, within)}
        exec(f"value, damaged, within = kinds\n{call}", names)
        return str(names["error"].code)

    lines = "def _check():\n    return [value('`n` is 0') for _ in 'a'][0]\nerror = _check()"
    assert made("mfrank._data.ids", lines) == "data.ids.check"
    assert made("own.ids", lines) == ""
    assert made(
        "mfrank.a", "class B:\n def c(self): return damaged('x', 'is')\nerror = B().c()"
    ) == ("a.c")
    assert made("mfrank.a", "error = within('`n`', ValueError('odd'))") == ""
    again = (
        "def again(first):\n  try: raise first\n  except Exception as e: return value(f'x: {e}')\n"
    )
    assert made("mfrank.a", again + "error = again(value('odd', place='y'))") == "a"
    assert made("mfrank.a", again + "error = again(OSError('odd'))") == "a.again"


def test_a_code_goes_along_and_tracebacks_show_it() -> None:
    with pytest.raises(InputValueError) as raised:
        mfrank.ALS(factors=0)
    error = raised.value
    assert error.code == "arrays.checks.check_count"
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error)), error.within("`x`")):
        assert twin.code == error.code
        assert f"[{error.code}] " in "".join(traceback.format_exception(twin))


def test_they_are_errors_of_python_too() -> None:
    assert issubclass(InputValueError, ValueError)
    assert issubclass(InputTypeError, TypeError)
    assert issubclass(mfrank.InputMemoryError, MemoryError)
    assert issubclass(mfrank.UnknownIdError, InputValueError)


@pytest.mark.parametrize(
    ("problem", "remedy", "text"),
    [
        ("`n` is 0", "", "n is 0"),
        ("`n` is 0:", "raise it", "n is 0: raise it"),
        ("`n` is 0,", "raise it", "n is 0, raise it"),
        ("`n` is 0", "Raise it", "n is 0. Raise it"),
        ("`n` is 0", "raise it", "n is 0; raise it"),
    ],
)
def test_problem_and_remedy_make_one_sentence(problem: str, remedy: str, text: str) -> None:
    assert str(InputValueError(problem, remedy)) == text


@pytest.mark.parametrize(
    ("problem", "argument"),
    [
        ("`biases=True` needs a ridge", "biases"),
        ("`steer.boosts`: unknown ids", "steer.boosts"),
        ("`mfrank.ALS` has no `alpha`", "alpha"),
        ("use `set_params(factors=3)` for `factors`", "factors"),
        ("the file is empty", ""),
        ("pass `Interactions.from_sparse` what `scipy.io.mmread` reads", ""),
        ("got '`factors`'", ""),
    ],
)
def test_the_argument_is_the_first_that_is_marked(problem: str, argument: str) -> None:
    assert InputValueError(problem).argument == argument


@given(st.text())
def test_what_a_caller_wrote_stays_as_it_is(text: str) -> None:
    """An id with backticks is not taken for a mark."""
    error = InputValueError(f"`users`: unknown id {text!r}", f"leave {text!r} out")
    assert str(error) == f"users: unknown id {text!r}; leave {text!r} out"
    assert error.argument == "users"


def test_an_error_of_a_part_names_the_whole() -> None:
    inner = InputTypeError("`values` must be numbers", "drop them")
    outer = within("`train`", inner)
    assert type(outer) is InputTypeError
    assert (outer.argument, outer.remedy) == ("train", "drop them")
    assert str(outer) == "train: values must be numbers; drop them"
    of_file = within("a.csv", inner)
    assert (of_file.argument, str(of_file)) == (
        "values",
        "a.csv: values must be numbers; drop them",
    )
    assert (inner.place, outer.place, of_file.place) == ("", "", "a.csv")
    for kind, theirs in ((InputTypeError, TypeError), (InputValueError, ValueError)):
        foreign = within("`labels`", theirs("of another library"))
        assert type(foreign) is kind
        assert str(foreign) == "labels: of another library"


@pytest.mark.parametrize(
    "inner",
    [
        InputTypeError("empty", "drop it", place="row 3"),
        BadRow("empty", 3),
        mfrank.UnknownIdError("empty", ["tea"]).within("row 3"),
    ],
)
def test_a_place_in_a_place_is_named_from_the_whole_to_the_part(inner: mfrank.InputError) -> None:
    assert inner.place == "row 3"
    outer = inner.within(Path("a.csv")).within("`train`")
    for error in (outer, pickle.loads(pickle.dumps(outer)), copy.copy(outer)):
        assert (type(error), error.place) == (type(inner), "a.csv, row 3")
        assert str(error) == f"train: a.csv: {inner}"
    assert inner.place == "row 3"


def test_what_was_saved_and_cannot_be_read_has_a_remedy() -> None:
    error = unreadable("a.npy", "is damaged", "it is empty")
    assert str(error) == "a.npy is damaged: it is empty; restore it from a copy, or save it again"
    assert (error.place, error.argument) == ("a.npy", "")
    own = InputTypeError("`factors` must be a number", "fit again")
    error = unreadable(Path("model"), "is damaged", own)
    assert (type(error), error.place) == (InputValueError, "model")
    assert (error.argument, error.remedy) == ("factors", "fit again")
    assert str(unreadable("a.npy", "is damaged", remedy="")) == "a.npy is damaged"


def test_unknown_ids_stay_known_wherever_they_are() -> None:
    error = mfrank.UnknownIdError("unknown ids: 7", [7, 7], "leave it out").within("`users`")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert (one.ids, one.argument, one.remedy) == ((7,), "users", "leave it out")
        assert str(one) == "users: unknown ids: 7; leave it out"


def test_notices_are_texts_without_marks(caplog: pytest.LogCaptureFixture) -> None:
    notice = Notice("lower `factors`, got '`n`'")
    for one in (notice, copy.copy(notice), pickle.loads(pickle.dumps(notice))):
        assert one == "lower factors, got '`n`'"
        assert one.marked == "lower `factors`, got '`n`'"
    logging.getLogger("mfrank").warning(Notice("100 % of `factors`"))
    assert caplog.messages == ["100 % of factors"]


def test_callers_can_read_what_is_wrong(tmp_path: Path) -> None:
    with refuses(ValueError, "factors"):
        mfrank.ALS(factors=0)
    with refuses(TypeError, "objective"):
        mfrank.ALS("rg2")  # type: ignore[arg-type]
    data = mfrank.Interactions.from_arrays([0, 1], [0, 1])
    with refuses(ValueError, "parts"):
        mfrank.Interactions.concat([])
    (tmp_path / "a.csv").write_text("user,item,rating,stars\n1,2,3,4\n")
    with refuses(ValueError, "value", place=tmp_path / "a.csv", remedy="name one with value="):
        mfrank.Interactions.from_file(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("user,item\n1,2\n3,\n")
    with refuses(ValueError, place=f"{tmp_path / 'b.csv'}, line 3", remedy="drop the row"):
        mfrank.Interactions.from_file(tmp_path / "b.csv")
    with refuses(ValueError, "userid", remedy="") as raised:
        mfrank.ALS(factors=2, iterations=1).fit(data).recommend(9)
    assert raised.value.ids == (9,)  # type: ignore[attr-defined]
