"""Random tables in every dialect are the same interactions, in memory, by ingest, SQL and a URL."""

from __future__ import annotations

import bz2
import gzip
import http.server
import io
import json
import lzma
import shutil
import sqlite3
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.data import ingest

fsspec = pytest.importorskip("fsspec", reason="the extra remote is not installed")
pytest.importorskip("aiohttp", reason="the extra remote is not installed")

Rows = list[tuple[Any, Any, float, int]]
"""User, item, value, time."""


class Dialect(NamedTuple):
    """How a table is written, the name of its file, and what else reading it takes."""

    write: Callable[[Rows], bytes]
    name: str
    options: Mapping[str, Any] = MappingProxyType({})
    numbers_only: bool = False
    has_values: bool = True
    has_times: bool = True


def table(
    sep: str, header: str = "user{0}item{0}rating{0}timestamp", encoding: str = "utf-8"
) -> Any:
    def write(rows: Rows) -> bytes:
        lines = [header.format(sep)] if header else []
        lines += [sep.join([str(u), str(i), f"{v:g}", str(t)]) for u, i, v, t in rows]
        return ("\n".join(lines) + "\n").encode(encoding)

    return write


def quoted(rows: Rows) -> bytes:
    lines = ["user;item;rating;timestamp"]
    lines += [f'"{u}";"{i}";"{v:g}";"{t}"' for u, i, v, t in rows]
    return ("\r\n".join(lines) + "\r\n").encode()


def dates(rows: Rows) -> bytes:
    lines = ["user,item,rating,timestamp"]
    lines += [f"{u},{i},{v:g},{np.datetime64(t, 's')}" for u, i, v, t in rows]
    return "\n".join(lines).encode()


def commented(mark: str, sep: str) -> Any:
    return lambda rows: f"{mark} made by hand\n{mark} two lines\n".encode() + table(sep)(rows)


def records(rows: Rows) -> list[dict[str, Any]]:
    return [
        dict(zip(("user_id", "item_id", "stars", "timestamp"), row, strict=True)) for row in rows
    ]


def json_lines(rows: Rows) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in records(rows))


def packed(pack: Callable[[bytes], bytes], write: Any = table(",")) -> Any:  # noqa: B008
    return lambda rows: pack(write(rows))


def zipped(content: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ratings.csv", content)
    return made.getvalue()


def atomic(rows: Rows) -> bytes:
    return table("\t", "user_id:token{0}item_id:token{0}rating:float{0}timestamp:float")(rows)


def blocks(rows: Rows) -> bytes:
    lines = []
    for item in dict.fromkeys(row[1] for row in rows):
        lines.append(f"{item}:")
        lines += [
            f"{u},{v:g},{np.datetime64(t, 's').astype('datetime64[D]')}"
            for u, i, v, t in rows
            if i == item
        ]
    return ("\n".join(lines) + "\n").encode()


def lists(rows: Rows) -> bytes:
    lines = [
        " ".join([str(user), *(str(i) for u, i, *_ in rows if u == user)])
        for user in dict.fromkeys(row[0] for row in rows)
    ]
    return ("\n".join(lines) + "\n").encode()


def parquet(rows: Rows) -> bytes:
    import pandas

    made = io.BytesIO()
    pandas.DataFrame(rows, columns=["user", "item", "rating", "timestamp"]).to_parquet(made)
    return made.getvalue()


def feather(rows: Rows) -> bytes:
    import pandas

    made = io.BytesIO()
    pandas.DataFrame(rows, columns=["user", "item", "rating", "timestamp"]).to_feather(made)
    return made.getvalue()


def arrays(rows: Rows) -> bytes:
    users, items, values, times = zip(*rows, strict=True)
    made = io.BytesIO()
    np.savez(made, user=users, item=items, rating=values, timestamp=times)
    return made.getvalue()


DIALECTS = {
    "commas": Dialect(table(","), "r.csv"),
    "tabs": Dialect(table("\t"), "r.tsv"),
    "semicolons": Dialect(table(";"), "r.csv"),
    "bars": Dialect(table("|"), "r.txt"),
    "blanks": Dialect(table(" "), "r.txt"),
    "double colons": Dialect(table("::", ""), "r.dat", {"header": False}),
    "tabs without header": Dialect(table("\t", ""), "u.data", {"header": False}),
    "quoted, with returns": Dialect(quoted, "r.csv"),
    "dates": Dialect(dates, "r.csv"),
    "Excel's line": Dialect(lambda rows: b"sep=;\n" + table(";")(rows), "r.csv"),
    "comments of SNAP": Dialect(commented("#", "\t"), "r.txt"),
    "comments of KONECT": Dialect(commented("%", " "), "out.ratings"),
    "byte order mark": Dialect(table(",", encoding="utf-8-sig"), "r.csv"),
    "UTF-16": Dialect(table(",", encoding="utf-16"), "r.csv"),
    "UTF-16 without mark": Dialect(table(",", encoding="utf-16-le"), "r.csv"),
    "cp1252": Dialect(table(",", encoding="cp1252"), "r.csv", {"encoding": "cp1252"}),
    "gzip": Dialect(packed(gzip.compress), "r.csv.gz"),
    "bzip2": Dialect(packed(bz2.compress), "r.csv.bz2"),
    "xz": Dialect(packed(lzma.compress), "r.csv.xz"),
    "gzip without its suffix": Dialect(packed(gzip.compress), "r.csv"),
    "zip": Dialect(packed(zipped), "r.zip"),
    "JSON lines": Dialect(json_lines, "r.jsonl"),
    "JSON lines in gzip": Dialect(packed(gzip.compress, json_lines), "r.json.gz"),
    "array of JSON": Dialect(lambda rows: json.dumps(records(rows)).encode(), "r.json"),
    "dicts of Python": Dialect(
        lambda rows: "".join(f"{each}\n" for each in records(rows)).encode(), "r.json"
    ),
    "atomic files": Dialect(atomic, "r.inter"),
    "Parquet": Dialect(parquet, "r.parquet"),
    "Feather": Dialect(feather, "r.feather"),
    "arrays": Dialect(arrays, "r.npz"),
    "blocks": Dialect(blocks, "r.txt", numbers_only=True),
    "lists": Dialect(lists, "r.txt", {"lines": "lists"}, True, False, False),
}

NAMES = st.text("abcxyzéü", min_size=1, max_size=4)
DAY = 86_400


@st.composite
def drawn(draw: Any, *, text: bool) -> Rows:
    """Distinct cells of users and items, values in quarters, times at full days."""
    ids = NAMES if text else st.integers(1, 99_999)
    cells = draw(st.lists(st.tuples(ids, ids), min_size=2, max_size=12, unique=True))
    numbers = st.integers(1, 40).map(lambda n: n / 4)
    days = st.integers(12_000, 19_000).map(lambda day: day * DAY)
    return [(*cell, draw(numbers), draw(days)) for cell in cells]


def told(data: mfrank.Interactions, dialect: Dialect) -> set[tuple[Any, ...]]:
    users = data.user_ids.raw(data.entry_users).tolist()
    items = data.item_ids.raw(data.user_items.indices).tolist()
    columns = [users, items]
    if dialect.has_values:
        columns.append(data.user_items.data.tolist())
    if dialect.has_times:
        assert data.timestamps is not None
        columns.append(data.timestamps.tolist())
    return set(zip(*columns, strict=True))


def in_memory(path: Path, dialect: Dialect) -> mfrank.Interactions:
    return mfrank.Interactions.from_file(path, **dialect.options)


def by_ingest(path: Path, dialect: Dialect) -> mfrank.Interactions:
    folder = path.parent / "folder"
    return mfrank.Interactions.ingest([path], folder, **dialect.options)


def by_url(path: Path, dialect: Dialect) -> mfrank.Interactions:
    with fsspec.open(f"memory://dialects/{path.name}", "wb") as file:
        file.write(path.read_bytes())
    url = f"memory://dialects/{path.name}"
    return mfrank.Interactions.from_file(url, **dialect.options)


@cache
def server() -> tuple[str, dict[str, bytes]]:
    """The address of a server, and what it serves."""
    content: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            body = content[self.path[1:]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{made.server_port}", content


def over_http(path: Path, dialect: Dialect) -> mfrank.Interactions:
    address, content = server()
    content[path.name] = path.read_bytes()
    return mfrank.Interactions.from_file(f"{address}/{path.name}", **dialect.options)


DOORS = {"memory": in_memory, "ingest": by_ingest, "url": by_url, "http": over_http}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_a_table_is_read_as_it_was_drawn(name: str, door: str, text: bool, data: Any) -> None:
    dialect = DIALECTS[name]
    rows = data.draw(drawn(text=text and not dialect.numbers_only))
    width = 2 + dialect.has_values + dialect.has_times
    wanted = {row[:width] for row in rows}
    before = ingest._ROWS_AT_ONCE
    place = Path(tempfile.mkdtemp())
    ingest._ROWS_AT_ONCE = 3
    try:
        (place / dialect.name).write_bytes(dialect.write(rows))
        assert told(DOORS[door](place / dialect.name, dialect), dialect) == wanted
    finally:
        ingest._ROWS_AT_ONCE = before
        shutil.rmtree(place)


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_table_of_a_database_is_read_as_it_was_drawn(text: bool, data: Any) -> None:
    rows = data.draw(drawn(text=text))
    connection = sqlite3.connect(":memory:")
    connection.execute("create table plays (user, item, rating real, timestamp integer)")
    connection.executemany("insert into plays values (?, ?, ?, ?)", rows)
    found = mfrank.Interactions.from_sql("select * from plays", connection)
    assert told(found, DIALECTS["commas"]) == set(rows)
