"""Updates that most likely mean something else are told by every door; ordinary ones are not."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main

_RNG = np.random.default_rng(0)
_N = 2000
_USERS, _ITEMS = _RNG.integers(0, 60, _N), _RNG.integers(0, 80, _N)
_RATINGS = _RNG.choice([1.0, 2.0, 3.0, 4.0, 5.0], _N, p=[0.05, 0.1, 0.25, 0.35, 0.25])
_OLD, _NEW = np.arange(_N) < 1600, np.arange(_N) >= 1600


def _part(
    rows: Any, values: Callable[[Any], Any] = lambda ratings: ratings, ids: Any = lambda ids: ids
) -> mfrank.Interactions:
    cells = ids(_USERS[rows]), ids(_ITEMS[rows])
    return mfrank.Interactions.from_arrays(*cells, values(_RATINGS[rows]), duplicates="max")


READERS: dict[str, Callable[[], Any]] = {
    "WRMF": lambda: mfrank.ALS(mfrank.WRMF(), factors=4, random_state=0),
    "weighted IALS": lambda: mfrank.ALS(mfrank.IALS(weighted=True), factors=4, random_state=0),
    "ItemKNN": mfrank.ItemKNN,
    "Blend": lambda: mfrank.Blend([mfrank.EASE(), READERS["WRMF"]()]),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "RG2": lambda: mfrank.ALS(factors=4, random_state=0),
    "Descent": lambda: mfrank.Descent(factors=4, iterations=1, random_state=0),
    "EASE": mfrank.EASE,
    "Popularity": mfrank.Popularity,
}
SCALES: dict[str, Callable[[Any], Any]] = {
    "shares": lambda ratings: ratings / 5,
    "percents": lambda ratings: 20 * ratings,
    "of ten stars": lambda ratings: 2 * ratings,
    "none": np.ones_like,
}
_UNIT, _TWICE, _IDS = "reads both as of one unit", "count twice", "has none of them"


def _told(caplog: pytest.LogCaptureFixture, update: Callable[[], object]) -> list[str]:
    caplog.clear()
    with caplog.at_level("WARNING", "mfrank"):
        update()
    texts = [record.getMessage() for record in caplog.records]
    return [each for text in texts for each in (_UNIT, _TWICE, _IDS) if each in text]


@pytest.fixture(scope="module", params=READERS)
def reader(request: pytest.FixtureRequest) -> Any:
    return READERS[request.param]().fit(_part(_OLD))


@pytest.mark.parametrize("scale", SCALES)
def test_values_of_another_scale_are_told_once(reader: Any, scale: str, caplog: Any) -> None:
    new = _part(_NEW, SCALES[scale])
    assert _told(caplog, lambda: copy(reader).partial_fit(new)) == [_UNIT]
    assert _told(caplog, lambda: copy(reader).partial_fit(new.user_items)) == [_UNIT]


def test_all_interactions_in_place_of_the_new_ones_are_told_once(reader: Any, caplog: Any) -> None:
    for rows in (_OLD, _OLD | _NEW, _OLD & (_USERS < 9)):
        assert _told(caplog, lambda rows=rows: copy(reader).partial_fit(_part(rows))) == [_TWICE]


@pytest.mark.parametrize("share", [0.005, 0.02, 0.5, 1.0])
def test_ordinary_updates_are_not_told(reader: Any, share: float, caplog: Any) -> None:
    new = _NEW & (np.arange(_N) < 1600 + 400 * share)
    assert not _told(caplog, lambda: copy(reader).partial_fit(_part(new)))


def test_counts_of_a_day_are_of_the_scale_of_a_year(caplog: Any) -> None:
    counts = mfrank.Interactions.from_arrays(_USERS[_OLD], _ITEMS[_OLD], _RATINGS[_OLD] ** 4)
    model = READERS["WRMF"]().fit(counts)
    for values in (np.ones_like, lambda ratings: np.minimum(ratings, 3)):
        assert not _told(caplog, lambda v=values: copy(model).partial_fit(_part(_NEW, v)))


def test_values_that_have_decayed_are_of_the_same_scale(caplog: Any) -> None:
    model = READERS["WRMF"]().fit(_part(_OLD))
    for day in range(4):
        new = _part(_NEW & (np.arange(_N) % 4 == day))
        assert not _told(caplog, lambda new=new: model.partial_fit(new, decay=0.9))


@pytest.mark.parametrize("kind", READERS | OTHERS)
def test_ids_of_another_catalog_are_told_once(kind: str, caplog: Any) -> None:
    for first, others in (
        (lambda ids: 7 * ids + 3, lambda ids: ids + 1000),
        (
            lambda ids: np.char.add("a", ids.astype(str)),
            lambda ids: np.char.zfill(ids.astype(str), 6),
        ),
    ):
        model = (READERS | OTHERS)[kind]().fit(_part(_OLD, ids=first))
        of_others = _part(_NEW, ids=others)
        assert _told(caplog, lambda m=model, n=of_others: copy(m).partial_fit(n)) == [_IDS]


@pytest.mark.parametrize("kind", OTHERS)
def test_who_reads_no_values_has_no_scale(kind: str, caplog: Any) -> None:
    model = OTHERS[kind]().fit(_part(_OLD))
    for new in (_part(_OLD | _NEW), _part(_NEW, SCALES["percents"])):
        assert not _told(caplog, lambda new=new: copy(model).partial_fit(new))


def test_rows_that_are_solved_anew_are_of_the_scale_of_the_fit(caplog: Any) -> None:
    model = READERS["WRMF"]().fit(_part(_OLD))
    ids = model.user_ids.labels[:20]
    for new, told in ((_part(_OLD), []), (_part(_OLD, SCALES["percents"]), [_UNIT])):
        assert _told(caplog, lambda n=new: copy(model).partial_fit_users(ids, n)) == told
        assert _told(caplog, lambda n=new: copy(model).partial_fit_items(ids, n)) == told


def test_the_command_line_tells_of_a_saved_model(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def write(name: str, data: mfrank.Interactions) -> str:
        data.to_pandas().to_csv(tmp_path / name, index=False)
        return str(tmp_path / name)

    model, output = str(tmp_path / "model"), str(tmp_path / "newer")
    old = write("old.csv", _part(_OLD))
    assert main(["fit", old, "--model", model, "--objective", "wrmf", "--factors", "4"]) == 0
    for new, expected in (
        (_part(_OLD | _NEW), _TWICE),
        (_part(_NEW, SCALES["shares"]), _UNIT),
        (_part(_NEW & (_USERS < 50), ids=lambda ids: ids + 1000), _IDS),
        (_part(_NEW), ""),
    ):
        capfd.readouterr()
        line = ["update", write("new.csv", new), "--model", model, "--output", output]
        assert main(line) == 0
        told = capfd.readouterr().err
        assert [each for each in (_TWICE, _UNIT, _IDS) if each in told] == [expected][
            : bool(expected)
        ]
