"""A path that begins with ~ is in the home folder, at every door that takes a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.files import path_of

DATA = mfrank.synthetic(20, 12, 90, names=True, random_state=0)
MODEL = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(DATA)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder; the working folder is another, and stays empty."""
    place, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    place.mkdir()
    elsewhere.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("USERPROFILE", str(place))
    monkeypatch.chdir(elsewhere)
    return place


def plays(path: str) -> str:
    """A small file of interactions in the home folder."""
    DATA.to_pandas().to_csv(path_of(path), index=False)
    return path


def resaved(home: Path) -> Any:
    MODEL.save("~/m")
    assert (home / "m").is_dir()
    return mfrank.load("~/m").save(Path("~/again"))


def reopened(home: Path) -> Any:
    DATA.to_folder("~/data")
    assert mfrank.Interactions.open("~/data").nnz == DATA.nnz
    assert mfrank.Interactions.ingest([plays("~/plays.csv")], "~/again").nnz == DATA.nnz


def resumed(home: Path) -> Any:
    for _ in range(2):
        mfrank.ALS(factors=2, iterations=1).fit(DATA, checkpoint="~/again")


def exchanged(home: Path) -> Any:
    mfrank.to_implicit(MODEL.store, "~/again.npz").rename(home / "again")
    with pytest.raises(ValueError, match="npz"):
        mfrank.from_implicit(plays("~/plays.csv"))


def searched(home: Path) -> Any:
    board = mfrank.tune(DATA, minutes=None, trials=1, factors=2, storage="~/storage").leaderboard
    assert (home / "storage").exists()
    board.to_json("~/again")


def featured(home: Path) -> Any:
    items = DATA.item_ids.labels
    rows = [f"{item},{number}" for number, item in enumerate(items)]
    (home / "again").with_suffix(".csv").write_text("\n".join(["item,size", *rows]))
    mfrank.ALS(factors=2, iterations=1).fit(DATA, item_features="~/again.csv")
    (home / "again").touch()


def plotted(home: Path) -> Any:
    pytest.importorskip("matplotlib")
    from mfrank import plots

    tracked = mfrank.ALS(factors=2, iterations=1, track_objective=True).fit(DATA)
    plots.save(plots.convergence(tracked), "~/again.png")
    (home / "again.png").rename(home / "again")


def run(*words: str) -> Callable[[Path], Any]:
    def command(home: Path) -> Any:
        plays("~/plays.csv")
        MODEL.save("~/m")
        (home / "users.txt").write_text(str(DATA.user_ids.labels[0]))
        assert main(list(words)) == 0

    return command


PYTHON = {
    "save": resaved,
    "to_folder": reopened,
    "split": lambda home: mfrank.by_ratio(DATA, folder="~/again", random_state=0),
    "from_file": lambda home: [
        mfrank.Interactions.from_file(plays("~/plays.csv")).to_folder("~/again")
    ],
    "checkpoint": resumed,
    "recommend_all": lambda home: MODEL.recommend_all("~/again", format="csv"),
    "exchange": exchanged,
    "storage": searched,
    "features": featured,
    "plots": plotted,
}
COMMANDS = {
    "fit": run("fit", "~/plays.csv", "--model=~/again", "--factors", "2"),
    "ingest": run("ingest", "~/plays.csv", "--folder=~/again"),
    "recommend": run("recommend", "--model=~/m", "--users=~/users.txt", "--json=~/again"),
    "recommend-all": run("recommend-all", "--model=~/m", "--folder=~/again", "--format=csv"),
    "evaluate": run(
        "evaluate", "--model=~/m", "--test=~/plays.csv", "--include-seen", "--json=~/again"
    ),
    "update": run("update", "~/plays.csv", "--model=~/m", "--output=~/again"),
    "export": run("export", "--model=~/m", "--to=parquet", "~/again"),
}


@pytest.mark.parametrize("door", [*PYTHON, *(f"mfrank {name}" for name in COMMANDS)])
def test_a_tilde_is_the_home(door: str, home: Path) -> None:
    pytest.importorskip("pandas")
    doors = PYTHON | {f"mfrank {name}": command for name, command in COMMANDS.items()}
    doors[door](home)
    assert (home / "again").exists()
    assert not list(Path().iterdir())


def test_other_names_stay(home: Path) -> None:
    for name in ("a~b", "./~", "~nobody-of-this-name/x", "-", "x/~/y"):
        assert path_of(name) == Path(name)
    assert path_of("~") == path_of(Path("~")) == home
    with pytest.raises(TypeError):
        path_of(np.array(3))  # type: ignore[arg-type]
