"""Commands leave out what --at-least drops, unless they are told otherwise."""

from __future__ import annotations

import csv
import json
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


def test_zeros_of_a_file_are_seen_unless_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [(user, item, 0 if value < 4 else value, time) for user, item, value, time in rows()]
    line = ["fit", written(tmp_path / "r.csv", table), "--model", str(tmp_path / "m"), *FITS["fit"]]
    assert main(line) == 0
    (told,) = [each for each in capsys.readouterr().err.splitlines() if "the value 0" in each]
    assert "--no-keep-seen" in told
    assert "dataclasses" not in told
    assert not listed(str(tmp_path / "m"), tmp_path) & rated(table)
    assert main([*line, "--no-keep-seen"]) == 0
    assert listed(str(tmp_path / "m"), tmp_path) & rated(table)


def test_flags_that_say_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(tmp_path / "r.csv", rows())
    assert main(["fit", data, "--model", str(tmp_path / "m"), "--no-keep-seen"]) == 2
    assert "--no-keep-seen goes with --at-least" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_threshold_that_is_no_number_is_refused_by_its_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    data = written(tmp_path / "r.csv", rows())
    line = ["fit", data, "--model", str(tmp_path / "m"), f"--at-least={value}"]
    assert main(line) == 2
    assert "--at-least must be a finite number" in capsys.readouterr().err


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
    ids = {"user_ids": known.user_ids, "item_ids": known.item_ids}
    held_out = mfrank.Interactions.from_file(test, **ids).at_least(4)
    expected = mfrank.evaluate(fitted, held_out, train=known, metrics="ndcg@5")["ndcg@5"].value
    assert f"{expected:.5f}" in capsys.readouterr().out


# A model knows the --at-least of its fit


def evaluated(files: Mapping[str, str], at: Path, flags: list[str]) -> Any:
    out = at / "e.json"
    line = ["evaluate", "--model", files["model"], "--test", files["more"], *flags]
    assert main([*line, "--metric", "ndcg@5", "--json", str(out)]) == 0
    return out.read_text()


def updated(files: Mapping[str, str], at: Path, flags: list[str]) -> Any:
    new = str(at / "new")
    assert main(["update", files["more"], "--model", files["model"], "--output", new, *flags]) == 0
    assert mfrank.load(new).threshold == 4
    return sorted(listed(new, at)), mfrank.load(new).store.counts.users.tolist()


def updated_by_all(files: Mapping[str, str], at: Path, flags: list[str]) -> Any:
    return updated(files, at, ["--train", files["data"], *flags])


def explored(files: Mapping[str, str], at: Path, flags: list[str]) -> Any:
    kept: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mfrank.serving.run", lambda app, **_: None)
        patch.setattr("mfrank.pages.app", lambda models, data, *_, **__: kept.update(data=data))
        assert main(["explore", files["model"], "--data", files["more"], *flags]) == 0
    return kept["data"].to_pandas().values.tolist()


def explained(files: Mapping[str, str], at: Path, flags: list[str]) -> Any:
    out = str(at / "why.csv")
    line = ["explain", "u00", "i03", "--model", files["model"], "--train", files["data"]]
    assert main([*line, "--output", out, *flags]) == 0
    return Path(out).read_text()


def compared(files: Mapping[str, str], at: Path, flags: list[str]) -> Any:
    out = at / "c.json"
    line = ["compare", files["folder"], "--test", files["more"], "--json", str(out), *flags]
    line += ["--objective", "ials", "--repeats", "1", "--factors", "3", "--metric", "ndcg@5"]
    assert main(line) == 0
    text = json.loads(out.read_text())
    return text["settings"]["test_entries"]


def tuned(files: Mapping[str, str], at: Path, flags: list[str]) -> Any:
    out = at / "t.json"
    line = ["tune", files["folder"], "--valid", files["more"], "--model", str(at / "t"), *flags]
    assert main([*line, "--trials", "1", "--factors", "3", "--json", str(out)]) == 0
    return [row["value"] for row in json.loads(out.read_text())]


COMMANDS: Mapping[str, Callable[[Mapping[str, str], Path, list[str]], Any]] = {
    each.__name__: each
    for each in (evaluated, updated, updated_by_all, explored, explained, compared, tuned)
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A model of ratings from 4 on, its data as a file and a folder, and further ratings."""
    pytest.importorskip("pandas")
    data = written(tmp_path / "r.csv", rows())
    free = sorted(
        {(f"u{u:02}", f"i{i:02}") for u in range(N_USERS) for i in range(N_ITEMS)} - rated(rows())
    )
    more = [(user, item, 1 + n % 5, 10**9 + n) for n, (user, item) in enumerate(free[::2])]
    model = str(tmp_path / "m")
    fit = ["fit", data, "--model", model, "--factors", "3", "--iterations", "2"]
    assert main([*fit, "--objective", "wrmf", "--at-least", "4"]) == 0
    folder = mfrank.Interactions.from_file(data).at_least(4).to_folder(tmp_path / "folder")
    return {
        "data": data,
        "more": written(tmp_path / "more.csv", more),
        "model": model,
        "folder": str(folder),
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_raw_data_beside_a_model_are_cut_like_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], command: str
) -> None:
    if command == "updated":
        fit = ["fit", files["data"], "--model", files["model"], "--factors", "3"]
        assert main([*fit, "--objective", "ials", "--at-least", "4"]) == 0
    run, said = COMMANDS[command], "below 4, the --at-least of the fit"
    capsys.readouterr()
    by_itself = run(files, tmp_path, [])
    told = [each for each in capsys.readouterr().err.splitlines() if "below 4" in each]
    assert [said in each for each in told] == [True] * (1 + (command == "updated_by_all"))
    assert "--at-least 0" in told[0]
    flags = [] if command in ("compared", "tuned") else ["--at-least", "4"]
    assert run(files, tmp_path, flags) == by_itself
    capsys.readouterr()
    assert run(files, tmp_path, ["--at-least", "0"]) != by_itself
    assert "below 4" not in capsys.readouterr().err


def test_files_without_values_are_taken_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]
) -> None:
    with Path(files["more"]).open() as file:
        pairs = [(row["user"], row["item"]) for row in csv.DictReader(file)]
    more = tmp_path / "pairs.csv"
    with more.open("w", newline="") as file:
        csv.writer(file).writerows([("user", "item"), *pairs])
    capsys.readouterr()
    evaluated({**files, "more": str(more)}, tmp_path, [])
    assert "below" not in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_values_that_are_all_1_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], command: str
) -> None:
    with Path(files["more"]).open() as file:
        ones = [(row["user"], row["item"], 1, row["timestamp"]) for row in csv.DictReader(file)]
    more = written(tmp_path / "ones.csv", ones)
    if command == "updated":
        fit = ["fit", files["data"], "--model", files["model"], "--factors", "3"]
        assert main([*fit, "--objective", "ials", "--at-least", "4"]) == 0
    capsys.readouterr()
    COMMANDS[command]({**files, "more": more, "data": more}, tmp_path, [])
    told = [each for each in capsys.readouterr().err.splitlines() if "values are all 1" in each]
    assert len(told) == 1 + (command == "updated_by_all")
    assert "--at-least 4" in told[0]


def test_ratings_that_are_all_low_are_only_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]
) -> None:
    today = [("u00", "i77", 2, 10**9), ("u01", "i78", 3, 10**9)]
    more = written(tmp_path / "today.csv", today)
    line = ["fit", files["data"], "--model", files["model"], *FITS["fit"], "--at-least", "4"]
    assert main(line) == 0
    before = mfrank.load(files["model"]).store.counts.users.sum()
    assert main(["update", more, "--model", files["model"]]) == 0
    after = mfrank.load(files["model"])
    assert after.store.counts.users.sum() == before
    assert not listed(files["model"], tmp_path) & rated(today)
    capsys.readouterr()
    assert main(["evaluate", "--model", files["model"], "--test", more]) == 2
    assert "at least 4" in capsys.readouterr().err


def test_info_shows_the_threshold(
    capsys: pytest.CaptureFixture[str], files: dict[str, str]
) -> None:
    capsys.readouterr()
    assert main(["info", "--model", files["model"]]) == 0
    assert "at least      4" in capsys.readouterr().out
