"""Tables of items by every door: a path, a URL, a frame, a function, a query; and read anew."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from errors import refuses
from starlette.testclient import TestClient

import mfrank
from mfrank import serving
from mfrank.data import Ids, TableQuery, sql
from mfrank.serving import item_source
from mfrank.serving.catalogue import Catalogue

ROWS = [(f"i{n}", f"Title {n}", 1980 + n, 1.5 * n, n == 3) for n in range(9)]
NAMES = ["item_id", "title", "year", "price", "hidden"]
FRAME = pd.DataFrame(ROWS, columns=NAMES)
DOORS = ["path", "file URL", "memory URL", "frame", "function", "table", "query"]


@pytest.fixture(scope="module")
def model() -> mfrank.ALS:
    rng = np.random.default_rng(0)
    users, items = rng.integers(20, size=300), rng.integers(9, size=300)
    data = mfrank.Interactions.from_arrays([f"u{n}" for n in users], [f"i{n}" for n in items])
    return mfrank.ALS(factors=4, iterations=1, random_state=0).fit(data)


def write(folder: Path, rows: list[tuple[Any, ...]]) -> str:
    """The table in a database of SQLite, and its URL."""
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.execute("DROP TABLE IF EXISTS products")
        connection.execute("CREATE TABLE products (item_id, title, year, price, hidden)")
        connection.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()
    return f"sqlite:///{folder / 'shop.db'}"


def at(door: str, folder: Path) -> dict[str, Any]:
    """The arguments of a service for the same table."""
    FRAME.to_csv(folder / "items.csv", index=False)
    if door in ("table", "query"):
        pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy: pip install mfrank[sql]")
        select = "SELECT item_id, title, year, price, hidden FROM products WHERE item_id <> ':x'"
        url = write(folder, ROWS)
        return {"items": url, "items_query": "products" if door == "table" else select}
    if door == "memory URL":
        fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install mfrank[remote]")
        with fsspec.open("memory://shop/items.csv", "w") as file:
            file.write((folder / "items.csv").read_text())
    given = {
        "path": folder / "items.csv",
        "file URL": (folder / "items.csv").as_uri(),
        "memory URL": "memory://shop/items.csv",
        "frame": FRAME,
        "function": lambda: FRAME,
    }
    return {"items": given[door]}


def titles(client: TestClient, where: str) -> dict[str, str]:
    url = f"/recommend/u1?include_seen=true&fields=title&where={where}"
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return {each["id"]: each["fields"]["title"] for each in answer.json()["items"]}


def refresh_as_after_a_minute(catalogue: Catalogue, item_ids: Ids, *, forced: bool = False) -> None:
    """And wait for the thread that reads; ``forced`` as by a signal, less than a minute later."""
    if not forced:
        catalogue.source._again = 0.0
    catalogue.refresh(item_ids, forced=forced)
    with catalogue.source._reading:
        catalogue.refresh(item_ids)


@pytest.mark.parametrize("door", DOORS)
def test_a_table_is_the_same_by_every_door(model: mfrank.ALS, tmp_path: Path, door: str) -> None:
    client = TestClient(serving.app(model, **at(door, tmp_path)))
    assert titles(client, "year>=1982") == {f"i{n}": f"Title {n}" for n in (2, 4, 5, 6, 7, 8)}
    assert titles(client, "price<=4.5") == {f"i{n}": f"Title {n}" for n in (0, 1, 2)}


def test_a_changed_database_is_read_after_a_while_and_a_broken_one_is_not(
    model: mfrank.ALS, tmp_path: Path
) -> None:
    application = serving.app(model, **at("table", tmp_path))
    client, catalogue = TestClient(application), application.state.live.catalogue
    write(tmp_path, [("i1", "New", 1990, 1, 0)])
    catalogue.refresh(model.item_ids)  # less than a minute later
    assert len(titles(client, "year>=1980")) == 8
    refresh_as_after_a_minute(catalogue, model.item_ids, forced=True)
    assert titles(client, "year>=1980") == {"i1": "New"}
    write(tmp_path, ROWS)
    refresh_as_after_a_minute(catalogue, model.item_ids)
    assert len(titles(client, "year>=1980")) == 8
    (tmp_path / "shop.db").unlink()
    refresh_as_after_a_minute(catalogue, model.item_ids)
    assert len(titles(client, "year>=1980")) == 8
    about = client.get("/health").json()["catalogue"]
    assert about["failed_reloads"] == 1
    assert "no database" in about["reload_error"]


def test_a_url_that_could_not_be_read_is_tried_again(
    model: mfrank.ALS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if nothing has changed there."""
    application = serving.app(model, **at("memory URL", tmp_path))
    catalogue = application.state.live.catalogue
    with monkeypatch.context() as lost:
        lost.setattr(item_source, "_read", lambda *_: (_ for _ in ()).throw(OSError("lost")))
        refresh_as_after_a_minute(catalogue, model.item_ids, forced=True)
        assert catalogue.source.error == "OSError: lost"
    refresh_as_after_a_minute(catalogue, model.item_ids)
    assert catalogue.source.error is None


@pytest.mark.parametrize("forced", [False, True])
def test_a_slow_table_delays_no_newer_model(
    model: mfrank.ALS, tmp_path: Path, forced: bool
) -> None:
    tables, answers = iter([FRAME]), threading.Event()

    def slow() -> pd.DataFrame:
        for first in tables:
            return first
        assert answers.wait(60)
        return FRAME.assign(title="New")

    model.save(tmp_path / "model")
    application = serving.app(tmp_path / "model", items=slow)
    live, client = application.state.live, TestClient(application)
    if not forced:
        live.catalogue.source._again = 0.0
    live.refresh(forced=forced)  # begins to wait for the table
    model.save(tmp_path / "model", overwrite=True)
    live.refresh()
    assert live.loads == 1 + forced
    assert titles(client, "year=1984") == {"i4": "Title 4"}
    answers.set()
    refresh_as_after_a_minute(live.catalogue, live.current.item_ids)
    assert titles(client, "year=1984") == {"i4": "New"}


def test_a_frame_is_read_once(model: mfrank.ALS) -> None:
    catalogue = serving.app(model, items=FRAME).state.live.catalogue
    catalogue.refresh(model.item_ids, forced=True)
    assert catalogue.source.loads == 0


def test_models_of_a_service_share_what_was_read(model: mfrank.ALS) -> None:
    calls = []
    tables = [FRAME, FRAME.assign(title="New")]

    def items() -> pd.DataFrame:
        calls.append(0)
        return tables[len(calls) > 1]

    application = serving.app({"a": model, "b": model}, split={"a": 0.5, "b": 0.5}, items=items)
    assert len(calls) == 1
    first, second = (arm.live.catalogue for arm in application.state.arms)
    refresh_as_after_a_minute(first, model.item_ids, forced=True)
    second.refresh(model.item_ids)  # takes up what the other has read
    assert len(calls) == 2
    for name in "ab":
        answer = TestClient(application).get(f"/recommend/u1?model={name}&fields=title&n=1")
        assert answer.json()["items"][0]["fields"] == {"title": "New"}


@pytest.mark.parametrize(
    ("given", "argument", "remedy"),
    [
        ({"items": "sqlite:///shop.db"}, "items", "items_query"),
        ({"items": "items.csv", "items_query": "x"}, "items_query", "omit it"),
        ({"items_query": "x"}, "items_query", "URL of a database"),
        ({"items": lambda: 3}, "items", "DataFrame"),
        ({"items": 3}, "items", "DataFrame"),
    ],
)
def test_what_is_no_table_is_refused(
    model: mfrank.ALS, given: dict[str, Any], argument: str, remedy: str
) -> None:
    with refuses((ValueError, TypeError), argument, remedy=remedy):
        serving.app(model, **given)


def test_a_password_is_told_nowhere(model: mfrank.ALS) -> None:
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/shop"
    with pytest.raises(ValueError, match="items_query") as told:
        serving.app(model, items=url)
    assert "secret" not in str(told.value)
    assert "secret" not in repr(TableQuery(url, "products"))


def test_numbers_and_dates_of_databases_are_numbers_and_dates(
    model: mfrank.ALS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers give Decimal, date and datetime."""
    names = ["item", "price", "day", "at"]
    rows = [
        (f"i{n}", Decimal(f"{n}.25"), date(2024, 1, n + 1), datetime(2024, 1, n + 1, 12))
        for n in range(9)
    ]
    as_of_a_driver = lambda *_: sql._chunks(names, lambda n: [], 9, rows)  # noqa: E731
    monkeypatch.setattr(sql, "rows_of_query", as_of_a_driver)
    application = serving.app(model, items="sqlite://", items_query="products")
    for where in ("price<=2.25", "day<=2024-01-03", "at<2024-01-03T13:00"):
        answer = TestClient(application).get(f"/recommend/u1?include_seen=true&where={where}")
        assert answer.status_code == 200, answer.text
        assert {each["id"] for each in answer.json()["items"]} == {"i0", "i1", "i2"}
