"""The scripts of the page nightly, run night by night: in a shell and in Python, on real data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.data import from_npz

PAGE = Path(__file__).parents[2] / "docs" / "nightly.md"
if not PAGE.is_file():
    pytest.skip("the pages are not beside the tests", allow_module_level=True)
SHELL, PYTHON = (
    re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    for kind in ("bash", "python")
)
METRIC = "ndcg@20"


def days_of(data: mfrank.Interactions, n_days: int) -> list[mfrank.Interactions]:
    """The first half, and the rest in days of as many interactions."""
    assert data.timestamps is not None
    ends = np.quantile(data.timestamps, np.linspace(0.5, 1, n_days + 1)[:-1])
    day = np.searchsorted(ends, data.timestamps)
    return [data.take(day == number).k_core(1) for number in range(n_days + 1)]


def write_days(days: list[mfrank.Interactions], folder: Path) -> None:
    for number, day in enumerate(days):
        users = day.user_ids.raw(day.entry_users)
        items = day.item_ids.raw(day.user_items.indices)
        rows = [f"{user},{item}" for user, item in zip(users, items, strict=True)]
        (folder / f"plays-{number}.csv").write_text("\n".join(["user,item", *rows]) + "\n")


def batches(folder: Path, version: int = 0) -> int:
    """The number of days that a version has learned."""
    return sum("batch" in record for record in mfrank.load(folder, version=version).history)


def make_worse(folder: Path) -> None:
    """What a bad night does: another version, whose items have each other's factors."""
    model: Any = mfrank.load(folder)
    store = model.store
    spoiled = mfrank.FactorStore(
        store.user_factors,
        np.random.default_rng(0).permutation(store.item_factors),
        store.user_ids,
        store.item_ids,
        counts=store.counts,
        fitter=store.fitter,
        history=store.history,
        threshold=store.threshold,
    )
    model._hold(spoiled, model.seen)
    model.save(folder, keep=3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the days of a small shop, and its model, from which scripts are run."""
    days = days_of(mfrank.synthetic(300, 80, 9000, random_state=0), 3)
    write_days(days, tmp_path)
    monkeypatch.chdir(tmp_path)
    first = mfrank.Interactions.from_file("plays-0.csv")
    mfrank.ALS(factors=8, iterations=5, random_state=0).fit(first).save("model")
    return tmp_path


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_shell_learns_judges_alerts_and_rolls_back(folder: Path) -> None:
    for name, line in (
        ("mfrank", f'exec "{sys.executable}" -m mfrank "$@"'),
        ("mail", f'cat >> "{folder / "mails"}"'),
    ):
        command = folder / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\n{line}\n")
        command.chmod(0o755)
    (folder / "nightly.sh").write_text(SHELL)
    paths = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(PAGE.parents[1]),
    }

    def night(day: int) -> Any:
        return subprocess.run(
            ["bash", "nightly.sh", str(day)],
            env=os.environ | paths,
            capture_output=True,
            text=True,
            check=False,
        )

    first = night(1)
    assert first.returncode == 0, first.stderr
    assert "no earlier version yet" in first.stderr
    assert (batches(folder / "model"), mfrank.n_versions("model")) == (1, 2)
    make_worse(folder / "model")
    second = night(2)
    assert second.returncode == 0, second.stderr
    assert "ALERT" in second.stdout
    assert "2: the last update ranked worse" in (folder / "mails").read_text()
    # The spoiled version is gone, and the day was learned by the one before it.
    assert (batches(folder / "model"), mfrank.n_versions("model")) == (2, 3)
    assert [batches(folder / "model", version) for version in range(3)] == [2, 1, 0]
    again = night(2)  # what it has learned is no test any more
    assert again.returncode == 2
    assert "nothing to evaluate" in again.stderr
    assert batches(folder / "model") == 2


def nightly() -> Any:
    module = ModuleType("nightly")
    exec(compile(PYTHON, PAGE.name, "exec"), vars(module))
    return module.nightly


def test_python_does_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = nightly()
    run("1")
    assert "ALERT" not in capsys.readouterr().out
    make_worse(folder / "model")
    run("2")
    assert "ALERT" in capsys.readouterr().out
    assert [batches(folder / "model", version) for version in range(3)] == [2, 1, 0]
    run("3")
    assert mfrank.n_versions("model") == 3
    assert batches(folder / "model") == 3


@pytest.mark.parametrize("name", ["movietweetings", "globo"])
def test_nights_of_real_data(
    name: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three nights, of which none is an alert; then a spoiled model, which is one."""
    if not (data_dir / name).is_dir():
        pytest.skip(f"{name} is not among the real data")
    ratings = data_dir / name / "ratings.dat"
    if ratings.exists():
        data = mfrank.Interactions.from_file(ratings, value=False)
    else:
        data = from_npz(data_dir / name)
    assert data.timestamps is not None
    some = data.take(data.timestamps <= np.quantile(data.timestamps, 0.1)).k_core(1)
    write_days(days_of(some, 4), tmp_path)
    monkeypatch.chdir(tmp_path)
    first = mfrank.Interactions.from_file("plays-0.csv")
    mfrank.ALS(factors=8, iterations=5, random_state=0).fit(first).save("model")
    run = nightly()
    for day in (1, 2, 3):
        run(str(day))
        assert batches(tmp_path / "model") == day
    assert mfrank.n_versions("model") == 3
    make_worse(tmp_path / "model")
    line = f"evaluate --model model --against model@1 --test plays-4.csv --metric {METRIC} --alert"
    assert main([*line.split(), "3"]) == 3
    run("4")
    assert [batches(tmp_path / "model", version) for version in range(3)] == [4, 3, 2]
