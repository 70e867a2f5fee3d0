"""``recommend-all`` writes Python's lists; ``--dry-run`` tells what it takes and writes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main

pandas = pytest.importorskip("pandas", reason="reads the files with pandas")
pytest.importorskip("pyarrow", reason="writes parquet")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mfrank.ALS:
    monkeypatch.chdir(tmp_path)
    data = mfrank.synthetic(300, 40, 4000, names=True, random_state=2)
    fitted = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(data)
    fitted.save("model")
    return fitted


def test_lists_are_pythons(model: mfrank.ALS, capsys: pytest.CaptureFixture[str]) -> None:
    items = model.item_ids.labels
    Path("never.txt").write_text("\n".join(items[:5]))
    Path("only.txt").write_text("\n".join(items[:30]))
    command = ["recommend-all", "--model", "model", "--folder", "lists", "--n", "3"]
    command += ["--filter-items", "never.txt", "--items", "only.txt", "--n-threads", "1"]
    for _ in range(2):  # the second finds all files
        assert main(command) == 0
        assert "lists: lists of 300 users in 1 file" in capsys.readouterr().out
    found = pandas.read_parquet("lists")
    ids, scores = model.recommend(
        model.user_ids.labels, N=3, filter_items=items[:5], items=items[:30]
    )
    assert found["item"].tolist() == ids[~np.isnan(scores)].tolist()
    assert main([*command, "--include-seen"]) == 2
    assert "begun with filter_already_liked_items=True" in capsys.readouterr().err
    assert main(["recommend", "--model", "lists"]) == 2
    assert "lists does not hold 'mfrank.factors' but 'mfrank lists'" in capsys.readouterr().err


def test_worker_processes_write_the_same(model: mfrank.ALS) -> None:
    command = ["recommend-all", "--model", "model", "--format", "csv"]
    assert main([*command, "--folder", "here"]) == 0
    assert main([*command, "--folder", "there", "--cluster", "2"]) == 0
    part = "part-00000.csv"
    assert Path("here", part).read_bytes() == Path("there", part).read_bytes()


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_dry_run_tells_and_writes_nothing(
    model: mfrank.ALS, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    command = ["recommend-all", "--model", "model", "--folder", "lists", "--format", format]
    assert main([*command, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "300 users, lists of up to 10: about 3,000 rows" in told
    assert "lists: 1 file of 1 to write" in told
    assert "memory: about" in told
    assert not Path("lists").exists()
    assert main(command) == 0
    size = next(Path("lists").glob("part-*")).stat().st_size
    assert f"about {size / 2**20:,.3g} MiB on the disk" in told  # all users were tried
    assert main([*command, "--dry-run"]) == 0
    assert "0 files of 1 to write" in capsys.readouterr().out


@pytest.mark.usefixtures("model")
def test_refusals_name_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["recommend-all", "--folder", "lists", "--model"]
    assert main([*command, "nothing"]) == 2
    assert "there is no model nothing; make it with mfrank fit" in capsys.readouterr().err
    for flag in ("--items", "--filter-items"):
        assert main([*command, "model", flag, "none.txt"]) == 2
        told = capsys.readouterr().err
        assert f"error: {flag} takes a text file of ids" in told
        assert told.endswith("there is no file none.txt\n")
    assert main([*command, "model", "--dry-run", "--cluster", "here"]) == 2
    assert "--cluster must be" in capsys.readouterr().err
    Path("empty.txt").write_text("\n")
    assert main([*command, "model", "--items", "empty.txt"]) == 2
    assert "empty.txt has no ids" in capsys.readouterr().err
    assert main(["recommend-all", "--model", "model", "--folder", "model", "--dry-run"]) == 2
    assert "cannot write to model: it holds other files" in capsys.readouterr().err
    largest = max(Path("model").rglob("*.npy"), key=lambda file: file.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1] + b"\x7f")
    assert main([*command, "model"]) == 2
    assert "damaged" in capsys.readouterr().err
