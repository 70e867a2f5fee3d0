"""Rows of a database: by any driver of DB-API 2, or by SQLAlchemy, in chunks.

The connection stays as it is: nothing is committed, rolled back or closed. No library is imported
unless a URL is given.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import needs
from mfrank.data.frame_chunks import Chunk
from mfrank.data.labels import objects
from mfrank.data.remote import password_in, without_password
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import path_of

_TABLE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){0,2}", re.ASCII)
_WRITES = re.compile(
    r"\s*(?:alter|create|delete|drop|grant|insert|merge|replace|truncate|update)\b", re.IGNORECASE
)
_ROWS_AT_ONCE = 1 << 16
_DATABASES = {
    "bigquery", "cockroachdb", "databricks", "duckdb", "mariadb", "mssql", "mysql", "oracle",
    "postgres", "postgresql", "redshift", "snowflake", "sqlite", "trino",
}  # fmt: skip


def is_database(url: str) -> bool:
    """Whether it is a URL of SQLAlchemy, such as ``postgresql+psycopg://host/shop``."""
    scheme, is_url, _ = str(url).partition("://")
    return bool(is_url) and scheme.lower().partition("+")[0] in _DATABASES


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A query of a database, which is run anew whenever its table is read.

    Attributes
    ----------
    url : str
        Of SQLAlchemy.
    query : str
        A SELECT, or the name of a table.
    """

    url: str
    query: str

    def __repr__(self) -> str:
        return f"{self.query!r} of {without_password(self.url)}"

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name; decimal numbers are floats.

        Raises
        ------
        ValueError
            Two columns have one name; or as :func:`rows_of_query`, like all other errors.
        """
        with closing(rows_of_query(self.query, self.url, None, _ROWS_AT_ONCE)) as chunks:
            names = [str(name) for name in next(chunks).names]  # of a chunk without rows
            repeated = next((name for name in names if names.count(name) > 1), None)
            if repeated is not None:
                raise InputValueError(
                    f"the query has two columns {repeated!r}:", "name one otherwise, by AS"
                )
            parts = [[chunk.values_of(name) for name in chunk.names] for chunk in chunks]
        return {name: _joined([part[at] for part in parts]) for at, name in enumerate(names)}


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    if parts and all(part.dtype.kind == "i" for part in parts):
        return np.concatenate(parts)
    every = (each for part in parts for each in part.tolist())
    return objects(float(each) if isinstance(each, Decimal) else each for each in every)


def rows_of_query(
    query: Any, connection: Any, params: Any, n_rows: int
) -> Generator[Chunk, None, None]:
    """Yield the rows of a query in chunks; see :meth:`mfrank.Interactions.from_sql`.

    Raises
    ------
    ValueError
        The query is empty or would write; or the database refuses it, whose message is kept.
    TypeError
        The connection is neither of DB-API 2 nor of SQLAlchemy.
    FileNotFoundError
        The URL is of a file of SQLite that is missing.
    ModuleNotFoundError
        The connection is a URL, and SQLAlchemy is not installed.
    """
    if isinstance(query, str):
        if not query.strip() or _WRITES.match(query):
            raise InputValueError(
                f"`query` must be a SELECT or the name of a table, got {query.strip()[:60]!r}"
            )
        query = f"SELECT * FROM {query.strip()}" if _TABLE.fullmatch(query.strip()) else query
    module = type(connection).__module__.partition(".")[0]
    if isinstance(connection, str) or module == "sqlalchemy":
        return _told_faults(_of_sqlalchemy(query, connection, params, n_rows), connection)
    if not (hasattr(connection, "cursor") and isinstance(query, str)):
        what = "connection" if isinstance(query, str) else "query"
        raise InputTypeError(
            f"`{what}` must be of DB-API 2, such as of sqlite3 or psycopg, or of SQLAlchemy, got "
            f"{type(query if what == 'query' else connection).__name__}"
        )
    return _told_faults(_of_driver(query, connection, module, params, n_rows), connection)


def _of_driver(
    query: str, connection: Any, module: str, params: Any, n_rows: int
) -> Generator[Chunk, None, None]:
    given = (query,) if params is None else (query, params)
    if module in ("duckdb", "_duckdb"):  # its cursors do not see this connection's tables
        connection.execute(*given)
        yield from _fetched(connection, n_rows)
        return
    how: dict[str, Any] = {}
    if module.startswith("psycopg"):  # on the server; it holds rows only within a transaction
        how = {"name": f"mfrank_{secrets.token_hex(8)}"}
        how |= {"withhold": True} if connection.autocommit else {}
    with closing(connection.cursor(**how)) as cursor:
        if module == "sqlite3":
            cursor.row_factory = None
        cursor.execute(*given)
        yield from _fetched(cursor, n_rows)


def _of_sqlalchemy(
    query: Any, connection: Any, params: Any, n_rows: int
) -> Generator[Chunk, None, None]:
    with _connected(connection) as (own, sqlalchemy):
        options = {"stream_results": True, "max_row_buffer": n_rows}
        if isinstance(query, str) and params is None:  # a colon is no parameter
            result = own.exec_driver_sql(
                query, execution_options={**options, "no_parameters": True}
            )
        else:
            statement = sqlalchemy.text(query) if isinstance(query, str) else query
            result = own.execute(statement, params or {}, execution_options=options)
        with closing(result):
            if not result.returns_rows:
                raise _nothing()
            yield from _chunks([*result.keys()], result.fetchmany, n_rows, [])


@contextmanager
def _connected(connection: Any) -> Iterator[tuple[Any, Any]]:
    """A connection of SQLAlchemy, and its module; one that is opened for this is closed again."""
    with needs("sql", "URLs of databases need SQLAlchemy"):
        import sqlalchemy
    if isinstance(connection, sqlalchemy.engine.Connection):
        yield connection, sqlalchemy
        return
    engine = connection
    if isinstance(connection, str | sqlalchemy.engine.URL):
        try:
            _check_there(sqlalchemy.engine.make_url(connection))
            engine = sqlalchemy.create_engine(connection)
        except sqlalchemy.exc.ArgumentError:
            raise InputValueError(
                "`connection` is no URL of SQLAlchemy,",
                "such as sqlite:///shop.db or postgresql+psycopg://user@host/shop",
            ) from None  # whose message may have a password
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{error}: install this driver, or name another, as in postgresql+psycopg://"
            ) from error
    if not isinstance(engine, sqlalchemy.engine.Engine):
        raise InputTypeError(
            "`connection` must be an engine or a connection of SQLAlchemy, got "
            f"{type(connection).__name__}"
        )
    try:
        with engine.connect() as own:
            yield own, sqlalchemy
    finally:
        if engine is not connection:
            engine.dispose()


def _check_there(url: Any) -> None:
    """Raise FileNotFoundError for a file of SQLite that is missing, which SQLite would make."""
    file = url.database
    if url.get_backend_name() != "sqlite" or file in (None, "", ":memory:") or "file:" in file:
        return
    if not path_of(file).exists():
        raise FileNotFoundError(f"there is no database {file}")


def _fetched(cursor: Any, n_rows: int) -> Generator[Chunk, None, None]:
    if cursor.description is None:
        first = _or_none(cursor, n_rows)  # a cursor of psycopg2 knows its columns only then
        if cursor.description is None:
            raise _nothing()
    else:
        first = cursor.fetchmany(n_rows)
    names = [column[0] for column in cursor.description]
    yield from _chunks(names, cursor.fetchmany, n_rows, first)


def _or_none(cursor: Any, n_rows: int) -> list[Any]:
    try:
        return list(cursor.fetchmany(n_rows))
    except Exception:  # of the driver: there is no result
        return []


def _nothing() -> InputValueError:
    return InputValueError("`query` returns no rows and no columns:", "pass a SELECT")


def _chunks(
    names: list[str], fetch: Callable[[int], Any], n_rows: int, rows: Sequence[Any]
) -> Generator[Chunk, None, None]:
    yield Chunk(names, lambda name: np.empty(0), 0)  # so that columns are checked without rows
    while rows or (rows := fetch(n_rows)):
        yield Chunk(names, _values_of(names, rows), len(rows))
        rows = ()


def _values_of(names: list[str], rows: Sequence[Any]) -> Callable[[Any], NDArray[Any]]:
    def values(name: Any) -> NDArray[Any]:
        at: Any = name if isinstance(rows[0], Mapping) else names.index(name)
        found = [row[at] for row in rows]
        if {*map(type, found)} == {int}:
            try:
                return np.array(found, np.int64)
            except OverflowError:
                pass
        return objects(bytes(one) if isinstance(one, memoryview) else one for one in found)

    return values


def _told_faults(
    chunks: Generator[Chunk, None, None], connection: Any
) -> Generator[Chunk, None, None]:
    """The chunks; errors of the database keep their text, without the password."""
    try:
        yield from chunks
    except Exception as error:
        if not {"Error", "SQLAlchemyError"} & {each.__name__ for each in type(error).__mro__}:
            raise
        text = str(getattr(error, "orig", None) or error).strip()
        password = password_in(str(connection)) if isinstance(connection, str) else ""
        is_secret = bool(password) and password in f"{error} {text}"
        told = text.replace(password, "***") if is_secret else text
        place = f"{without_password(connection)}: " if isinstance(connection, str) else ""
        raise InputValueError(
            f"{place}the database says about `query`: {told}", place="query"
        ) from (None if is_secret else error)
