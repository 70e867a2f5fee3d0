"""Values that are numbers of equal rows, or chosen by a threshold, are no news to their owner."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.cli.main import main
from mfrank.data import Interactions, placed

USERS = [user for user in range(9) for _ in range(1 + user % 4)] * 2
ITEMS = [(3 * user + k) % 7 for user in range(9) for k in range(1 + user % 4)] * 2
USERS, ITEMS = USERS + USERS[:9], ITEMS + ITEMS[:9]
"""Clicks, most of them two or three times."""


def from_text(folder: Path) -> Path:
    file = folder / "clicks.csv"
    file.write_text(
        "user,item\n" + "\n".join(f"{u},{i}" for u, i in zip(USERS, ITEMS, strict=True))
    )
    return file


def parquet(folder: Path) -> Interactions:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"user": USERS, "item": ITEMS}).to_parquet(folder / "clicks.parquet")
    return Interactions.from_file(folder / "clicks.parquet")


def frame(_: Path) -> Interactions:
    pandas = pytest.importorskip("pandas")
    return Interactions.of(pandas.DataFrame({"user": USERS, "item": ITEMS}))


def clicks(_: Path | None = None) -> Interactions:
    return Interactions.from_arrays(USERS, ITEMS)


def reopened(data: Interactions, folder: Path) -> Interactions:
    data.to_folder(folder / "saved")
    return Interactions.open(folder / "saved")


def split(data: Interactions, folder: Path | None) -> Interactions:
    return mfrank.by_ratio(data, train=0.9, valid=0, test=0.1, random_state=0, folder=folder).train


def moved(data: Interactions) -> Interactions:
    users, items = np.arange(data.n_users), np.arange(data.n_items)
    return placed(data, users, items, data.user_ids, data.item_ids)


COUNTED: dict[str, Callable[[Path], Interactions]] = {
    "arrays": clicks,
    "frame": frame,
    "text": lambda folder: Interactions.from_file(from_text(folder)),
    "parquet": parquet,
    "ingest": lambda folder: Interactions.ingest([from_text(folder)], folder / "ingested"),
    "matrix of triples": lambda _: Interactions.of(
        sp.coo_array((np.ones(len(USERS)), (USERS, ITEMS)))
    ),
    "folder": lambda folder: reopened(clicks(), folder),
    "take": lambda _: clicks().take(clicks().user_items.data > 1),
    "k_core": lambda _: clicks().k_core(1),
    "split": lambda _: split(clicks(), None),
    "split to folders": lambda folder: split(clicks(), folder / "parts"),
    "in other rows": lambda _: moved(clicks()),
    "concat": lambda _: clicks() + Interactions.from_arrays([1, 2], [3, 4]),
    "pickle": lambda _: pickle.loads(pickle.dumps(clicks())),
    "copy": lambda _: deepcopy(clicks()),
}

RATINGS = Interactions.from_arrays(USERS, ITEMS, 1 + np.arange(len(USERS)) % 5, duplicates="max")
GIVEN: dict[str, Callable[[Path], Interactions]] = {
    "a column": lambda _: RATINGS,
    "folder": lambda folder: reopened(RATINGS, folder),
    "a matrix of sums": lambda _: Interactions.of(clicks().to_scipy()),
    "weights": lambda _: clicks().weighted(np.linspace(1, 2, clicks().nnz)),
    "both": lambda _: clicks() + RATINGS,
    "a column, with repeats": lambda _: Interactions.from_arrays([0, 0, 1], [0, 0, 1], [1, 2, 4]),
}


def said(caplog, act: Callable[[], object]) -> list[tuple[str, str]]:
    """Level and text of all that ``act`` logs about values."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "mfrank"):
        act()
    return [(r.levelname, r.getMessage()) for r in caplog.records if "values" in r.getMessage()]


def fitted(data: Interactions) -> mfrank.ALS:
    return mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)


@pytest.mark.parametrize("door", COUNTED)
def test_counts_of_equal_rows_are_told_quietly(door: str, caplog, tmp_path: Path) -> None:
    data = COUNTED[door](tmp_path)
    ((level, text),) = said(caplog, lambda: fitted(data))
    assert level == "INFO"
    assert "equal rows" in text
    assert "WRMF(alpha=" in text
    assert "ratings" not in text


@pytest.mark.parametrize("door", GIVEN)
def test_values_that_were_given_are_warned_of(door: str, caplog, tmp_path: Path) -> None:
    data = GIVEN[door](tmp_path)
    assert [level for level, _ in said(caplog, lambda: fitted(data))] == ["WARNING"]


@pytest.mark.parametrize(
    "act",
    [
        lambda data: mfrank.EASE().fit(data),
        lambda data: mfrank.Popularity().fit(data),
        lambda data: mfrank.Descent(factors=2, iterations=1).fit(data),
        lambda data: mfrank.tune(data, trials=1, factors=2),
        lambda data: mfrank.compare(
            data, data, models={"a": mfrank.EASE()}, repeats=1, peak_memory=False
        ),
        lambda data: MODEL.partial_fit(data),
        lambda data: MODEL.partial_fit_users(range(9), data),
    ],
    ids=["EASE", "Popularity", "Descent", "tune", "compare", "partial_fit", "partial_fit_users"],
)
def test_every_model_tells_of_counts_quietly(act, caplog) -> None:
    ((level, text),) = said(caplog, lambda: act(clicks()))
    assert level == "INFO"
    assert "equal rows" in text


MODEL = fitted(Interactions.from_sparse(clicks().user_items > 0))


def test_counts_reach_a_threshold_by_themselves(caplog) -> None:
    """A count is no sum of ratings, neither in one part nor in several."""
    assert not said(caplog, lambda: clicks().at_least(2))
    assert not [text for _, text in said(caplog, lambda: (clicks() + clicks()).at_least(3))]


LIKES = Interactions.from_arrays([0, 0, 1], [0, 1, 1], [4, 5, 4])
"""None is below 4."""


@pytest.mark.parametrize(
    "chosen",
    [
        lambda _: LIKES.at_least(4),
        lambda folder: reopened(LIKES.at_least(4), folder),
        lambda _: pickle.loads(pickle.dumps(LIKES.at_least(4))),
        lambda _: LIKES.at_least(4) + LIKES.at_least(4),
        lambda _: moved(LIKES.at_least(4)),
    ],
    ids=["at_least", "folder", "pickle", "concat", "in other rows"],
)
def test_a_threshold_that_drops_nothing_is_one(chosen, caplog, tmp_path: Path) -> None:
    data = chosen(tmp_path)
    model = fitted(Interactions.from_sparse(LIKES.user_items > 0))
    for act in (
        lambda: fitted(data),
        lambda: model.partial_fit(data),
        lambda: model.partial_fit_users([0, 1], data),
        lambda: mfrank.EASE().fit(data),
    ):
        assert [level for level, _ in said(caplog, act)] == ["INFO"]
    assert said(caplog, lambda: fitted(LIKES))[0][0] == "WARNING"


def test_an_update_warns_only_of_values_that_are_new_to_the_model(caplog) -> None:
    model = fitted(RATINGS)
    low, high = (Interactions.from_arrays([0, 1], [2, 3], [3, most]) for most in (5, 6))
    assert [level for level, _ in said(caplog, lambda: model.partial_fit(low))] == ["INFO"]
    other = fitted(RATINGS)
    assert [level for level, _ in said(caplog, lambda: other.partial_fit(high))] == ["WARNING"]
    ones = fitted(Interactions.from_sparse(RATINGS.user_items > 0))
    assert [level for level, _ in said(caplog, lambda: ones.partial_fit(low))] == ["WARNING"]


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_commands_tell_of_counts_in_their_own_words(kind: str, tmp_path: Path, capsys) -> None:
    file, model = from_text(tmp_path), str(tmp_path / "model")
    fit = ["fit", str(file), "--factors", "2", "--iterations", "1", "--model", model]
    assert main([*fit, *(["--ids", "text"] if kind == "text" else [])]) == 0
    at_fit = capsys.readouterr().err
    assert main(["update", str(file), "--model", model]) == 0
    for told in (at_fit, capsys.readouterr().err):
        (line,) = [each for each in told.splitlines() if "values" in each]
        assert "equal rows" in line
        assert "--objective wrmf" in line


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_an_update_with_a_threshold_says_nothing_of_ratings(
    kind: str, tmp_path: Path, capsys
) -> None:
    file, model = tmp_path / "likes.csv", str(tmp_path / "model")
    file.write_text("user,item,rating\n1,1,4\n1,2,5\n2,1,5\n")
    fit = ["fit", str(file), "--at-least", "4", "--factors", "2", "--iterations", "1"]
    assert main([*fit, "--model", model, *(["--ids", "text"] if kind == "text" else [])]) == 0
    assert main(["update", str(file), "--at-least", "4", "--model", model]) == 0
    assert "alike" not in capsys.readouterr().err
