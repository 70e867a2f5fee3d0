"""``mfrank update --journal``: the events of a service, once each, and flags that say how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.serving import Event, EventJournal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = mfrank.synthetic(20, 15, 120, names=True, random_state=0)
    mfrank.ALS(mfrank.WRMF(), factors=3, iterations=1, random_state=0).fit(data).save(
        tmp_path / "model"
    )
    item = str(data.item_ids.labels[0])
    EventJournal(tmp_path / "journal").append(
        [Event("new", item, "view"), Event("new", item, "buy"), Event("other", "novelty")]
    )
    return tmp_path


def update(folder: Path, *flags: str) -> int:
    return main(
        ["update", "--journal", str(folder / "journal"), "--model", str(folder / "model"), *flags]
    )


def value(folder: Path) -> float:
    model: Any = mfrank.load(folder / "model")
    (row,) = model.user_ids.rows(["new"])
    return float(model.seen.matrix[[row]].sum())


def test_it_learns_once(folder: Path, capsys: Any) -> None:
    assert update(folder) == 0
    told = capsys.readouterr()
    assert "3 events" in told.out
    assert "2 new users, 1 new item" in told.out
    assert "learns from all" in told.err
    assert "--weights buy=1" in told.err
    assert value(folder) == 2
    assert update(folder) == 0
    assert "has had all events" in capsys.readouterr().out
    assert value(folder) == 2


def test_weights_say_what_each_kind_counts(folder: Path) -> None:
    assert update(folder, "--weights", "view=1,buy=5,event=1") == 0
    assert value(folder) == 6


def test_without_weights_those_of_the_fit_count(folder: Path, capsys: Any) -> None:
    """Of kinds that it has; of others, and of events without a kind, the values."""
    data = mfrank.synthetic(20, 15, 120, names=True, random_state=0)
    users, items = data.user_ids.labels[data.entry_users], data.item_ids.labels
    kinds = ["view", "wish", *["buy"] * (data.nnz - 2)]
    weighed = mfrank.Interactions.from_arrays(
        users,
        items[data.user_items.indices],
        events=kinds,
        weights={"view": 1, "buy": 5, "wish": None},
    )
    mfrank.ALS(mfrank.WRMF(), factors=3, iterations=1).fit(weighed).save(folder / "model")
    item = str(items[1])
    EventJournal(folder / "journal").append(
        [
            Event("new", item, "buy", 3.0),
            Event("new", item, "buy", 0.0),
            Event("new", item, "wish", 7.0),
            Event("new", item, "rate", 4.0),
            Event("new", item, None, 2.0),
        ]
    )
    assert update(folder) == 0
    told = capsys.readouterr().err
    assert "count by the weights of the fit (view 1, buy 5, wish none)" in told
    assert "of the kinds 'event', 'rate', which the weights of the fit" in told
    assert "--weights say" in told
    assert value(folder) == 1 + 5 + (5 + 0 + 4 + 2)


def test_an_event_of_value_0_is_only_seen_whatever_its_weight(folder: Path) -> None:
    item = str(mfrank.load(folder / "model").item_ids.labels[3])
    EventJournal(folder / "journal").append([Event("new", item, "buy", 0.0)])
    assert update(folder, "--weights", "view=1,buy=5,event=1") == 0
    assert value(folder) == 6
    model: Any = mfrank.load(folder / "model")
    assert item not in model.recommend("new", N=20).ids.tolist()


def test_a_threshold_leaves_events_only_seen(folder: Path) -> None:
    assert update(folder, "--weights", "view=1,buy=1,event=1", "--at-least", "2") == 0
    assert value(folder) == 2


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["today.csv"], "either FILE or --journal"),
        (["--batch", "x"], "--batch"),
        (["--sep", ","], "--sep"),
        (["--weights", "view=1"], "buy"),
    ],
)
def test_what_does_not_go_together_is_refused(
    folder: Path, capsys: Any, flags: list[str], named: str
) -> None:
    assert update(folder, *flags) != 0
    assert named in capsys.readouterr().err
    assert mfrank.load(folder / "model").store.n_users == 20


def test_a_folder_without_a_journal_is_refused(tmp_path: Path, folder: Path, capsys: Any) -> None:
    flags = ["update", "--journal", str(tmp_path / "none"), "--model", str(folder / "model")]
    assert main(flags) != 0
    assert "mfrank serve MODEL --journal" in capsys.readouterr().err
