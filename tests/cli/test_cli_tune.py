"""mfrank tune from end to end: a file in, a model and a leaderboard out, one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.tuning import Runner

FAST = ["--trials", "2", "--factors", "8", "--n-threads", "1"]


@pytest.fixture
def file(tmp_path: Path) -> str:
    data = mfrank.synthetic(60, 40, 900, names=True, random_state=2)
    users = data.user_ids.raw(data.entry_users)
    items = data.item_ids.raw(data.user_items.indices)
    lines = [f"{user},{item}" for user, item in zip(users, items, strict=True)]
    (tmp_path / "likes.csv").write_text("\n".join(["user,item", *lines]) + "\n")
    return str(tmp_path / "likes.csv")


def test_the_model_of_the_search_is_saved(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, board = tmp_path / "model", tmp_path / "board.json"
    assert main(["tune", file, "--model", str(model), *FAST, "--json", str(board)]) == 0
    shown = capsys.readouterr().out
    assert "chosen on interactions held out per user" in shown
    assert f"saved to {model}" in shown
    expected = mfrank.tune(mfrank.Interactions.from_file(file), trials=2, factors=8, n_threads=1)
    users = expected.model.user_ids.raw([0, 1, 2])
    ids = [one.recommend(users, N=5).ids for one in (mfrank.load(model), expected.model)]
    np.testing.assert_array_equal(*ids)
    rows = json.loads(board.read_text())
    assert [row["value"] for row in rows] == [row["value"] for row in expected.leaderboard]


def test_the_search_is_resumed_from_its_file(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = ["--storage", str(tmp_path / "search.sqlite")]
    assert main(["tune", file, "--model", str(tmp_path / "one"), *FAST, *storage]) == 0
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("a trial was run again"))
    assert main(["tune", file, "--model", str(tmp_path / "two"), *FAST, *storage]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--minutes", "0"], "minutes must be a finite number > 0"),
        (["--trials", "0"], "trials must be at least 1"),
        (["--metric", "coverage@10"], "metric must have per-user values"),
        (["--json", "nowhere/board.json"], "nowhere"),
    ],
)
def test_errors_are_a_line_and_come_before_any_work(
    file: str,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("a trial was run"))
    assert main(["tune", file, "--model", str(tmp_path / "model"), *options]) != 0
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("stored", [True, False])
def test_after_ctrl_c_it_is_told_where_the_search_goes_on(
    stored: bool,
    file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "run", interrupted)
    kept = tmp_path / "search.sqlite"
    storage = ["--storage", str(kept)] if stored else []
    assert main(["tune", file, "--model", str(tmp_path / "model"), *FAST, *storage]) == 130
    told = capsys.readouterr().err.splitlines()
    goes_on = [f"mfrank: the same command goes on from {kept}"] if stored else []
    assert told == [*goes_on, "mfrank: stopped by Ctrl-C"]


def test_a_file_to_choose_by(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header, *lines = Path(file).read_text().splitlines()
    later = tmp_path / "later.csv"
    Path(file).write_text("\n".join([header, *lines[::2]]) + "\n")
    later.write_text("\n".join([header, *lines[1::2], "somebody,something"]) + "\n")
    model = tmp_path / "model"
    assert main(["tune", file, "--model", str(model), *FAST, "--valid", str(later)]) == 0
    assert "held out as given" in capsys.readouterr().out
    assert len(mfrank.load(model).recommend("somebody", N=3).ids) == 3
