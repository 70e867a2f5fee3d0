"""The demo makes the files it names, and the commands it prints can be pasted."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import children
import numpy as np
import pytest

import mfrank
from mfrank.cli.commands import demo
from mfrank.cli.dispatch import _parser
from mfrank.cli.main import main
from mfrank.cli.printing import command_line


@dataclass(frozen=True)
class Shown:
    """A demo's working folder, and what it printed."""

    cwd: Path
    text: str
    compared: tuple[tuple[Any, ...], dict[str, Any]]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """A small demo that compares one model, called by ``python -m mfrank``."""
    cwd, out = tmp_path_factory.mktemp("cwd"), io.StringIO()
    compared: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    real = demo.compare

    def compare(*data: Any, **options: Any) -> Any:
        compared.append((data, options))
        few = {"factors": 4, "iterations": 2, "n_threads": 1}
        others = {name: options[name] for name in options.keys() - few.keys()}
        return real(*data, **others, models={"mfrank RG2": mfrank.ALS(mfrank.RG2(), **few)})

    tiny = demo.Scale(60, 40, 900, factors=4, iterations=2, repeats=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "compare", compare)
        patch.setattr(demo, "FULL", tiny)
        patch.setattr(demo, "SMALL", tiny)
        patch.setattr(sys, "argv", [str(Path(mfrank.__file__).with_name("__main__.py"))])
        patch.chdir(cwd)
        with redirect_stdout(out):
            assert main(["demo", "--output", "my demo", "--random-state", "3"]) == 0
    return Shown(cwd, out.getvalue(), *compared)


def test_it_makes_everything_it_says(shown: Shown) -> None:
    for name in ("mfrank RG2", "recommendations.csv", "user-0", "Next, for example"):
        assert name in shown.text
    with open(shown.cwd / "my demo" / "recommendations.csv", newline="") as file:
        assert len({row["user"] for row in csv.DictReader(file)}) == 60
    assert mfrank.ALS.load(shown.cwd / "my demo" / "model").objective == mfrank.RG2()
    names = sorted(path.name for path in (shown.cwd / "my demo").iterdir())
    assert f"\nIn my demo: {', '.join(names)}\n" in shown.text
    tables = ["comparison.csv", "comparison.json", "interactions.csv", "recommendations.csv"]
    assert sorted({*tables, "model"}) == names
    with open(shown.cwd / "my demo" / "comparison.csv", newline="") as file:
        compared = [row["model"] for row in csv.DictReader(file)]
    rows = json.loads((shown.cwd / "my demo" / "comparison.json").read_text())["rows"]
    assert compared == [row["model"] for row in rows] == ["mfrank RG2"]


def rows(data: mfrank.Interactions) -> set[tuple[Any, ...]]:
    users, items = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    return set(zip(users, items, np.asarray(data.timestamps).tolist(), strict=True))


def test_it_compares_and_fits_made_up_data_by_its_seed(shown: Shown) -> None:
    folder = shown.cwd / "my demo"
    data = mfrank.synthetic(60, 40, 900, names=True, random_state=3)
    assert f"Made {data}.\n" in shown.text
    assert rows(mfrank.Interactions.from_file(folder / "interactions.csv")) == rows(data)
    (split,), options = shown.compared
    expected = mfrank.by_ratio(data, train=0.8, test=0.2, random_state=3)
    assert (rows(split.train), rows(split.test)) == (rows(expected.train), rows(expected.test))
    few = {"factors": 4, "iterations": 2, "random_state": 3}
    assert options == {**few, "repeats": 1, "show_progress": False}
    model = mfrank.ALS(mfrank.RG2(), **few).fit(data)
    saved = mfrank.ALS.load(folder / "model")
    np.testing.assert_array_equal(saved.item_factors, model.item_factors)
    lists = mfrank.Interactions.from_file(folder / "recommendations.csv", value="score")
    best = model.recommend(model.user_ids.labels, N=10)
    assert lists.nnz == sum(item is not None for item in best.ids.ravel())


def test_it_shows_what_a_user_of_usual_activity_had_and_gets(shown: Shown) -> None:
    model = mfrank.ALS.load(shown.cwd / "my demo" / "model")
    data = mfrank.synthetic(60, 40, 900, names=True, random_state=3)
    had = re.search(r"^(\S+) had (\d+) items, among them\n  (.*)\n", shown.text, re.MULTILINE)
    assert had
    row = data.user_ids.rows([had[1]])[0]
    n_had = int(data.counts.users[row])
    assert n_had == int(had[2]) == np.sort(data.counts.users)[30]
    items = data.item_ids.raw(data.user_items[[row]].indices).tolist()
    assert had[3].split(", ") == items[:8]
    best = model.recommend(had[1], N=8).ids
    told = "and RG2, fitted to all interactions, recommends\n  " + ", ".join(best)
    assert f"{told}\n" in shown.text


@pytest.mark.parametrize(
    ("backend", "size", "line", "folder", "seed"),
    [
        ("cpu", "FULL", "demo", "mfrank-demo", 0),
        ("numpy", "SMALL", "demo --output some/where --random-state 7", "some/where", 7),
    ],
)
def test_it_is_smaller_where_nothing_is_compiled(
    backend: str,
    size: str,
    line: str,
    folder: str,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []

    def stop(*shape: int, **options: Any) -> None:
        made.extend([*shape, options])
        raise ValueError("no data")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "choose", lambda name=None: mfrank.backends.named(name or backend))
    monkeypatch.setattr(demo, "synthetic", stop)
    assert main(line.split()) == 2
    scale: demo.Scale = getattr(demo, size)
    expected = {"names": True, "random_state": seed}
    assert made == [scale.users, scale.items, scale.interactions, expected]
    assert scale.users > scale.items
    assert scale.interactions > 10 * scale.users
    assert Path(folder).is_dir()
    assert main(line.split()) == 2  # for want of data again, and not because of the folder


def test_the_commands_it_prints_go_on_from_its_files(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shown.cwd)
    lines = [shlex.split(line)[3:] for line in shown.text.splitlines() if " -m mfrank " in line]
    fits = ("fit", "descend", "pagerank")
    assert [line[0] for line in lines] == ["recommend", "explain", "similar-items", *fits]
    for line in lines:
        args = _parser().parse_args(line)
        if line[0] in fits:
            assert Path(args.interactions).is_file()
            assert Path(args.model).parent == Path("my demo")
        else:
            assert main(line) == 0
            assert capsys.readouterr().out.count("\n") > 1


def test_every_command_it_prints_works_when_pasted(shown: Shown) -> None:
    lines = [line for line in shown.text.splitlines() if " -m mfrank " in line]
    commands = [shlex.split(line)[3] for line in lines]
    assert {"recommend", "similar-items", "explain", "fit", "descend", "pagerank"} <= set(commands)
    running = [
        subprocess.Popen(
            line,
            shell=True,
            cwd=shown.cwd,
            env=os.environ | {"PYTHONPATH": str(children.ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in lines
    ]
    for line, child in zip(lines, running, strict=True):
        out, err = child.communicate(timeout=120)
        assert (child.returncode, err.count("error")) == (0, 0), f"{line}\n{err}"
        assert out, line


@pytest.mark.parametrize(
    ("called", "found", "printed_as"),
    [
        ("/venv/bin/mfrank", "/venv/bin/mfrank", "mfrank fit 'my file'"),
        (".venv/bin/mfrank", None, ".venv/bin/mfrank fit 'my file'"),
        (".venv/bin/mfrank", "/usr/bin/mfrank", ".venv/bin/mfrank fit 'my file'"),
        ("/site/mfrank/__main__.py", "/py/bin/python3", "python3 -m mfrank fit 'my file'"),
        ("/site/mfrank/__main__.py", None, "/py/bin/python3 -m mfrank fit 'my file'"),
        ("script.py", None, "mfrank fit 'my file'"),
    ],
)
def test_commands_are_printed_as_the_shell_finds_them(
    called: str, found: str | None, printed_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr(sys, "executable", "/py/bin/python3")
    monkeypatch.setattr("shutil.which", lambda _name: found)
    assert command_line("fit", "my file") == printed_as
