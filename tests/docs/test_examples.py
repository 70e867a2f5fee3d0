"""The programs in docs/examples run as they stand, on small files."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import mfrank

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("the examples are not beside the tests", allow_module_level=True)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """A file as in MovieLens 100K: user, item, rating, time."""
    data = mfrank.synthetic(80, 40, 1600, random_state=0)
    frame = zip(data.entry_users, data.user_items.indices, np.asarray(data.timestamps), strict=True)
    lines = [f"{user + 1}\t{item + 1}\t{4 + item % 2}\t{time}" for user, item, time in frame]
    path = tmp_path / "u.data"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    data = mfrank.synthetic(60, 40, 900, random_state=0)
    days = np.asarray(data.timestamps).astype("datetime64[s]")
    entries = zip(data.entry_users, data.user_items.indices, days, strict=True)
    lines = ["customer,product,time", *(f"c{user},p{item},{day}" for user, item, day in entries)]
    path = tmp_path / "orders.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def judged(tmp_path: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    paths = []
    for name in ("train.txt", "test.txt"):
        features = rng.normal(size=(200, 4)).round(3)
        grades = np.clip(np.round(features[:, 0]), 0, 2).astype(int)
        lines = [
            f"{grade} qid:{row // 10} " + " ".join(f"{n + 1}:{x}" for n, x in enumerate(values))
            for row, (grade, values) in enumerate(zip(grades, features, strict=True))
        ]
        paths.append(tmp_path / name)
        paths[-1].write_text("\n".join(lines) + "\n")
    return paths


def run(name: str, *arguments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(arguments[0].parent)
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / name))


def test_a_shop_lists_only_what_is_in_stock(
    orders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("shop.py", orders, monkeypatch=monkeypatch)
    told = capsys.readouterr().out
    assert "basket [{'id': 'p" in told
    data = mfrank.Interactions.from_file(
        orders, user="customer", item="product", timestamp="time", value=False
    )
    stock = set(data.item_ids.raw(range(0, data.n_items, 2)))
    listed = [re.findall(r"'id': '(\w+)'", line) for line in told.splitlines() if "'id'" in line]
    assert [len(ids) for ids in listed] == [5, 5]
    assert all(set(ids) <= stock for ids in listed)


def test_documents_are_ordered_better_than_by_chance(
    judged: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("documents.py", *judged, monkeypatch=monkeypatch)
    rows = [line for line in capsys.readouterr().out.splitlines() if "standard error" in line]
    assert len(rows) == 4
    assert all(float(row.split()[1].strip(",")) > 0.8 for row in rows)


def test_the_table_has_a_row_for_each_objective(
    ratings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("paper_table.py", ratings, monkeypatch=monkeypatch)
    header, rule, *rows = capsys.readouterr().out.splitlines()
    assert header.count("|") == rule.count("|") == 5
    assert [row.split()[1] for row in rows] == ["Popularity", "WRMF", "IALS", "RG2", "RGX"]
