"""What is no path is refused with the remedy, and the argument named, by whatever reads one."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mfrank
from tests.support.errors import refuses

DATA = mfrank.synthetic(20, 10, 80, random_state=0)
MODEL = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(DATA)

READERS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "open": ("folder", mfrank.Interactions.open),
    "from_file": ("path", mfrank.Interactions.from_file),
    "events": ("path", lambda given: mfrank.Events.from_file(given, event="value")),
    "movielens": ("path", mfrank.movielens),
    "svmlight": ("path", mfrank.Judged.from_svmlight),
    "load": ("folder", mfrank.load),
    "factors": ("folder", mfrank.FactorStore.load),
    "ranker": ("folder", mfrank.LinearRanker.load),
    "from_parquet": ("folder", mfrank.from_parquet),
    "from_safetensors": ("path", mfrank.from_safetensors),
    "from_implicit": ("path", mfrank.from_implicit),
    "versions": ("folder", mfrank.n_versions),
    "roll_back": ("folder", mfrank.roll_back),
    "to_folder": ("folder", DATA.to_folder),
    "save": ("folder", MODEL.save),
    "checkpoint": (
        "checkpoint",
        lambda given: mfrank.ALS(factors=2, iterations=1).fit(DATA, checkpoint=given),
    ),
    "storage": ("storage", lambda given: mfrank.tune(DATA, trials=1, factors=2, storage=given)),
}
TAKE_FILES = ("load", "factors", "save")
OPTIONAL = ("checkpoint", "storage")


def opened(folder: Path) -> Any:
    (folder / "a.csv").write_text("user,item\n1,2\n")
    return (folder / "a.csv").open()


def reader_named(name: str) -> tuple[str, Callable[[Any], object]]:
    """A reader and its argument, where the package that it reads with is installed."""
    if package := {"from_parquet": "pyarrow", "from_safetensors": "safetensors"}.get(name):
        pytest.importorskip(package, reason=f"mfrank.{name} needs it")
    return READERS[name]


def a_table(_: Path) -> Any:
    pandas = pytest.importorskip("pandas", reason="the table is one of pandas")
    return pandas.DataFrame({"user": [1], "item": [2]})


THINGS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "an open file": (opened, 'pass its path, .*a.csv|"rb" to load it'),
    "a file in memory": (lambda _: io.StringIO("user,item\n1,2\n"), "file|rb"),
    "bytes": (lambda _: b"model", "decode it|"),
    "a number": (lambda _: 7, ""),
    "a table": (a_table, ""),
    "interactions": (lambda _: DATA, ""),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("thing", THINGS)
def test_what_is_no_path_is_refused(reader: str, thing: str, tmp_path: Path) -> None:
    argument, read = reader_named(reader)
    make, remedy = THINGS[thing]
    given = make(tmp_path)
    is_file = reader in TAKE_FILES and "file" in thing
    with refuses(TypeError, None if is_file else argument, remedy=remedy):
        read(given)
    if hasattr(given, "close"):
        given.close()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", ["a\0b", "1,2\n" * 2000])
def test_text_that_is_no_path_is_refused(reader: str, text: str) -> None:
    argument, read = reader_named(reader)
    with refuses(ValueError, argument, remedy="write"):
        read(text)


@pytest.mark.parametrize("reader", ["open", "load", "factors", "versions"])
def test_folders_of_others_are_refused(reader: str, tmp_path: Path) -> None:
    """Files, folders of tables, of models and of interactions, and URLs."""
    read = READERS[reader][1]
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.csv").write_text("user,item\n1,2\n")
    other, by = (MODEL.save, "mfrank.load") if reader == "open" else (DATA.to_folder, "open")
    other(tmp_path / "other")
    with refuses(ValueError, None, remedy=by):
        read(tmp_path / "other")
    with refuses(ValueError, None, place="a.csv", remedy="pass"):
        read(tmp_path / "tables" / "a.csv")
    with pytest.raises(ValueError, match="tables does not hold 'mfrank"):
        read(tmp_path / "tables")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        read(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"is a URL, .*; download"):
        read("s3://shop/model")
