"""Commands that change one model at once lose nothing, and a batch is applied once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from children import PATHS

import mfrank
from mfrank.cli.main import main
from mfrank.retrieval import Recommender

DAYS = 3


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, and a file of interactions for each of some days, in the working directory."""
    data = mfrank.synthetic(40, 20, 400, names=True, random_state=0)
    monkeypatch.chdir(tmp_path)
    for day in range(DAYS):
        (tmp_path / f"day-{day}.csv").write_text(f"user,item\nof day {day},drama-0001\n")
    return mfrank.ALS(mfrank.IALS(), 3, 2, random_state=0).fit(data).save(tmp_path / "model")


def update(day: int, *more: str) -> list[str]:
    return ["update", f"day-{day}.csv", "--model", "model", *more]


REMOVE = ["remove", "--model", "model", "--user", "user-00003"]


class Waits(logging.Handler):
    """Notes that a save waits for another."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "waiting for another save" in record.getMessage():
            self.waits.set()


@pytest.mark.parametrize("first", [update(0), REMOVE], ids=["update", "remove"])
@pytest.mark.parametrize(
    "second", [update(1), ["remove", "--model", "model", "--item", "drama-0002"]]
)
def test_of_two_changes_one_waits(
    first: list[str], second: list[str], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes when the first has loaded the model, and goes on when it has saved it."""
    handler, codes, threads = Waits(), list[int](), list[threading.Thread]()
    logger = logging.getLogger("mfrank")
    level = logger.level  # of two commands at once, the one that ends last leaves its own
    save = Recommender.save

    def begin_the_second(self: Any, *args: Any, **options: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=lambda: codes.append(main(second))))
            threads[0].start()
            assert handler.waits.wait(30)
        return save(self, *args, **options)

    monkeypatch.setattr(Recommender, "save", begin_the_second)
    logger.addHandler(handler)
    try:
        assert main(first) == 0
    finally:
        logger.removeHandler(handler)
        threads[0].join()
        logger.setLevel(level)
    assert codes == [0]
    now = mfrank.load(model)
    users, items = now.user_ids.labels.tolist(), now.item_ids.labels.tolist()
    assert ("of day 0" in users) == (first == update(0))
    assert ("user-00003" in users) == (first == update(0))
    assert ("of day 1" in users) == (second == update(1))
    assert ("drama-0002" in items) == (second == update(1))


def test_of_many_processes_none_is_lost(model: Path) -> None:
    """Updates by the command, and loops of Python that load again when they are refused."""
    loop = """
import sys, mfrank
from mfrank.files.folder import ChangedFolderError
for user in range(3):
    new = mfrank.Interactions.from_arrays([f"{sys.argv[1]} {user}"], ["drama-0001"])
    while True:
        model = mfrank.load("model").partial_fit(new)
        try:
            model.save("model")
            break
        except ChangedFolderError:
            pass
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(PATHS), "OMP_NUM_THREADS": "1"}
    commands = [["-c", loop, str(number)] for number in range(2)]
    commands += [["-m", "mfrank", *update(day)] for day in range(2)]
    children = [
        subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.DEVNULL)
        for command in commands
    ]
    assert [child.wait(100) for child in children] == [0] * len(children)
    users = set(mfrank.load(model).user_ids.labels.tolist())
    assert {f"{number} {user}" for number in range(2) for user in range(3)} <= users
    assert {"of day 0", "of day 1"} <= users


def content(folder: Path) -> list[bytes]:
    store = mfrank.load(folder).store
    return [store.user_factors.tobytes(), store.item_factors.tobytes()]


def test_a_file_that_is_applied_twice_is_told(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(update(0)) == 0
    assert "earlier update" not in capsys.readouterr().err
    assert main(update(0)) == 0
    assert "earlier update" in (told := capsys.readouterr().err)
    assert "--batch NAME" in told
    assert main(update(1)) == 0
    assert "earlier update" not in capsys.readouterr().err


def test_a_batch_is_applied_once(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(update(0, "--batch", "monday")) == 0
    capsys.readouterr()
    once = content(model)
    assert main(update(0, "--batch", "monday")) == 0
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "'monday' was applied before" in err
    assert content(model) == once
    assert main(["remove", "--model", "model", "--user", "of day 0"]) == 0
    gone = content(model)
    assert main(update(0, "--batch", "monday")) == 0
    assert content(model) == gone
    capsys.readouterr()
    assert main(update(1, "--batch", "monday")) == 0
    assert "with other interactions" in (told := capsys.readouterr().err)
    assert "--batch NAME" in told
    assert content(model) == gone
    assert main(update(1, "--batch", "tuesday")) == 0
    assert content(model) != gone
    assert main(update(1, "--batch", "tuesday", "--output", "newer")) == 0
    assert content(model) == content(model.with_name("newer"))


def test_a_command_that_fails_lets_others_save(model: Path) -> None:
    assert main(["remove", "--model", "model", "--user", "nobody"]) == 2
    assert main(update(0)) == 0


@pytest.mark.parametrize("there", [False, True], ids=["new", "replaced"])
def test_of_two_updates_to_one_other_folder_both_are_kept(
    there: bool, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if there:
        assert main(update(2, "--output", "newer")) == 0
        assert "another command" not in capsys.readouterr().err
    module = import_module("mfrank.cli.commands.update")
    read = module.read_spelled_like

    def read_while_another_saves(*args: Any, **how: Any) -> Any:
        monkeypatch.undo()
        monkeypatch.chdir(model.parent)
        assert main(update(1, "--output", "newer")) == 0
        return read(*args, **how)

    monkeypatch.setattr(module, "read_spelled_like", read_while_another_saves)
    assert main(update(0, "--output", "newer")) == 0
    assert capsys.readouterr().err.count("another command has saved a model there") == 1
    users = [mfrank.load("newer", version=n).user_ids.labels.tolist() for n in (0, 1)]
    assert ["of day 0" in users[0], "of day 1" in users[1]] == [True, True]


LONG = {
    "fit": ["fit", "likes.csv", "--factors", "2", "--iterations", "1", "--hold-out", "0.1"],
    "descend": ["descend", "likes.csv", "--factors", "2", "--iterations", "1"],
    "pagerank": ["pagerank", "likes.csv"],
    "tune": ["tune", "likes.csv", "--trials", "1", "--factors", "2"],
    "refit": ["tune", "likes.csv", "--refit", "model"],
}


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("command", LONG)
def test_a_model_that_was_saved_during_a_fit_is_told_and_kept(
    command: str,
    keep: int,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of two long commands that save to one folder, the second to end has replaced the first's."""
    data = mfrank.synthetic(40, 20, 400, names=True, random_state=0)
    data.to_pandas().to_csv("likes.csv", index=False)
    line = [*LONG[command], "--model", "model", "--keep", str(keep)]
    assert main(line) == 0
    assert "another command" not in capsys.readouterr().err
    module = import_module(f"mfrank.cli.commands.{line[0]}")
    read = module.read_table

    def read_while_another_saves(*args: Any, **how: Any) -> Any:
        monkeypatch.undo()
        monkeypatch.chdir(model.parent)
        mfrank.Popularity().fit(data).save(model, keep=keep)
        return read(*args, **how)

    monkeypatch.setattr(module, "read_table", read_while_another_saves)
    assert main(line) == 0
    assert capsys.readouterr().err.count("another command has saved a model there") == 1
    mfrank.roll_back(model)
    assert type(mfrank.load(model)) is mfrank.Popularity
