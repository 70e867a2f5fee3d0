"""A folder of many files is fitted as one file with all their rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.data.table_files import write_table


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
