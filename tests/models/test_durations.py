"""A fit that takes long says so before it begins, and what to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from problems import toy

import mfrank
from mfrank.cli.main import main
from mfrank.data.table_files import write_table
from mfrank.models import als, durations


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
def test_usual_fits_are_not_warned_of(data: mfrank.Interactions) -> None:
    model = mfrank.ALS(factors=1_000)
    with pytest.raises(Began):  # a warning would be another error here
        model.fit(data)


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
