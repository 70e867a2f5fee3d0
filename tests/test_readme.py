"""What README shows is run, in the order in which it is read."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from shop import pairs_of_a_shop

import mfrank
from mfrank.cli.dispatch import _parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
SMALLER = {"factors=128": "factors=8", "minutes=10": "trials=2, factors=4"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page reads, in which its blocks are run."""
    pairs = pairs_of_a_shop()
    lines = [f"{user},{item},{4 + len(item) % 2}" for user, item in pairs]
    today = ["alice,new-item,5", "new-user,item-3,4"]
    for name, rows in {"ratings.csv": lines, "today.csv": today}.items():
        (tmp_path / name).write_text("\n".join(["user,item,rating", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small() -> list[str]:
    """All blocks, made small."""
    blocks = []
    for block in BLOCKS:
        for large, smaller in SMALLER.items():
            block = block.replace(large, smaller)
        blocks.append(block)
    return blocks


@pytest.mark.parametrize("form", ["script", "notebook"])
def test_its_blocks_run_in_order_in_a_new_process(form: str) -> None:
    """One after the other, as a reader pastes them, without any extra."""
    blocks = small()
    if form == "script":
        code = "\n\n".join(blocks)
    else:  # each block is compiled when it is its turn
        code = f"for block in {blocks!r}:\n    exec(compile(block, 'cell', 'exec'), globals())"
    Path("page.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "page.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "NDCG@10" in done.stdout
    assert "Traceback" not in done.stderr
    assert all(Path(name).exists() for name in ("model", "best", "trials.json"))
    updated = mfrank.load("model")
    assert "bob" not in updated.user_ids
    assert "new-item" in updated.item_ids


def test_its_commands_are_understood() -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^(mfrank [^#\n]+)", "".join(blocks), re.MULTILINE)
    commands += re.findall(r"`(mfrank [\w-]+ [^`]+)`", README)
    assert len(commands) > 4
    for command in commands:
        _parser().parse_args(shlex.split(command)[1:])


def test_its_links_lead_somewhere() -> None:
    for link, heading in re.findall(r"\]\((?!https?:)([^)#\s]+)#?([^)]*)\)", README):
        assert (ROOT / link).exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", (ROOT / link).read_text(), re.MULTILINE)
            assert heading in {title.lower().replace(" ", "-") for title in titles}, link


def test_every_name_that_it_gives_is_there() -> None:
    for name in set(re.findall(r"mfrank\.([A-Za-z]\w*)", README)) - {"load"}:
        assert hasattr(mfrank, name), name
    for name in re.findall(r"`(?:ALS|Descent)\((\w+)\(", README):
        assert hasattr(mfrank, name), name
