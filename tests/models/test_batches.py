"""An update that is repeated is told, and one that has a name is applied once."""

from __future__ import annotations

import copy
import datetime
import io
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.models import update_data
from tests.support.errors import refuses

DATA = mfrank.synthetic(30, 20, 300, names=True, random_state=0)
USERS, ITEMS = DATA.user_ids.labels.tolist(), DATA.item_ids.labels.tolist()


def day(*items: int, **more: Any) -> mfrank.Interactions:
    users = ["new", *USERS][: len(items)]
    return mfrank.Interactions.from_arrays(users, [ITEMS[item] for item in items], **more)


TODAY, OTHER = day(3, 4), day(3, 5)


@pytest.fixture
def model() -> mfrank.ALS:
    return mfrank.ALS(mfrank.IALS(), 3, 2, random_state=0, n_threads=1).fit(DATA)


def bits(model: mfrank.ALS) -> tuple[bytes, bytes]:
    return model.user_factors.tobytes(), model.item_factors.tobytes()


def stored(model: mfrank.ALS) -> mfrank.ALS:
    file = io.BytesIO()
    model.save(file)
    return mfrank.ALS.load(file)


KEPT: dict[str, Callable[[mfrank.ALS], mfrank.ALS]] = {
    "itself": lambda model: model,
    "saved": stored,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
    "copied": copy.deepcopy,
    "with users removed": lambda model: model.remove(users=USERS[5]),
    "saved with users removed": lambda model: stored(model.remove(users="new")),
    "with users solved again": lambda model: model.partial_fit_users(USERS[:1], DATA),
    "with other updates": lambda model: model.partial_fit(OTHER).partial_fit(day(1), batch="one"),
    "with features only": lambda model: model.partial_fit(),
}


@pytest.mark.parametrize("way", KEPT)
def test_a_batch_is_applied_once(
    way: str, model: mfrank.ALS, caplog: pytest.LogCaptureFixture
) -> None:
    now = KEPT[way](model.partial_fit(TODAY, batch="today"))
    before, length = bits(now), len(now.store.history)
    caplog.clear()
    with caplog.at_level(logging.INFO, "mfrank"):
        assert now.partial_fit(TODAY, batch="today") is now
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "'today'" in caplog.text
    assert (bits(now), len(now.store.history)) == (before, length)
    now.partial_fit(TODAY, batch="tomorrow")
    assert len(now.store.history) == length + 1


def test_any_text_is_a_name(model: mfrank.ALS) -> None:
    """Also names of files that are no UTF-8, as Python reads them."""
    before = bits(model.partial_fit(TODAY, batch="caf\udce9.csv"))
    assert bits(model.partial_fit(TODAY, batch="caf\udce9.csv")) == before


def test_other_interactions_under_a_known_name_are_told(
    model: mfrank.ALS, caplog: pytest.LogCaptureFixture
) -> None:
    before = bits(model.partial_fit(TODAY, batch="today"))
    model.partial_fit(OTHER, batch="today")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "batch=" in caplog.text
    assert bits(model) == before


@pytest.mark.parametrize("first", [None, "a"])
@pytest.mark.parametrize("second", [None, "b"])
def test_equal_interactions_are_told_and_applied(
    first: str | None, second: str | None, model: mfrank.ALS, caplog: pytest.LogCaptureFixture
) -> None:
    model.partial_fit(TODAY, batch=first)
    model.partial_fit(OTHER)
    assert not caplog.records
    model = stored(model).partial_fit(TODAY, batch=second)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "earlier update" in caplog.text
    assert "batch=" in caplog.text
    assert len(model.store.history) == 2 + 3


def test_without_interactions_nothing_is_repeated(
    model: mfrank.ALS, caplog: pytest.LogCaptureFixture
) -> None:
    model.partial_fit().partial_fit()
    assert not caplog.records


def frame(data: mfrank.Interactions) -> pd.DataFrame:
    return data.to_pandas()


@pytest.mark.parametrize("again", [frame, lambda data: frame(data)[::-1], lambda data: data + data])
def test_they_are_recognized_however_they_come(
    again: Callable[[mfrank.Interactions], Any], model: mfrank.ALS, caplog: pytest.LogCaptureFixture
) -> None:
    """But not where their values differ."""
    new = again(TODAY)
    model.partial_fit(TODAY).partial_fit(new)
    differs = isinstance(new, mfrank.Interactions)
    assert ("earlier update" in caplog.text) != differs


def test_other_times_are_other_interactions(
    model: mfrank.ALS, caplog: pytest.LogCaptureFixture
) -> None:
    """The same user had the same item again."""
    for second in (5, 6):
        model.partial_fit(day(3, timestamps=[second]))
    assert not caplog.records
    model.partial_fit(day(3, timestamps=[6]))
    assert "earlier update" in caplog.text


def test_matrices_are_recognized(caplog: pytest.LogCaptureFixture) -> None:
    matrix = sp.csr_array(DATA.user_items)
    model = mfrank.ALS(mfrank.IALS(), 3, 2, random_state=0, n_threads=1).fit(matrix)
    model.partial_fit(matrix[:5]).partial_fit(matrix[:6])
    assert not caplog.records
    model.partial_fit(matrix[:5])
    assert "earlier update" in caplog.text


def test_a_new_fit_has_no_batches(model: mfrank.ALS, caplog: pytest.LogCaptureFixture) -> None:
    before = bits(model.partial_fit(TODAY, batch="today").fit(DATA))
    assert bits(model.partial_fit(TODAY, batch="today")) != before
    assert not caplog.records


def test_so_many_are_kept(
    model: mfrank.ALS, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(update_data, "_MOST", 3)
    for item in range(5):
        model.partial_fit(day(item), batch=f"day {item}")
    history = model.store.history
    assert sum("content" in record for record in history) == 3
    for item in (2, 3, 4):
        model.partial_fit(day(item), batch=f"day {item}")
    assert len(model.store.history) == len(history)
    model.partial_fit(day(0), batch="day 0")
    assert len(model.store.history) == len(history) + 1
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(
    ("batch", "error"),
    [(20261125, TypeError), (datetime.date(2026, 11, 25), TypeError), ("", ValueError)],
)
def test_what_is_no_name_is_refused(batch: Any, error: type[Exception], model: mfrank.ALS) -> None:
    before = bits(model)
    with refuses(error, "batch"):
        model.partial_fit(TODAY, batch=batch)
    assert bits(model) == before


def test_the_numbers_of_a_batch_are_read_by_any_json(model: mfrank.ALS, tmp_path: Path) -> None:
    model.partial_fit(TODAY, batch="today").save(tmp_path / "m")
    record = mfrank.load(tmp_path / "m").store.history[-1]
    assert all(0 < int(record[name] or 0) < 2**53 for name in ("batch", "content"))
