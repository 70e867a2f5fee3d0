"""A fit that takes long says so before it begins, and what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from problems import toy

import mfrank
from mfrank.cli.main import main
from mfrank.data import write_table
from mfrank.descent import engine
from mfrank.models import als
from mfrank.models import cost as durations
from mfrank.pagerank import learners as gfn


class Began(Exception):
    """The fit's first work."""


@pytest.fixture
def nothing_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(*_: object, **__: object) -> None:
        raise Began

    monkeypatch.setattr(als, "first_factors", begin)


@pytest.fixture(scope="module")
def data() -> mfrank.Interactions:
    return mfrank.synthetic(2_000, 800, 20_000, random_state=0)


def warning_of(data: mfrank.Interactions, **options: object) -> str:
    with pytest.warns(RuntimeWarning, match="will take") as caught, pytest.raises(Began):
        mfrank.ALS(**options).fit(data)  # type: ignore[arg-type]
    assert caught[0].filename == __file__  # it points at who called fit
    return str(caught[0].message)


@pytest.mark.usefixtures("nothing_is_fitted")
def test_too_wide_a_fit_is_warned_of_before_it_begins(data: mfrank.Interactions) -> None:
    told = warning_of(data, factors=5_000, iterations=20, n_threads=2)
    assert told.startswith("an epoch with 5,000 factors will take about ")
    assert told.endswith("; lower factors: more than the number of items, 800, add nothing")


@pytest.mark.usefixtures("nothing_is_fitted")
def test_an_exact_solver_for_long_rows_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "_LONG", 1e-9)
    told = warning_of(toy(), factors=1, solver="cholesky")
    assert told.endswith('; lower factors or pass solver="auto"')
    assert warning_of(toy(), factors=1).endswith("; lower factors")


@pytest.mark.usefixtures("nothing_is_fitted")
def test_a_solver_is_named_only_where_rows_take_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Gram matrix's eigenvectors take as long with any solver, on any number of threads."""
    monkeypatch.setattr(durations, "_LONG", 1e-9)
    data = mfrank.synthetic(900, 800, 2_000, random_state=0)
    told = warning_of(data, factors=800, solver="cholesky", n_threads=500)
    assert told.endswith("; lower factors")


@pytest.mark.usefixtures("nothing_is_fitted")
def test_factors_that_add_nothing_are_those_beyond_the_shorter_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durations, "_LONG", 1e-9)
    for matrix, side in ((toy(9, 7), "items"), (toy(7, 9), "users")):
        told = warning_of(matrix, factors=8)
        assert told.endswith(f"; lower factors: more than the number of {side}, 7, add nothing")
        assert warning_of(matrix, factors=7).endswith("; lower factors")


@pytest.mark.usefixtures("nothing_is_fitted")
def test_usual_fits_are_not_warned_of(data: mfrank.Interactions) -> None:
    model = mfrank.ALS(factors=1_000)
    with pytest.raises(Began):  # a warning would be another error here
        model.fit(data)


class Clock:
    """Tells a time that every reading moves on by some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now = seconds, 0.0

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


@pytest.mark.parametrize("show_progress", [False, True])
@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({}, "; lower negatives and factors, or pass shared_negatives=True"),
        ({"shared_negatives": True}, "; lower negatives and factors"),
        ({"negatives": None}, "; set negatives to a number, instead of all items"),
    ],
)
def test_a_slow_descent_is_warned_of_by_its_first_batches(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], remedy: str, show_progress: bool
) -> None:
    """A batch takes 2 seconds here, and an epoch 50 batches."""
    monkeypatch.setattr(engine, "perf_counter", Clock(2.0))
    model = mfrank.Descent(factors=2, iterations=2, batch_size=2, **options)
    likes = np.eye(100, 9) + np.eye(100, 9, -50) + np.repeat([[0.0], [1.0]], 50, 0)
    likes[:, 0] = 1  # every user has some
    with pytest.warns(RuntimeWarning, match="takes about") as caught:
        model.fit(sp.csr_array(likes), show_progress=show_progress)
    (warning,) = caught  # once, of two epochs
    assert warning.filename == __file__
    told = (
        "an epoch takes about 2 minutes by its first 4 lists of 100, and 2 epochs about 3 minutes"
    )
    assert str(warning.message) == told + remedy


def test_a_first_batch_is_not_measured() -> None:
    pace = durations.Pace(10, "wait")
    for first in (50.0, 0.1):  # in the first epoch, kernels are compiled
        for batch in range(40):
            pace(256 * (batch + 1), 10_240, first + 0.1 * batch)  # a warning would be an error


def test_epochs_of_one_batch_are_never_measured() -> None:
    pace = durations.Pace(10, "wait")
    for seconds in (5.0, 500.0, 5_000.0):
        pace(256, 256, seconds)


def test_a_batch_is_measured_from_the_end_of_the_one_before() -> None:
    pace = durations.Pace(3, "wait")
    pace(1, 10, 50.0)  # which compiled for most of its time
    with pytest.warns(RuntimeWarning, match="an epoch takes about 5 minutes by its first 2 lists"):
        pace(2, 10, 80.0)


def test_long_learning_of_a_walk_is_warned_of_after_its_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = mfrank.synthetic(20, 10, 80, random_state=0)
    monkeypatch.setattr(gfn, "perf_counter", Clock(36.0))
    few = mfrank.SupervisedPageRank(gfn.GFN(iterations=3, random_state=0), random_state=0)
    few.fit(data)  # a warning would be an error here
    many = mfrank.SupervisedPageRank(gfn.GFN(iterations=1000, random_state=0), random_state=0)
    with pytest.warns(RuntimeWarning, match="learning takes up to 1,000 steps, about") as caught:
        many.fit(data, callback=lambda *_: True)
    assert caught[0].filename == __file__
    assert "10 hours by the first; lower queries" in str(caught[0].message)


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("nothing_is_fitted")
def test_the_command_line_names_its_flag(
    data: mfrank.Interactions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pairs.csv"
    write_table(file, {"user": data.entry_users, "item": data.user_items.indices})
    line = ["fit", str(file), "--model", str(tmp_path / "m"), "--factors", "5000"]
    assert main(line) == 1
    assert "will take about" in (told := capsys.readouterr().err)
    assert "; lower --factors: more than the number of items," in told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (1, "1 minute"),
        (61, "1 minute"),
        (281, "5 minutes"),
        (1_500, "20 minutes"),
        (3_600, "1 hour"),
        (200_000, "2 days"),
        (9e6, "100 days"),
    ],
)
def test_durations_have_one_digit(seconds: float, told: str) -> None:
    assert durations._told(seconds) == told
