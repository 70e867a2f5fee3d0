"""Rows of databases are read as tables in memory: by every driver, into memory and by ingest."""

from __future__ import annotations

import datetime
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from databases import postgres
from test_interaction_folder import same

import mfrank
from mfrank.cli.main import main
from mfrank.data import interactions, without_password
from tests.support.errors import refuses

sqlalchemy = pytest.importorskip("sqlalchemy", reason="the extra sql is not installed")
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

Connect = Callable[[], Any]
MADE = "CREATE TABLE plays (listener TEXT, song INTEGER, stars NUMERIC(4, 2), seen TIMESTAMP)"
ROWS = [
    (f"u{n % 7}", n % 5, n % 9 / 4 + 1, datetime.datetime(2024, 1, 1 + n % 28, n % 24))
    for n in range(60)
]
COLUMNS: dict[str, Any] = {
    "user": "listener",
    "item": "song",
    "value": "stars",
    "timestamp": "seen",
}
FRAME = pandas.DataFrame(ROWS, columns=["listener", "song", "stars", "seen"])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with tempfile.TemporaryDirectory() as folder, postgres_of(Path(folder)) as url:
        with psycopg.connect(_libpq(url)) as connection:
            connection.execute(MADE)
            connection.cursor().executemany("INSERT INTO plays VALUES (%s, %s, %s, %s)", ROWS)
        yield url


def postgres_of(folder: Path) -> Any:
    folder.chmod(0o755)
    return postgres(folder / "server")


def _libpq(url: str) -> str:
    return url.replace("+psycopg", "")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute(MADE)
        rows = [(*row[:3], row[3].isoformat(" ")) for row in ROWS]
        connection.executemany("INSERT INTO plays VALUES (?, ?, ?, ?)", rows)
    return tmp_path / "shop.db"


def _sqlite(shop: Path, server: Connect) -> Any:
    connection = sqlite3.connect(shop)
    connection.row_factory = lambda cursor, row: {"other": row}  # which is not ours
    return connection


def _duckdb(shop: Path, server: Connect) -> Any:
    connection = duckdb.connect()
    connection.execute(MADE.replace("TABLE", "TEMP TABLE"))  # that its cursors do not see
    connection.executemany("INSERT INTO plays VALUES (?, ?, ?, ?)", ROWS)
    return connection


def _psycopg(server: Connect, **how: Any) -> Any:
    import psycopg

    return psycopg.connect(_libpq(server()), **how)


CONNECTIONS: dict[str, Callable[[Path, Connect], Any]] = {
    "sqlite3": _sqlite,
    "duckdb": _duckdb,
    "psycopg": lambda shop, server: _psycopg(server),
    "psycopg that commits": lambda shop, server: _psycopg(server, autocommit=True),
    "an engine": lambda shop, server: sqlalchemy.create_engine(f"sqlite:///{shop}"),
    "a URL": lambda shop, server: f"sqlite:///{shop}",
    "a connection of SQLAlchemy": lambda shop, server: sqlalchemy.create_engine(server()).connect(),
    "a URL of PostgreSQL": lambda shop, server: server(),
}
QUERIES = [
    "plays",
    "SELECT * FROM plays -- 50%, :x",
    "WITH p AS (SELECT * FROM plays) SELECT * FROM p",
]


@pytest.fixture
def connected(request: pytest.FixtureRequest, shop: Path) -> Any:
    made = CONNECTIONS[request.param](shop, lambda: request.getfixturevalue("server"))
    yield made
    getattr(made, "close", lambda: None)()
    if hasattr(made, "engine"):
        made.engine.dispose()


@pytest.mark.parametrize("connected", CONNECTIONS, indirect=True)
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_what_its_rows_in_a_frame_are(
    connected: Any, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "ROWS_AT_ONCE", 7)
    for folder in (None, tmp_path / "plays"):
        got = mfrank.Interactions.from_sql(query, connected, **COLUMNS, folder=folder)
        same(got, mfrank.Interactions.from_frame(FRAME, **COLUMNS))
    if isinstance(connected, str) or hasattr(connected, "dialect"):
        few = mfrank.Interactions.from_sql(
            "SELECT * FROM plays WHERE listener = :who", connected, params={"who": "u1"}, **COLUMNS
        )
        assert few.user_ids.labels.tolist() == ["u1"]


@pytest.mark.parametrize("connected", ["sqlite3", "psycopg", "duckdb"], indirect=True)
def test_the_transaction_goes_on(connected: Any) -> None:
    if isinstance(connected, duckdb.DuckDBPyConnection):
        connected.begin()
    connected.execute("INSERT INTO plays VALUES ('new', 1, 1, '2024-01-01 00:00:00')")
    data = mfrank.Interactions.from_sql("plays", connected, **COLUMNS)
    assert "new" in data.user_ids.labels
    connected.rollback()
    data = mfrank.Interactions.from_sql("plays", connected, **COLUMNS)
    assert "new" not in data.user_ids.labels


TYPED: dict[str, tuple[str, list[Any]]] = {
    "numbers": ("SELECT 1 AS u", [1]),
    "decimals": ("SELECT 2::numeric(9, 2) AS u", [2]),
    "text": ("SELECT '007' AS u", ["007"]),
    "bytes": ("SELECT 'tea'::bytea AS u", ["tea"]),
    "ids of 128 bits": (
        "SELECT '12345678-1234-5678-1234-567812345678'::uuid AS u",
        ["12345678-1234-5678-1234-567812345678"],
    ),
}


@pytest.mark.parametrize("case", TYPED)
@pytest.mark.parametrize("in_folder", [False, True])
def test_types_of_postgres(server: str, case: str, in_folder: bool, tmp_path: Path) -> None:
    query, users = TYPED[case]
    query += ", 5 AS item, 1.25::numeric AS rating, '2024-01-31 12:00+02'::timestamptz AS time"
    folder = tmp_path / "x" if in_folder else None
    data = mfrank.Interactions.from_sql(query, server, user="u", folder=folder)
    assert data.user_ids.labels.tolist() == users
    assert data.user_items.data.tolist() == [1.25]
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [1706695200]


A_PAIR = "1 AS user, 1 AS item"
REFUSED: dict[str, tuple[str, str | None, str]] = {
    "nothing": (" ", "query", "SELECT"),
    "what writes": ("DELETE FROM plays", "query", "SELECT"),
    "a table that is not there": ("nix", "query", "no such table: nix"),
    "an error of its syntax": ("SELEC 1", "query", "syntax error"),
    "no rows": (f"SELECT {A_PAIR} WHERE 1 = 2", "query", "no rows"),
    "a missing user": ("SELECT NULL AS user, 1 AS item", "users", "missing"),
    "a missing value": (f"SELECT {A_PAIR}, NULL AS rating", None, "nan"),
    "a value that is text": (f"SELECT {A_PAIR}, 'x' AS rating", "values", "'x'"),
    "no such column": ("SELECT 1 AS a, 1 AS item", "user", "looks like the user"),
    "names that are there twice": (f"SELECT {A_PAIR}, 2 AS user", "user", "several"),
    "dates beside numbers": (
        f"SELECT {A_PAIR}, 5 AS time UNION ALL SELECT 1, 2, '2024-01-31'",
        "timestamps",
        "in row 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("in_folder", [False, True])
def test_what_cannot_be_read_is_said(
    shop: Path, case: str, in_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "ROWS_AT_ONCE", 1)
    query, argument, text = REFUSED[case]
    folder = tmp_path / "made" / "x" if in_folder else None
    with closing(sqlite3.connect(shop)) as connection:
        with refuses(ValueError, argument, remedy="" if argument else "drop") as raised:
            mfrank.Interactions.from_sql(query, connection, folder=folder)
        assert text in str(raised.value)
    assert not folder or not folder.parent.exists() or not list(folder.parent.iterdir())


def test_other_connections_are_refused(tmp_path: Path) -> None:
    for other in (7, sqlalchemy.text("SELECT 1"), tmp_path):
        with refuses(TypeError, "connection"):
            mfrank.Interactions.from_sql("SELECT 1", other)
    with closing(sqlite3.connect(":memory:")) as connection:
        with refuses(TypeError, "query"):
            mfrank.Interactions.from_sql(sqlalchemy.text("SELECT 1"), connection)
        with refuses(ValueError, "user_ids"):
            mfrank.Interactions.from_sql("x", connection, user_ids=[1], folder=tmp_path / "x")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://bob:s3cret@localhost:1/x",
        "nix://bob:s3cret@h/x",
        "postgresql:/bob:s3cret@h",
        "postgresql+psycopg://localhost:1/x?user=bob&password=s3cret",
    ],
)
def test_passwords_are_not_told(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=r"connection|database") as raised:
        mfrank.Interactions.from_sql("plays", url)
    chain: BaseException | None = raised.value
    while chain is not None:
        assert "s3cret" not in str(chain)
        chain = chain.__cause__
    assert main(["fit", url, "--query", "plays", "--model", str(tmp_path / "m")]) == 2
    assert "s3cret" not in capsys.readouterr().err
    assert without_password("sqlite:///a.db") == "sqlite:///a.db"


def test_commands_read_queries(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("plays.csv", index=False)
    columns = ["--user", "listener", "--item", "song", "--value", "stars", "--timestamp", "seen"]
    database, query = "sqlite:///shop.db", ["--query", "SELECT * FROM plays", *columns]
    few = ["--factors", "2", "--iterations", "1"]
    for line in (
        ["info", database],
        ["fit", database, "--model", "m", *few],
        ["evaluate", "--model", "m", "--test", database, "--include-seen"],
        ["update", database, "--model", "m"],
        ["tune", database, "--model", "t", "--trials", "1", "--factors", "2"],
        ["ingest", database, "--folder", "i"],
    ):
        assert main([*line, *query]) == 0, capsys.readouterr().err
    same(mfrank.Interactions.open("i"), mfrank.Interactions.from_frame(FRAME, **COLUMNS))
    capsys.readouterr()
    for line, text in (
        (["info", database], "--query is missing"),
        (["info", "plays.csv", "--query", "plays"], "must be its URL"),
        (["info", database, "--test", database, *query], "twice"),
        (["ingest", database, "plays.csv", "--folder", "j", *query], "by itself"),
        (["info", database, "--query", "nix"], "no such table: nix"),
    ):
        assert main(line) == 2
        assert text in capsys.readouterr().err


def test_types_of_ids_do_not_depend_on_chunks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SQLite has types of fields, not of columns."""
    users = [1, "a", 2**60, "1", uuid.UUID(int=5).bytes.hex()]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE plays (user, item)")
        connection.executemany("INSERT INTO plays VALUES (?, 1)", [(user,) for user in users])
        frame = pandas.DataFrame({"user": np.array(users, object), "item": 1})
        for at_once in (1, 2, 9):
            monkeypatch.setattr(interactions, "ROWS_AT_ONCE", at_once)
            got = mfrank.Interactions.from_sql("plays", connection)
            same(got, mfrank.Interactions.from_frame(frame))
            with refuses(ValueError, "user", remedy="make text"):
                mfrank.Interactions.from_sql("plays", connection, folder=tmp_path / "x")


def test_a_missing_file_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'none.db'}"
    with pytest.raises(FileNotFoundError, match="there is no database"):
        mfrank.Interactions.from_sql("plays", url)
    assert main(["info", url, "--query", "plays"]) == 2
    assert "there is no database" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
