"""A folder of many files is fitted as one file with all their rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.data import IngestPlan, write_table


def parts(folder: Path) -> list[str]:
    data = mfrank.synthetic(40, 30, 400, random_state=1)
    users, items = data.entry_users, data.user_items.indices
    paths = []
    for number in range(3):
        path = folder / f"plays-{number}.csv"
        write_table(path, {"user": users[number::3], "item": items[number::3]})
        paths.append(str(path))
    write_table(folder / "whole.csv", {"user": users, "item": items})
    return paths


def test_a_folder_is_fitted_as_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = parts(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["ingest", *files, "--folder", "plays"]) == 0
    assert "40 users x 30 items, 400 entries of 3 files" in capsys.readouterr().out
    few = ["--factors", "4", "--iterations", "2", "--random-state", "0", "--model"]
    assert main(["fit", "plays", *few, "from-folder"]) == 0
    assert main(["fit", "whole.csv", *few, "from-file"]) == 0
    models = [mfrank.load(name) for name in ("from-folder", "from-file")]
    assert len({model.item_factors.tobytes() for model in models}) == 1


def test_refusals_name_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", str(tmp_path / "none.csv"), "--folder", str(tmp_path / "x")]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert main(["ingest", *parts(tmp_path), "--folder", str(tmp_path)]) == 2
    assert "holds other files" in capsys.readouterr().err


def test_a_folder_of_the_other_kind_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = parts(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["ingest", *files, "--folder", "plays"]) == 0
    assert main(["recommend-all", "--model", "plays", "--folder", "lists"]) == 2
    assert "plays holds interactions and no model" in capsys.readouterr().err
    assert main(["fit", "plays", "--model", "m", "--factors", "2", "--iterations", "1"]) == 0
    assert main(["fit", "m", "--model", "other"]) == 2
    assert "m is a folder of no interactions" in capsys.readouterr().err


def test_a_dry_run_tells_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow", reason="writes parquet")
    files = parts(tmp_path)
    write_table(tmp_path / "more.parquet", {"user": range(1000), "item": range(1000)})
    write_table(tmp_path / "more.csv.gz", {"user": range(9000), "item": range(9000)})
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    command = ["ingest", *files, "more.parquet", "more.csv.gz", "--folder", "new/plays"]
    assert main([*command, "--dry-run"]) == 0
    first, memory, disk = capsys.readouterr().out.splitlines()
    assert first == "5 files, about 10,404 rows"  # four headers were counted, too
    assert memory.startswith("memory: about 200 MiB")
    assert f"up to {16 * 10404 / 2**20:.3g} MiB for the folder" in disk
    assert "which are too few" not in disk
    assert sorted(tmp_path.iterdir()) == before
    full = type(shutil.disk_usage("."))(10, 5, 5)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    assert main([*command, "--dry-run"]) == 0
    assert "which are too few: choose a folder on another disk" in capsys.readouterr().out
    assert main([*command, "--dry-run", "--user", "who"]) == 2
    assert "who" in capsys.readouterr().err


def test_the_estimate_of_a_large_file_is_near(tmp_path: Path) -> None:
    for name in ("plays.csv", "plays.csv.gz"):
        numbers = np.random.default_rng(0).integers(10**8, 10**9, 150_000)
        write_table(tmp_path / name, {"user": numbers, "item": numbers[::-1]})
        plan = IngestPlan.of([tmp_path / name], tmp_path / "x", {})
        assert plan.rows == pytest.approx(150_000, rel=0.1)


def test_a_dry_run_tells_that_a_folder_is_mapped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "plays")
    assert main(["ingest", *parts(tmp_path), "--folder", folder]) == 0
    for what, told in (
        (folder, "MiB of interactions are mapped from their folder"),
        (str(tmp_path / "whole.csv"), "MiB for interactions"),
    ):
        capsys.readouterr()
        assert main(["fit", what, "--model", str(tmp_path / "m"), "--dry-run"]) == 0
        assert told in capsys.readouterr().out


def test_events_count_their_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the column that is named, also where the cost is asked before."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("user,item,deed\n1,1,view\n1,2,buy\n2,1,buy\n2,2,view\n")
    line = ["ingest", "a.csv", "--folder", "events", "--event", "deed", "--weights", "view=1,buy=3"]
    assert main([*line, "--dry-run"]) == 0
    assert "event 'deed', whose weights are the values" in capsys.readouterr().err
    assert main(line) == 0
    opened = mfrank.Interactions.open("events")
    assert sorted(opened.user_items.data.tolist()) == [1, 1, 3, 3]
    less = [word.replace(",buy=3", "") for word in line]
    for more in ([], ["--dry-run"]):
        assert main([*less, *more]) == 2
        assert "a.csv: --weights has no weight for 'buy'" in capsys.readouterr().err
    wrong = [word.replace("deed", "nothing") for word in line]
    for more in ([], ["--dry-run"]):
        assert main([*wrong, *more]) == 2
        assert "nothing" in capsys.readouterr().err
