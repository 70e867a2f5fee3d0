"""Without the C++ extension the first fit says so, once, and how to get it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import toy

import mfrank
from mfrank.arrays import installed
from mfrank.backends import cpu
from mfrank.cli.main import main
from mfrank.models import options as option_checks

WHY = "the C++ extension is not there; install a C++17 compiler and reinstall mfrank"


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without the extension, in which nothing was fitted yet."""
    monkeypatch.setattr(option_checks, "_warned", False)
    for module in (installed, cpu):
        monkeypatch.setattr(module, "why_missing", WHY)


def walk(**options: Any) -> Any:
    data = mfrank.Interactions.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], timestamps=[0, 1, 0, 1])
    return mfrank.SupervisedPageRank(None, **options).fit(data)


def linear() -> Any:
    judged = mfrank.Judged(np.eye(4), [1, 0, 1, 0], [0, 0, 1, 1])
    return mfrank.LinearRanker(iterations=1).fit(judged)


def als(**options: Any) -> Any:
    return mfrank.ALS(factors=2, iterations=1, **options).fit(toy())


def descent(**options: Any) -> Any:
    return mfrank.Descent(factors=2, iterations=1, **options).fit(toy())


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize("fit", [als, descent, linear, walk])
def test_the_first_fit_warns_of_it_and_the_second_does_not(fit: Callable[[], Any]) -> None:
    with pytest.warns(RuntimeWarning, match="hundreds of times slower") as caught:
        fit()
    (warning,) = caught
    assert WHY in str(warning.message)
    assert warning.filename == __file__  # it points at who called fit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        als()
        fit()


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize("fit", [als, descent, walk])
def test_who_asks_for_numpy_is_not_warned(fit: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(backend="reference")
    with pytest.warns(RuntimeWarning, match="slower"):
        als()


@pytest.mark.skipif(installed.why_missing is not None, reason=str(installed.why_missing))
def test_with_the_extension_there_is_nothing_to_warn_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_checks, "_warned", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        als()


@pytest.mark.usefixtures("missing")
def test_the_command_line_says_it_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("user,item\na,x\nb,y\n")
    line = ["fit", str(tmp_path / "a.csv"), "--model", str(tmp_path / "m"), "--factors", "2"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(line) == 0
    told = capsys.readouterr().err
    assert told == f"mfrank: fits run in numpy, up to hundreds of times slower: {WHY}\n"
