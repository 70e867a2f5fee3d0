"""A bar counts, tells the time that is left, and ends its line, with tqdm and without."""

from __future__ import annotations

import sys

import pytest

from mfrank.arrays import progress_bar
from mfrank.arrays import work as progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a bar without tqdm."""
    time = [100.0]
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(progress, "perf_counter", lambda: time[0])
    return time


def shown(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that were written over each other."""
    return [line.rstrip(" ") for line in capfd.readouterr().err.split("\r")]


def test_the_time_left_is_that_of_what_is_left(
    clock: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    with progress_bar(2000, "merging", "row") as advance:
        assert shown(capfd) == ["", "merging: row 0/2000"]
        clock[0] += 3
        advance(500)
        assert shown(capfd) == ["", "merging: row 500/2000, 9 s left"]
        clock[0] += 3
        advance(1000, "objective 7")
        assert shown(capfd) == ["", "merging: row 1500/2000, objective 7, 2 s left"]
    assert capfd.readouterr().err == "\n"


def test_what_has_not_begun_has_a_time_all_the_same(
    clock: list[float], capfd: pytest.CaptureFixture[str]
) -> None:
    with progress_bar(4, "recommend", "user") as advance:
        clock[0] += 2
        advance(0)  # by which a resumed run says what is there
        assert shown(capfd)[-1] == "recommend: user 0/4, 8 s left"


@pytest.mark.usefixtures("clock")
def test_without_a_total_it_only_counts(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar(None, "reading", "row") as advance:
        assert shown(capfd) == ["", "reading: row 0"]
        advance(1200)
        advance(34, "of two files")
        assert shown(capfd)[1:] == ["reading: row 1,200", "reading: row 1,234, of two files"]


@pytest.mark.usefixtures("clock")
def test_a_shorter_line_covers_the_longer_one(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar(None, "reading", "row") as advance:
        advance(1, "a long note about it")
        longer = capfd.readouterr().err.split("\r")[-1]
        advance(1)
        assert len(capfd.readouterr().err.split("\r")[-1]) == len(longer) == 70


@pytest.mark.usefixtures("clock")
def test_it_is_seen_at_once_and_only_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    flushed = []
    monkeypatch.setattr(sys.stderr, "flush", lambda: flushed.append(True))
    with progress_bar(3, "fit", "epoch", shown=False) as advance:
        advance(1)
        advance(1, "note")
    assert (capfd.readouterr().err, flushed) == ("", [])
    with progress_bar(3, "fit", "epoch") as advance:
        advance(1)
    assert len(flushed) == 2


@pytest.mark.parametrize(
    ("total", "told"),
    [(None, "150krow"), (200_000, "150k/200k"), (100_000, "100k/100k"), (99_999, "99999/99999")],
)
def test_tqdm_shortens_large_numbers(
    total: int | None, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm", reason="needs tqdm")
    with progress_bar(total, "reading", "row") as advance:
        advance(min(total or 150_000, 150_000), "of two files")
    err = capfd.readouterr().err
    assert told in err.replace(" ", "")
    assert "of two files" in err
    assert "reading: " in err


def test_tqdm_shows_no_note_where_none_is_given(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm", reason="needs tqdm")
    with progress_bar(3, "fit", "epoch") as advance:
        advance(3)
    assert capfd.readouterr().err.rstrip().endswith("epoch/s]")
