"""What README shows is run, in the order in which it is read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from shop import pairs_of_a_shop

import mfrank
from mfrank import backends

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = [
    (title, code)
    for title, text in re.findall(r"^## ([^\n]+)\n((?:(?!^## ).*\n?)*)", README, re.MULTILINE)
    for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
]
SMALLER = {
    "factors=128": "factors=8",
    "factors=64": "factors=8",
    'factors=256, backend="cuda"': 'factors=8, backend="reference"',
    "minutes=10": "trials=2, factors=4",
}
NEEDS = "pyarrow", "matplotlib", "implicit"  # the extras parquet, plot and compare


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module in which the blocks are run, in a folder with the file that they read."""
    pairs = pairs_of_a_shop()
    lines = ["user,item,rating", *(f"{user},{item},{4 + len(item) % 2}" for user, item in pairs)]
    (tmp_path / "ratings.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    module = ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    return module


def in_order(folder: Path) -> list[str]:
    """All blocks, made small; those that begin with the name of a file are saved as that file."""
    blocks = []
    for _, code in BLOCKS:
        for large, small in SMALLER.items():
            code = code.replace(large, small)
        if named := re.match(r"# (\w+\.py)", code):
            (folder / named[1]).write_text(code)
        else:
            blocks.append(code)
    return blocks


@pytest.mark.parametrize("form", ["script", "notebook"])
def test_its_blocks_run_in_order_in_a_new_process(page: ModuleType, form: str) -> None:
    """One after the other, as a reader pastes them: with what the extras bring, and no more."""
    for package in NEEDS:
        pytest.importorskip(package, reason=f"the page shows what {package} serves for")
    blocks = in_order(Path())
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
    written = ("model", "mine", "lists", "trials.json", "epochs.png")
    assert all(Path(name).exists() for name in written)


def test_its_cluster_gives_the_same_model(page: ModuleType) -> None:
    data = mfrank.synthetic(40, 30, 300, random_state=0)
    vars(page).update(mfrank=mfrank, data=data)
    title = "More than one process"
    exec(compile(dict(BLOCKS)[title], title, "exec"), vars(page))
    alone = mfrank.ALS(factors=64, random_state=0).fit(data)
    np.testing.assert_array_equal(vars(page)["model"].item_factors, alone.item_factors)


def test_the_gpu_is_asked_for_by_name(page: ModuleType) -> None:
    if backends.named("cuda").why_unavailable() is None:
        pytest.skip("there is a GPU here")
    with pytest.raises(ValueError, match="backend 'cuda' cannot run here"):
        exec(compile(dict(BLOCKS)["On a GPU"], "On a GPU", "exec"), {"mfrank": mfrank})


def test_every_name_that_it_gives_is_there() -> None:
    for name in set(re.findall(r"mfrank\.([A-Za-z]\w*)", README)) - {"load"}:
        assert hasattr(mfrank, name), name
    for name in re.findall(r"`(?:ALS|Descent)\((\w+)\(", README):
        assert hasattr(mfrank, name), name
