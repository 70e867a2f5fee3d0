"""Commands leave out what --at-least drops, unless they are told otherwise."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main

N_USERS, N_ITEMS = 24, 16


def rows(seed: int = 0) -> list[tuple[str, str, int, int]]:
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random((N_USERS, N_ITEMS)) < 0.55)
    return [
        (f"u{u:02}", f"i{i:02}", int(rng.integers(1, 6)), int(rng.integers(9**9))) for u, i in cells
    ]


def written(path: Path, table: Any) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("user", "item", "rating", "timestamp"), *table])
    return str(path)


def rated(table: Any) -> set[tuple[str, str]]:
    return {(user, item) for user, item, *_ in table}


def listed(model: str, folder: Path) -> set[tuple[str, str]]:
    out = folder / "lists.csv"
    assert main(["recommend", "--model", model, "--n", str(N_ITEMS), "--output", str(out)]) == 0
    with out.open() as file:
        return {(row["user"], row["item"]) for row in csv.DictReader(file)}


FITS: Mapping[str, list[str]] = {
    "fit": ["--factors", "3", "--iterations", "2"],
    "descend": ["--factors", "3", "--iterations", "1", "--loss", "bpr"],
    "pagerank": ["--untuned"],
    "tune": ["--trials", "2", "--factors", "3"],
}


@pytest.mark.parametrize("at", ["file", "folder"])
@pytest.mark.parametrize("command", FITS)
def test_no_list_has_what_was_rated(tmp_path: Path, command: str, at: str) -> None:
    data = written(tmp_path / "r.csv", rows())
    if at == "folder":
        assert main(["ingest", data, "--folder", str(tmp_path / "r")]) == 0
        data = str(tmp_path / "r")
    model = str(tmp_path / "m")
    line = [command, data, "--model", model, *FITS[command], "--at-least", "4"]
    assert main(line) == 0
    found = listed(model, tmp_path)
    assert found
    assert not found & rated(rows())
    assert main([*line, "--no-keep-seen"]) == 0
    assert listed(model, tmp_path) & rated(rows())


def test_flags_that_say_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(tmp_path / "r.csv", rows())
    assert main(["fit", data, "--model", str(tmp_path / "m"), "--no-keep-seen"]) == 2
    assert "--no-keep-seen goes with --at-least" in capsys.readouterr().err


def test_an_update_adds_what_is_seen(tmp_path: Path) -> None:
    data, model = written(tmp_path / "r.csv", rows()), str(tmp_path / "m")
    objective = ["--objective", "ials", *FITS["fit"]]
    assert main(["fit", data, "--model", model, *objective, "--at-least", "4"]) == 0
    free = sorted(
        {(f"u{u:02}", f"i{i:02}") for u in range(4) for i in range(N_ITEMS)} - rated(rows())
    )
    today = [(user, item, 1 + 4 * (n % 2), 5) for n, (user, item) in enumerate(free[::2])]
    today.append(("newcomer", "i03", 1, 5))
    today.append(("newcomer", "i04", 5, 5))
    more = written(tmp_path / "t.csv", today)
    assert main(["update", more, "--model", model, "--at-least", "4"]) == 0
    found = listed(model, tmp_path)
    assert not found & (rated(rows()) | rated(today))
    assert any(user == "newcomer" for user, _ in found)
    counts = mfrank.load(model).store.counts.users.sum()
    assert counts == sum(row[2] >= 4 for row in rows() + today)


def test_ids_of_another_type_are_seen_too(tmp_path: Path) -> None:
    """A model of text ids, updated by a file in which all ids look like numbers."""
    first = [*rows(), ("7", "8", 5, 1)]
    data, model = written(tmp_path / "r.csv", first), str(tmp_path / "m")
    objective = ["--objective", "ials", *FITS["fit"]]
    assert main(["fit", data, "--model", model, *objective, "--at-least", "4"]) == 0
    today = [("7", "9", 1, 2), ("7", "10", 5, 2), ("11", "8", 2, 2), ("11", "9", 4, 2)]
    more = written(tmp_path / "t.csv", today)
    assert main(["update", more, "--model", model, "--at-least", "4"]) == 0
    assert not listed(model, tmp_path) & (rated(first) | rated(today))


EVALUATIONS: Mapping[str, Callable[[str], list[str]]] = {
    "by the model": lambda _: [],
    "by --train": lambda train: ["--train", train, "--at-least", "4"],
}


@pytest.mark.parametrize("how", EVALUATIONS)
def test_an_evaluation_ranks_nothing_that_was_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    raw = mfrank.Interactions.from_file(written(tmp_path / "r.csv", rows()))
    split = mfrank.by_time(raw, test=0.3)
    files = []
    for name, part in (("train", split.train), ("test", split.test)):
        table = part.to_pandas() if pytest.importorskip("pandas") else None
        files.append(written(tmp_path / f"{name}.csv", table.itertuples(index=False)))
    train, test = files
    model = str(tmp_path / "m")
    assert main(["fit", train, "--model", model, *FITS["fit"], "--at-least", "4"]) == 0
    line = ["evaluate", "--model", model, "--test", test, "--metric", "ndcg@5"]
    assert main([*line, *EVALUATIONS[how](train), "--json", str(tmp_path / "e.json")]) == 0
    known = mfrank.Interactions.from_file(train).at_least(4)
    fitted = mfrank.load(model)
    held_out = mfrank.Interactions.from_file(test, user_ids=known.user_ids, item_ids=known.item_ids)
    if how == "by --train":
        held_out = held_out.at_least(4)
    expected = mfrank.evaluate(fitted, held_out, train=known, metrics="ndcg@5")["ndcg@5"].value
    assert f"{expected:.5f}" in capsys.readouterr().out
