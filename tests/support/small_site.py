"""A small site: two models of a shop whose names have all that HTML quotes, and its client."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import clients
import numpy as np
import pytest

import mfrank

pytest.importorskip("jinja2", reason="needs Jinja2: pip install mfrank[pages]")

__all__ = [
    "MARKUP",
    "client",
    "data",
    "data_file",
    "ids",
    "items_file",
    "models",
    "pair",
    "popular",
    "shown",
]

MARKUP = "<script>alert('x')</script> & \"Björk\""
KINDS = ("Tea", "Coffee|Tea", "Pie")


@cache
def data() -> mfrank.Interactions:
    """What users have: of the models and held out; the values are ratings."""
    drawn = mfrank.synthetic(40, 60, 900, names=True, random_state=1)
    ratings = 1 + np.arange(drawn.nnz) % 5
    return mfrank.Interactions.from_arrays(
        drawn.user_ids.labels[drawn.entry_users],
        drawn.item_ids.labels[drawn.user_items.indices],
        ratings,
    )


@cache
def models() -> dict[str, Any]:
    """Two models of the same part of the data."""
    train = mfrank.by_ratio(data(), train=0.7, valid=0.0, test=0.3, random_state=0).train
    als = mfrank.ALS(mfrank.IALS(), factors=6, iterations=3, random_state=0, track_objective=True)
    return {"als": als.fit(train), "knn": mfrank.ItemKNN().fit(train)}


@cache
def pair() -> dict[str, Any]:
    """Two models with factors of the same users and items, which can be blended."""
    als = models()["als"]
    train = als.seen.matrix.astype(np.float64)
    train = mfrank.Interactions(train, als.user_ids, als.item_ids)
    other = mfrank.ALS(mfrank.WRMF(), factors=3, iterations=2, random_state=1)
    return {"als": als, "wrmf": other.fit(train)}


def items_file(folder: Path) -> Path:
    """Names of the items; the first is hostile, the last is missing."""
    path = folder / "items.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["item", "title", "year", "kinds"])
        for row, item in enumerate(data().item_ids.labels[:-1].tolist()):
            name = MARKUP if row == 0 else f"Number {row} ({1950 + row})"
            lines.writerow([item, name, 1950 + row, KINDS[row % 3]])
    return path


def data_file(folder: Path) -> Path:
    """The interactions, which also have what is held out, and a user whom no model knows."""
    users, items = data().user_ids.labels, data().item_ids.labels
    own = data().user_items.tocoo()
    lines = ["user,item,rating"]
    lines += [f"{users[u]},{items[i]},{v}" for u, i, v in zip(*own.coords, own.data, strict=True)]
    path = folder / "ratings.csv"
    path.write_text("\n".join([*lines, "stranger,unknown,1"]))
    return path


def client(folder: Path, **more: Any) -> Any:
    """A client of the site."""
    from starlette.testclient import TestClient

    from mfrank import pages

    given = {"models": models(), "data": data(), "items": items_file(folder), **more}
    return TestClient(pages.app(**given), raise_server_exceptions=False)


def popular() -> list[Any]:
    """The items by their number of users in the fit."""
    order = np.argsort(-models()["als"].store.counts.items, kind="stable")
    return [data().item_ids.labels[row] for row in order]


def shown(site: Any, path: str, **asked: Any) -> dict[str, Any]:
    """What a page says, from its JSON."""
    answer = site.get(path, params={**asked, "format": "json"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def ids(listed: list[dict[str, Any]]) -> list[Any]:
    """The ids of items or users as pages show them."""
    return [each["id"] for each in listed]


assert clients  # skips without FastAPI and httpx2
