"""A list of ids in one field, such as the history of MIND, is never silently one id."""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import DOORS, Door

from mfrank.cli.main import main
from mfrank.data import Interactions
from tests.support.errors import refuses

HISTORIES = ["N1 N2 N3", "N2 N4", "N1 N5 N6 N2", "N2"]
LISTS: dict[str, list[Any]] = {
    "as in MIND": HISTORIES,
    "with clicks": ["N1-0 N2-1 N3-0", "N2-1 N3-0", "N1-0 N2-1"],
    "numbers": ["12 45 78", "45 78", "12 9 45"],
    "of one length": ["1 2 3", "2 3 4", "3 1 4", "4 2 1"],
    "commas": ["N1,N2,N3", "N2,N4", "N1, N5, N6, N2"],
    "bars": ["n1|n2|n3", "n2|n4", "n1|n5|n2"],
    "genres": ["Action|Comedy", "Comedy|Drama", "Action|Comedy|Drama", "Drama"],
    "baskets of words": ["milk,bread", "bread,eggs,milk", "eggs,milk", "bread"],
    "lists that were printed": ["['a', 'b']", "['b', 'c', 'a']", "['c', 'b']"],
    "arrays that were printed": ["[1 2]", "[2 3 1]", "[1 3]"],
    "JSON": ['["a","b"]', '["b","a","c"]', '["a","c"]'],
    "hashes": ["b00x4 b01y7", "b01y7 c99z0 b00x4", "c99z0"],
}
WHOLE: dict[str, list[Any]] = {
    "Toy Story and others": ["Toy Story (1995)", "Toy Story 2 (1999)", "Se7en (1995)"],
    "articles at the end": ["Mask, The (1994)", "Crow, The (1994)", "Net, The (1995)", "Heat"],
    "people": ["anna smith", "bob smith", "anna jones", "mary anna lee"],
    "people, last name first": ["Smith, Anna", "Jones, Anna", "Smith, Bob", "Lee, Bob, Jr."],
    "postal codes": ["SW1A 1AA", "SW1A 2AA", "N1 1AA", "K1A 0B1"],
    "keys of two parts": ["12|34", "12|35", "13|34", "34|12"],
    "products": ["iPhone 12", "iPhone 13 Pro", "Galaxy S21", "Galaxy S21 Pro"],
    "artists": ["Blink 182", "2 Unlimited", "Queen", "Maroon 5", "5 Seconds of Summer"],
    "addresses": ["12 Main St, Rome, NY", "9 Elm St, Rome, NY", "1 Oak Rd, Troy, NY, USA"],
    "times": ["2019-10-01 12:00", "2019-10-01 13:00", "2019-10-02"],
    "one list among many": ["N1", "N2", "N3", "N1 N2", "N4"],
    "one id": ["N1 N2 N3"],
    "numbers in words": ["catch 22", "fahrenheit 451", "slaughterhouse 5", "22"],
}  # fmt: skip


def text(folder: Path, items: list[str]) -> Path:
    path = folder / "a.tsv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerows([("user", "item"), *enumerate(items)])
    return path


def read_text(door: Door, folder: Path, items: list[str]) -> Interactions:
    return door(text(folder, items), sep="\t")


def frame(items: list[Any]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"user": range(len(items)), "item": items})


def parquet(folder: Path, items: list[Any]) -> Path:
    pytest.importorskip("pyarrow")
    frame(items).to_parquet(folder / "a.parquet")
    return folder / "a.parquet"


def polars(items: list[Any]) -> Any:
    library = pytest.importorskip("polars")
    return library.DataFrame({"user": range(len(items)), "item": items})


def arrow(items: list[Any]) -> Any:
    library = pytest.importorskip("pyarrow")
    return library.table({"user": list(range(len(items))), "item": items})


OF_TEXT: dict[str, Callable[[Path, list[Any]], Any]] = {
    "arrays": lambda _, items: Interactions.from_arrays(range(len(items)), items),
    "users": lambda _, items: Interactions.from_arrays(items, range(len(items))),
    "ids of a matrix": lambda _, items: Interactions.from_sparse(
        Interactions.from_arrays([0], [0], shape=(1, len(items))).to_scipy(), item_ids=items
    ),
    "pandas": lambda _, items: Interactions.from_frame(frame(items)),
    "polars": lambda _, items: Interactions.from_frame(polars(items)),
    "arrow": lambda _, items: Interactions.from_frame(arrow(items)),
    "parquet": lambda at, items: Interactions.from_file(parquet(at, items)),
    "ingest of parquet": lambda at, items: Interactions.ingest([parquet(at, items)], at / "data"),
    **{f"text, {name}": partial(read_text, door) for name, door in DOORS.items()},
}


def told(act: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "mfrank"):
        act()
    return [message for message in caplog.messages if "look like lists" in message]


def told_of(items: list[Any], caplog: pytest.LogCaptureFixture) -> list[str]:
    return told(lambda: OF_TEXT["arrays"](Path(), items), caplog)


@pytest.mark.parametrize("door", OF_TEXT)
def test_every_door_tells_of_lists_and_says_nothing_of_titles(door, tmp_path, caplog) -> None:
    (message,) = told(lambda: OF_TEXT[door](tmp_path, HISTORIES), caplog)
    assert "explode" in message
    assert "'N1 N2 N3'" in message or "'N1 N5 N6 N2'" in message
    assert not told(lambda: OF_TEXT[door](tmp_path, WHOLE["Toy Story and others"]), caplog)


@pytest.mark.parametrize("kind", LISTS)
def test_lists_of_every_kind_are_told(kind: str, caplog) -> None:
    for items in (LISTS[kind], 50 * LISTS[kind]):
        assert len(told_of(items, caplog)) == 1


@pytest.mark.parametrize("kind", WHOLE)
def test_ids_with_blanks_and_marks_are_no_lists(kind: str, caplog) -> None:
    assert not told_of(WHOLE[kind], caplog)


def test_many_lists_are_told_as_few_are(caplog) -> None:
    rng = np.random.default_rng(0)
    items = [
        " ".join(f"N{n}" for n in rng.integers(0, 9_000, rng.integers(1, 40)))
        for _ in range(30_000)
    ]
    assert len(told_of(items, caplog)) == 1


PYTHON: dict[str, list[Any]] = {
    "lists": [["N1", "N2"], ["N2"], ["N1", "N3"]],
    "arrays": [np.array([1, 2]), np.array([2, 3]), np.array([3])],
    "sets": [{1, 2}, {2}, {3, 1}],
}
OF_OBJECTS = {"arrays": OF_TEXT["arrays"], "users": OF_TEXT["users"], "pandas": OF_TEXT["pandas"]}
OF_COLUMNS = {
    name: OF_TEXT[name] for name in ("polars", "arrow", "parquet", "ingest of parquet", "pandas")
}


@pytest.mark.parametrize(
    ("door", "kind"),
    [
        *((door, kind) for door in OF_OBJECTS for kind in PYTHON),
        *((door, "lists") for door in OF_COLUMNS),
    ],
)
def test_columns_of_lists_are_refused_with_the_remedy(door, kind, tmp_path) -> None:
    with refuses(TypeError, None, remedy="explode"):
        OF_TEXT[door](tmp_path, PYTHON[kind])


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_columns_of_lists_of_one_length_are_refused_alike(library) -> None:
    module, lists = pytest.importorskip(library), [["N1", "N2"], ["N3", "N1"]]
    if library == "polars":
        items = module.Series(lists, dtype=module.Array(module.String, 2))
        table = module.DataFrame({"user": [1, 2], "item": items})
    else:
        items = module.array(lists, module.list_(module.string(), 2))
        table = module.table({"user": [1, 2], "item": items})
    with refuses(TypeError, "items"):
        Interactions.from_frame(table)


@pytest.mark.parametrize("door", OF_OBJECTS)
def test_tuples_are_keys_or_lists(door, tmp_path, caplog) -> None:
    assert told(lambda: OF_TEXT[door](tmp_path, [("a", "b"), ("b",), ("b", "c", "a")]), caplog)
    assert not told(lambda: OF_TEXT[door](tmp_path, [("a", 1), ("a", 2), ("b", 1)]), caplog)


def test_the_command_line_tells_too(tmp_path, capsys) -> None:
    lines = [f"{row}\tU{row}\t11/11/2019\t{items}" for row, items in enumerate(HISTORIES)]
    (tmp_path / "behaviors.tsv").write_text("\n".join(lines))
    columns = ["--columns", "impression,user,day,item", "--no-timestamp", "--factors", "2"]
    for line in (["fit", "--model", str(tmp_path / "m"), "--iterations", "1", *columns],):
        assert main([*line[:1], str(tmp_path / "behaviors.tsv"), *line[1:]]) == 0
        assert "look like lists" in capsys.readouterr().err


def test_real_titles_and_names_are_no_lists(caplog) -> None:
    data = Path(os.environ.get("MFRANK_DATA", "../shared/data"))
    if not (data / "movietweetings" / "movies.dat").exists():
        pytest.skip("no real data: set MFRANK_DATA")
    with (data / "movietweetings" / "movies.dat").open(encoding="utf-8") as lines:
        movies = [line.split("::") for line in lines]
    titles = sorted({movie[1] for movie in movies})
    for name, column in (("ml-100k", 1), ("lastfm-2k", 1)):
        with (data / name / "items.csv").open(encoding="utf-8", newline="") as rows:
            names = sorted({row[column] for row in csv.reader(rows)})
        for some in (names, names[::100]):
            assert not told_of(some, caplog)
    for some in (titles, titles[::1000]):
        assert not told_of(some, caplog)
    genres = sorted({movie[2].strip() for movie in movies if movie[2].strip()})
    assert told_of(genres, caplog)
