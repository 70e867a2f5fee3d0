"""The notebooks in docs/notebooks run as they stand, on real data, and what they say is true."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nbclient", reason="needs nbclient: pip install mfrank[test]")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install mfrank[test]")
pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install mfrank[plot]")
pytest.importorskip("pandas", reason="tables need pandas: pip install mfrank[pandas]")
pytest.importorskip("sklearn", reason="a notebook shows features made by scikit-learn")
pytest.importorskip("fastapi", reason="needs FastAPI: pip install mfrank[serve]")
import nbformat
import pandas as pd
from nbclient import NotebookClient

import mfrank

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted(DOCS.glob("notebooks/*.ipynb"))
if not NOTEBOOKS:
    pytest.skip("the notebooks are not beside the tests", allow_module_level=True)
NAMES = [path.stem for path in NOTEBOOKS]

Executed = Callable[[str], Any]


def read(name: str) -> Any:
    return nbformat.read(DOCS / "notebooks" / f"{name}.ipynb", as_version=4)


@pytest.fixture(scope="module")
def executed(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Executed:
    """The cells of a notebook by their ids, after it has run; each runs once."""

    @cache
    def run(name: str) -> dict[str, Any]:
        notebook = read(name)
        if not (data_dir / notebook.metadata["data"]).is_dir():
            pytest.skip(f"{notebook.metadata['data']} is not among the real data")
        folder = str(tmp_path_factory.mktemp(name))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MFRANK_DATA", str(data_dir))
            client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
            client.execute()  # raises if a cell does
        return {cell.id: cell for cell in notebook.cells}

    return run


def texts(cell: Any) -> str:
    """What a cell prints, and its value as text."""
    return "\n".join(
        each.get("text") or each.get("data", {}).get("text/plain", "") for each in cell.outputs
    )


def is_picture(cell: Any) -> bool:
    """Whether the cell shows one picture, with something on it."""
    from matplotlib.image import imread

    shown = (each.get("data", {}) for each in cell.outputs)
    found = [each["image/png"] for each in shown if "image/png" in each]
    if len(found) != 1:
        return False
    pixels = imread(io.BytesIO(base64.b64decode(found[0])))
    return len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20


def leads(cell: Any) -> dict[str, tuple[float, float]]:
    """Rows of a table of paired differences: the interval of each."""
    found = re.findall(r"^(\S.*?)  +[+-]\S+  +([+-]\S+) to ([+-]\S+)", texts(cell), re.MULTILINE)
    return {name: (float(low), float(high)) for name, low, high in found}


def rows(cell: Any) -> dict[str, tuple[float, float]]:
    """Rows of a table with two columns of numbers."""
    found = re.findall(r"^(\S.*?)  +(\d\S+)  +(\d\S+) *$", texts(cell), re.MULTILINE)
    return {name: (float(first), float(second)) for name, first, second in found}


# --- their form


@pytest.mark.parametrize("name", NAMES)
def test_is_stored_without_what_a_run_leaves(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"data", "kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each) for each in ids), ids  # made by nobody else
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
    assert f"notebooks/{name}" in (DOCS / "notebooks.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_without_the_data_says_where_they_are(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MFRANK_DATA", str(tmp_path))
    notebook = read(name)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    with pytest.raises(FileNotFoundError, match=r"https://\w+") as raised:
        exec(compile(first.source, name, "exec"), {})
    assert str(tmp_path / notebook.metadata["data"]) in str(raised.value)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    text = "".join(cell.source for cell in read(name).cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", text)
    assert links
    assert all((DOCS / "notebooks" / link).exists() for link in links), links


# --- the data as they are distributed, and as arrays


GENRES = ("unknown", "Action", "Animation", "Comedy")


def films_in_both_forms(tmp_path: Path) -> dict[str, Path]:
    """The same made-up ratings and films as in ml-100k.zip and as arrays, in folders ml-100k."""
    data = mfrank.synthetic(60, 40, 1200, random_state=0)
    draws = np.random.default_rng(0)
    rows = {
        "user": data.entry_users,
        "item": data.user_items.indices,
        "rating": draws.integers(1, 6, data.nnz),
        "timestamp": draws.integers(874_724_710, 893_286_638, data.nnz),
    }
    has = draws.random((data.n_items, len(GENRES))) < 0.4
    has[:, 0] |= ~has.any(1)
    years = [1980 + item % 20 if item else "" for item in range(data.n_items)]  # one has none
    folders = {form: tmp_path / form / "ml-100k" for form in ("distributed", "arrays")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    there = folders["distributed"]
    table = np.column_stack(list(rows.values())) + np.array([1, 1, 0, 0])  # ids begin with 1
    np.savetxt(there / "u.data", table, fmt="%d", delimiter="\t")
    genres = (f"{genre}|{number}\n" for number, genre in enumerate(GENRES))
    (there / "u.genre").write_text("".join(genres))
    lines = [
        f"{item + 1}|Film {item} \xe9|{year and f'01-Jan-{year}'}||http://films|"
        + "|".join(map(str, has[item].astype(int)))
        for item, year in enumerate(years)
    ]
    (there / "u.item").write_text("\n".join(lines) + "\n", encoding="latin-1")
    np.savez(folders["arrays"] / "interactions.npz", **rows)
    titles = [
        f"{item},Film {item} \xe9,{year},{'|'.join(np.array(GENRES)[has[item]])}"
        for item, year in enumerate(years)
    ]
    text = "\n".join(["item,title,year,genres", *titles]) + "\n"
    (folders["arrays"] / "items.csv").write_text(text)
    return folders


def events_in_both_forms(tmp_path: Path) -> dict[str, Path]:
    """The same made-up events as in the folder Data of MBCGCN and as arrays."""
    draws = np.random.default_rng(0)
    kinds, users, items = np.argwhere(draws.random((3, 50, 30)) < 0.4).T
    folders = {form: tmp_path / form / "tmall-events" for form in ("distributed", "arrays")}
    for number, name in enumerate(("view", "cart", "buy")):
        (folders["distributed"] / name).mkdir(parents=True)
        lines = (
            f"{user} {' '.join(map(str, items[(kinds == number) & (users == user)]))}\n"
            for user in range(50)
        )
        (folders["distributed"] / name / "train.txt").write_text("".join(lines))
    folders["arrays"].mkdir(parents=True)
    arrays = {"user": users, "item": items, "event": kinds, "split": np.zeros_like(kinds)}
    np.savez(folders["arrays"] / "interactions.npz", **arrays)
    return folders


def names_after(name: str, cells: tuple[str, ...], home: Path) -> dict[str, Any]:
    """What the first cells of a notebook make of the data in a folder."""
    made: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MFRANK_DATA", str(home))
        for cell in read(name).cells:
            if cell.id in cells:
                exec(compile(cell.source, name, "exec"), made)
    return made


@pytest.mark.parametrize("name", ["service", "cold-items"])
def test_films_as_distributed_are_those_of_the_arrays(name: str, tmp_path: Path) -> None:
    cells = ("find-data", "read-data")
    folders = films_in_both_forms(tmp_path)
    theirs, ours = (
        names_after(name, cells, folders[form].parent) for form in ("distributed", "arrays")
    )
    data = "ratings" if name == "service" else "likes"
    tables = [made[data].to_pandas().astype({"user": int, "item": int}) for made in (theirs, ours)]
    tables[1][["user", "item"]] += 1
    pd.testing.assert_frame_equal(*tables)
    assert len(tables[0]) > 300
    films = [made["films"].reset_index(drop=name == "cold-items") for made in (theirs, ours)]
    if name == "service":
        films[1]["item"] += 1
        assert films[0]["year"].isna().sum() == 1
    pd.testing.assert_frame_equal(*films, check_dtype=False)


def test_events_as_distributed_are_those_of_the_arrays(tmp_path: Path) -> None:
    cells = ("find-data", "read-events")
    folders = events_in_both_forms(tmp_path)
    theirs, ours = (
        names_after("shop-events", cells, folders[form].parent)["events"]
        for form in ("distributed", "arrays")
    )
    assert theirs.kinds == ours.kinds
    for kind in ours.kinds:
        np.testing.assert_array_equal(
            theirs[kind].user_items.toarray(), ours[kind].user_items.toarray()
        )


# --- what they say


def test_the_first_model_is_ahead_of_popularity(executed: Executed) -> None:
    cells = executed("first-model")
    assert "no header found" in texts(cells["read-ratings"])
    for name in ("fit", "leaderboard", "activity"):
        assert is_picture(cells[name]), name
    assert leads(cells["judge"])["popularity"][0] > 0
    listed = re.findall(r"^\d +(\d) +\d{7} .*[(.]", texts(cells["recommend"]), re.MULTILINE)
    assert listed == [*"12345678"]  # each with its title, which pandas may cut
    assert "Toy Story (1995)" not in texts(cells["new-person"])


def test_a_shop_learns_from_all_events_and_a_leak_turns_the_order(executed: Executed) -> None:
    cells = executed("shop-events")
    for name in ("signal", "weights-picture", "leak-picture", "tune"):
        assert is_picture(cells[name]), name
    values = rows(cells["leak"])
    factors, knn = values["discover: factors"], values["remind: item-kNN"]
    assert knn[0] < values["popular purchases"][0] < factors[0]
    assert knn[1] > 2 * factors[1]
    weighted, alone = map(float, re.findall(r"0\.\d+", texts(cells["weights-gain"])))
    assert weighted > alone
    assert leads(cells["compare"])["popular purchases"][0] > 0


def test_features_rank_new_films(executed: Executed) -> None:
    cells = executed("cold-items")
    assert is_picture(cells["judge"])
    assert is_picture(cells["share-picture"])
    ahead = leads(cells["differences"])
    assert set(ahead) == {"title", "genres", "year", "one list for all", "chance"}
    assert all(low > 0 for low, _ in ahead.values())
    shares = [float(each) for each in re.findall(r"\d\.\d+", texts(cells["share"]))]
    assert shares == sorted(shares)
    assert shares[0] < 0.05 < shares[-1]


def test_the_order_of_models_turns_with_the_split(executed: Executed) -> None:
    cells = executed("evaluation-in-time")
    pictures = ("fashions", "two-pictures", "rolling-picture", "aging")
    assert all(is_picture(cells[name]) for name in pictures)
    assert "older than the last one here" in texts(cells["leaks"])
    assert all(low > 0 for low, _ in leads(cells["differences"]).values())
    values = rows(cells["two-splits"])
    ordered = [values[name] for name in ("factors", "popularity", "popularity of 7 days")]
    at_random, in_time = zip(*ordered, strict=True)
    assert at_random[0] > at_random[1] > at_random[2]
    assert in_time[0] < in_time[1] < in_time[2]


def test_a_service_takes_events_and_learns_from_them(executed: Executed) -> None:
    cells = executed("service")
    for name in ("tune", "speed", "moved"):
        assert is_picture(cells[name]), name
    assert "'new': 3, 'repeated': 0" in texts(cells["events"])
    assert "'new': 0, 'repeated': 3" in texts(cells["events"])
    assert "3 events learned, 0 when asked again" in texts(cells["update"])
    assert "'status': 'ok'" in texts(cells["update"])
    assert "stopped" in texts(cells["stop"])
    years = [int(year) for year in re.findall(r"\((\d{4})\)", texts(cells["filter"]))]
    assert len(years) == 5
    assert min(years) >= 1990
