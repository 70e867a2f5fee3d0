"""The journal of events: once and for all on the disk, and each event once in a model."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import refuses
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.serving import Event, EventJournal
from mfrank.serving.event_journal import FILE, FreshUsers


@cache
def data() -> mfrank.Interactions:
    return mfrank.synthetic(20, 15, 120, names=True, random_state=0)


def fitted(kind: Any = None) -> Any:
    model = kind() if kind else mfrank.ALS(mfrank.WRMF(), factors=3, iterations=1, random_state=0)
    return model.fit(data())


def some(n: int, user: str = "new") -> list[Event]:
    return [Event(user, str(data().item_ids.labels[at]), event_id=f"{user}{at}") for at in range(n)]


def test_events_come_back_in_their_order(tmp_path: Path) -> None:
    journal = EventJournal(tmp_path / "journal")
    assert journal.append([Event("a", "x", timestamp=5), Event("a", "y", "buy", 2, 3)]) == (2, 0)
    assert [(each.item, each.event, each.value) for each in journal.of_user("a", 0)] == [
        ("y", "buy", 2),
        ("x", None, 1),
    ]
    assert journal.of_user("a", 0, until=1)[0].item == "x"
    assert not journal.of_user("a", 2)
    assert not journal.of_user("b", 0)
    assert EventJournal(tmp_path / "journal").last == 2


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=5))
@settings(max_examples=8)
def test_an_event_of_an_id_is_there_once(batches: list[list[int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, EventJournal(folder) as journal:
        known = set[int]()
        for batch in batches:
            events = [Event("a", number, event_id=str(number)) for number in batch]
            new, repeated = journal.append(events)
            assert new == len(set(batch) - known)
            assert new + repeated == len(batch)
            known |= set(batch)
        assert sorted(each.item for each in journal.of_user("a", 0)) == sorted(known)  # type: ignore[type-var]


def test_an_id_of_another_event_refuses_all(tmp_path: Path) -> None:
    journal = EventJournal(tmp_path)
    journal.append([Event("a", "x", event_id="1", timestamp=5)])
    for other in (
        Event("b", "x", event_id="1"),
        Event("a", "x", "buy", event_id="1"),
        Event("a", "x", value=2, event_id="1"),
        Event("a", "x", timestamp=6, event_id="1"),
    ):
        with refuses(ValueError, place="event 1", remedy="its own id"):
            journal.append([Event("a", "y"), other])
    assert journal.last == 1
    assert journal.append([Event("a", "x", event_id="1")]) == (0, 1)


KILLED = """
import sys
from mfrank.serving import Event, EventJournal
journal, number = EventJournal(sys.argv[1]), 0
while True:
    journal.append([Event("a", number), Event("b", number)])
    print(number, flush=True)
    number += 1
"""


def test_a_killed_process_loses_no_acknowledged_event(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(5):
        last = int(process.stdout.readline())
    process.kill()
    rest = process.communicate()[0].split()
    last = int(rest[-1]) if rest else last
    journal = EventJournal(tmp_path)
    n = [len(journal.of_user(user, 0)) for user in "ab"]
    assert n[0] == n[1] >= last + 1  # whole batches, and at most one that was not yet acknowledged
    assert n[0] <= last + 2


@pytest.mark.parametrize(
    "kind", [None, mfrank.EASE, lambda: mfrank.Blend([mfrank.EASE(), mfrank.ALS(factors=2)])]
)
def test_an_update_takes_each_event_once(tmp_path: Path, kind: Any) -> None:
    journal, model = EventJournal(tmp_path / "journal"), fitted(kind)
    assert journal.update(model) == 0
    journal.append(some(2))
    assert journal.position(model) == 0
    assert journal.update(model) == 2
    assert journal.position(model) == 2
    model.save(tmp_path / "model")
    model = mfrank.load(tmp_path / "model")
    assert journal.position(model) == 2
    assert journal.update(model) == 0
    journal.append(some(3))
    assert journal.update(model) == 1
    row = model.user_ids.rows(["new"])[0]
    assert model.seen.matrix[[row]].nnz == 3


def test_an_update_that_ends_before_its_save_is_made_again(tmp_path: Path) -> None:
    journal, before = EventJournal(tmp_path), fitted()
    journal.append(some(2))
    journal.update(fitted())  # and is not saved
    journal.append(some(3))
    assert journal.position(before) == 0
    assert journal.update(before) == 3
    once = fitted().partial_fit(
        mfrank.Interactions.from_arrays(["new"] * 3, [each.item for each in some(3)])
    )
    np.testing.assert_array_equal(before.recommend("new", N=5).ids, once.recommend("new", N=5).ids)


def test_models_learn_from_one_journal_apart(tmp_path: Path) -> None:
    journal, one, two = EventJournal(tmp_path), fitted(), fitted(mfrank.EASE)
    journal.append(some(2))
    assert journal.update(one) == 2
    journal.append(some(4))
    assert (journal.update(one), journal.update(two)) == (2, 4)


def test_another_journal_is_another_one(tmp_path: Path) -> None:
    model = fitted()
    for name in ("one", "two"):
        journal = EventJournal(tmp_path / name)
        journal.append(some(2, user=name))
        assert journal.update(model) == 2


def test_fresh_users_follow_the_model_and_other_processes(tmp_path: Path) -> None:
    journal, model = EventJournal(tmp_path), fitted()
    fresh = FreshUsers(journal)
    assert not fresh.has("new", model)
    EventJournal(tmp_path).append(some(2))  # as another process does
    fresh.look()
    assert fresh.has("new", model)
    newer = fitted()
    journal.update(newer)
    assert not fresh.has("new", newer)
    assert fresh.has("new", model)  # rolled back
    assert FreshUsers(journal).has("new", model)


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    with refuses(ValueError, place=str(tmp_path), remedy="--journal"):
        EventJournal(tmp_path, create=False)
    (tmp_path / FILE).write_text("something else")
    with refuses(ValueError, place=FILE, remedy="name another"):
        EventJournal(tmp_path)


def test_the_events_are_data_of_a_fit(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy: pip install mfrank[sql]")
    with EventJournal(tmp_path) as journal:
        journal.append(some(3))
    url = f"sqlite:///{tmp_path / FILE}"
    read = mfrank.Interactions.from_sql("SELECT user, item, value FROM events", url)
    assert (read.n_users, read.nnz) == (1, 3)
    shutil.rmtree(tmp_path)
