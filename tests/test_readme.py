"""What README shows is run, in the order in which it is read."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from shop import pairs_of_a_shop

import mfrank
from mfrank import backends

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = dict(
    re.findall(
        r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL
    )
)


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


def test_the_page_is_short() -> None:
    assert len(README.splitlines()) <= 230


@pytest.mark.parametrize("last", ["A loss of your own", "Evaluate"])
def test_its_python_runs(page: ModuleType, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    if last == "Evaluate":
        pytest.importorskip("implicit", reason="compare shows its models too")
    for title in ("A first model", "Recommend, filter, explain, save", last):
        code = BLOCKS[title].replace("factors=128", "factors=8").replace("factors=64", "factors=8")
        exec(compile(code, title, "exec"), vars(page))
    assert "NDCG@10" in capsys.readouterr().out
    if last == "A loss of your own":
        loaded = mfrank.load("mine")
        assert isinstance(loaded, mfrank.Descent)
        assert loaded.loss == vars(page)["Hinge"](margin=1.0)


def test_its_search_saves_a_model(page: ModuleType) -> None:
    data = mfrank.synthetic(40, 30, 300, random_state=0)
    vars(page).update(mfrank=mfrank, data=data)
    title = "The best model, by one call"
    code = BLOCKS[title].replace("minutes=10", "trials=2, factors=4")
    exec(compile(code, title, "exec"), vars(page))
    assert mfrank.load("model").store.n_users == 40
    assert Path("trials.json").exists()


def test_its_cluster_gives_the_same_model(page: ModuleType) -> None:
    data = mfrank.synthetic(40, 30, 300, random_state=0)
    vars(page).update(mfrank=mfrank, data=data)
    exec(compile(BLOCKS["More than one process"], "More than one process", "exec"), vars(page))
    alone = mfrank.ALS(factors=64, random_state=0).fit(data)
    np.testing.assert_array_equal(vars(page)["model"].item_factors, alone.item_factors)


def test_the_gpu_is_asked_for_by_name(page: ModuleType) -> None:
    if backends.named("cuda").why_unavailable() is None:
        pytest.skip("there is a GPU here")
    with pytest.raises(ValueError, match="backend 'cuda' cannot run here"):
        exec(compile(BLOCKS["On a GPU"], "On a GPU", "exec"), {"mfrank": mfrank})


def test_every_name_that_it_gives_is_there() -> None:
    for name in set(re.findall(r"mfrank\.([A-Za-z]\w*)", README)) - {"load"}:
        assert hasattr(mfrank, name), name
    for name in re.findall(r"`(?:ALS|Descent)\((\w+)\(", README):
        assert hasattr(mfrank, name), name
