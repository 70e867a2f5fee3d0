"""Lists that workers write are the files of one process, byte by byte, however often they stop."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import kill_when_there
from engines import Delayed, Shuffled

import mfrank
from mfrank.cluster import Processes
from mfrank.retrieval import all_lists
from mfrank.retrieval import all_lists as on_workers
from tests.support.errors import refuses

DATA = mfrank.synthetic(60, 40, 900, names=True, random_state=2)


@pytest.fixture(scope="module")
def model() -> mfrank.ALS:
    return mfrank.ALS(factors=4, iterations=2, random_state=0).fit(DATA)


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 14 users each where lists have 5 items."""
    monkeypatch.setattr(all_lists, "_PLACES_AT_ONCE", 70)


def files(folder: Path) -> dict[str, bytes]:
    """All files but the lock, which stays."""
    assert not [path for path in folder.iterdir() if path.is_dir()]
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


@pytest.fixture(scope="module")
def wanted(model: mfrank.ALS, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_lists, "_PLACES_AT_ONCE", 70)
        folder = model.recommend_all(tmp_path_factory.mktemp("one"), N=5, format="csv")
    found = files(folder)
    assert len(found) == 7
    return found


@pytest.mark.parametrize("n", [1, 7])
def test_tasks_in_any_order_and_run_twice_write_the_files_of_one_process(
    tmp_path: Path, model: mfrank.ALS, wanted: dict[str, bytes], n: int
) -> None:
    engine = Shuffled(n, seed=n)
    assert files(model.recommend_all(tmp_path, N=5, format="csv", cluster=engine)) == wanted
    assert not engine.alive


@pytest.mark.parametrize(
    "options",
    [
        {"filter_items": [["drama-0001"]] * 60, "user_items": DATA},
        {"recalculate_user": True, "user_items": DATA.user_items[::-1].tocsr(), "n_threads": 2},
        {"by_row": True, "items": [1, 3, 4, 7], "filter_already_liked_items": False},
    ],
)
def test_every_option_does(tmp_path: Path, model: mfrank.ALS, options: dict[str, Any]) -> None:
    pytest.importorskip("pyarrow", reason="writes parquet")
    alone = model.recommend_all(tmp_path / "a", N=5, **options)
    there = model.recommend_all(tmp_path / "b", N=5, cluster=Shuffled(2), **options)
    assert files(there) == files(alone)


def test_worker_processes_do_though_one_dies_and_only_what_is_missing_is_written(
    tmp_path: Path, model: mfrank.ALS, wanted: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model.recommend_all(tmp_path, N=5, format="csv")
    for name in ("part-00001.csv", "part-00003.csv", "_SUCCESS"):
        (folder / name).unlink()
    kept = (folder / "part-00002.csv").stat().st_mtime_ns
    with Processes(2) as engine:
        killed, submit = list[int](), engine.submit

        def kill_one(function: Callable[..., Any], *args: Any) -> Any:
            if function is on_workers._written and not killed:
                killed.append(engine._workers[0].process.pid)
                os.kill(killed[0], signal.SIGKILL)
            return submit(function, *args)

        monkeypatch.setattr(engine, "submit", kill_one)
        model.recommend_all(folder, N=5, format="csv", cluster=engine)
    assert killed
    assert files(folder) == wanted
    assert (folder / "part-00002.csv").stat().st_mtime_ns == kept


CHILD = """
from pathlib import Path
import mfrank
from mfrank.retrieval import all_lists
from test_lists_on_workers import DATA
all_lists._PLACES_AT_ONCE = 70
if __name__ == "__main__":
    model = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(DATA)
    model.recommend_all(Path({folder!r}), N=5, format="csv", cluster=1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_run_is_resumed(
    tmp_path: Path, model: mfrank.ALS, wanted: dict[str, bytes]
) -> None:
    folder = tmp_path / "lists"
    kill_when_there(CHILD.format(folder=str(folder)), folder / "part-00000.csv")
    model.recommend_all(folder, N=5, format="csv", cluster=Shuffled(2))
    assert files(folder) == wanted


def test_workers_that_see_another_disk_are_told(tmp_path: Path, model: mfrank.ALS) -> None:
    class Elsewhere(Shuffled):
        """Writes are lost, or the folder is not there, once all is checked."""

        def __init__(self, folder: Path | None) -> None:
            super().__init__(2)
            self.folder = folder

        def _result(self, task: Delayed) -> Any:
            if task.function is on_workers._written:
                if self.folder is None:
                    return None
                shutil.rmtree(self.folder)
            return super()._result(task)

    for engine, what in (
        (Elsewhere(None), "a worker wrote it, and it is not here"),
        (Elsewhere(tmp_path / "b"), "a worker does not see its folder"),
    ):
        name = "a" if engine.folder is None else "b"
        with pytest.raises((OSError, FileNotFoundError)) as told:
            model.recommend_all(tmp_path / name, N=5, format="csv", cluster=engine)
        first = told.value.__context__ if engine.folder else told.value
        assert f"{what}; pass a folder on a disk that all workers see" in str(first)


def test_what_cannot_run_there_is_refused(tmp_path: Path, model: mfrank.ALS) -> None:
    with refuses(ValueError, "cluster"):
        model.recommend_all(tmp_path / "new", cluster=0)
    assert not (tmp_path / "new").exists()


def test_scores_are_those_of_one_process(model: mfrank.ALS, wanted: dict[str, bytes]) -> None:
    ids, scores = model.recommend(model.user_ids.labels, N=5)
    rows = b"".join(wanted[name].partition(b"\n")[2] for name in sorted(wanted) if "part" in name)
    assert rows.count(b"\n") == np.isfinite(scores).sum()
    assert len(ids) == 60
