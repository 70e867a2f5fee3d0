"""What a model must be able to do: by its class, through every door of a search."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.cli.main import main
from mfrank.tuning import ABILITIES, OF_EVENTS, SPACE, TIMED_SPACE, Facts, Setting, Space, lacking
from tests.support.errors import refuses

DATA = mfrank.synthetic(120, 60, 2000, random_state=0)
SMALL: dict[str, Any] = {"trials": 4, "factors": 8, "n_threads": 1}
EVERY = [*TIMED_SPACE.families(), *TIMED_SPACE.baselines, *chain(*OF_EVENTS.values())]
RATED = mfrank.Interactions.from_arrays(
    DATA.entry_users,
    DATA.user_items.indices,
    1.0 + np.arange(DATA.nnz) % 5,
    np.arange(DATA.nnz),
)


@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.name)
def test_all_that_can_win_lives(family: Any) -> None:
    """So the usual search is one of all models: its default costs nothing."""
    made: Any = family.model(family.first, 0, Setting(Facts.of(RATED), 8, 0, 1))
    assert type(made) is family.kind
    assert lacking(family.kind, ABILITIES) == []


@pytest.mark.parametrize("space", [SPACE, TIMED_SPACE, SPACE.with_more(OF_EVENTS)])
def test_all_needs_leave_out_nothing(space: Space) -> None:
    """With them and without, a search is the same on all data."""
    assert space.able(tuple(ABILITIES)) == (space, {})


def test_walks_and_bare_factors_lack_what_they_cannot() -> None:
    assert lacking(mfrank.SupervisedPageRank, ABILITIES) == ["update"]
    assert lacking(mfrank.Recommender, ABILITIES) == ["update", "explain", "new users"]
    assert lacking(mfrank.Blend, ABILITIES) == []


LESS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "update": lambda patch: patch.setattr(
        mfrank.EASE, "partial_fit", mfrank.Recommender.partial_fit
    ),
    "explain": lambda patch: patch.setattr(mfrank.EASE, "explain", mfrank.Recommender.explain),
    "new users": lambda patch: patch.setattr(mfrank.EASE, "folds_in", False),
}


def of_tune(tmp_path: Path, needs: Any) -> list[dict[str, Any]]:
    return list(mfrank.tune(DATA, **SMALL, **needs).leaderboard)


def of_compare(tmp_path: Path, needs: Any) -> list[dict[str, Any]]:
    models: dict[str, Any] = {"found": mfrank.tune, "EASE": mfrank.EASE()}
    split = mfrank.by_ratio(DATA, random_state=0)
    found = mfrank.compare(
        *(split.train, split.test),
        models=models,
        tune=0.005,
        repeats=1,
        factors=8,
        n_threads=1,
        peak_memory=False,
        **needs,
    )
    assert found.leaderboards["EASE"][0]["value"] is not None  # the caller has named it
    return list(found.leaderboards["found"])


def of_command(tmp_path: Path, needs: Any) -> list[dict[str, Any]]:
    mfrank.data.write_table(
        tmp_path / "likes.csv",
        {"user": DATA.entry_users, "item": DATA.user_items.indices, "time": DATA.timestamps},
    )
    line = ["tune", "likes.csv", "--model", "model", "--json", "board.json"]
    line += ["--trials", "4", "--factors", "8", "--n-threads", "1"]
    if needs:
        line += ["--needs", ",".join(needs["needs"]).replace(" ", "-") or "nothing"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert main(line) == 0
    board: list[dict[str, Any]] = json.loads((tmp_path / "board.json").read_text())
    return board


@pytest.mark.parametrize(
    ("door", "ability"),
    [*((of_tune, name) for name in LESS), (of_compare, "update"), (of_command, "new users")],
)
def test_what_cannot_live_is_left_out_and_said_so(
    door: Any,
    ability: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    LESS[ability](monkeypatch)
    others = tuple(set(ABILITIES) - {ability})
    for needs in ({}, {"needs": (ability,)}):
        rows = {row["family"]: row for row in door(tmp_path, needs)}
        assert rows["EASE"]["value"] is None
        assert "EASE" not in rows.get("blend", {"model": ""})["model"]
        assert ability in rows["EASE"]["error"]
        assert "needs=()" in rows["EASE"]["error"]
        if door is of_command:
            told = capsys.readouterr().out
            assert "--needs nothing" in told
            assert "needs=()" not in told
    for needs in ({"needs": ()}, {"needs": others}):
        rows = {row["family"]: row for row in door(tmp_path, needs)}
        assert "needs" not in (rows.get("EASE", {}).get("error") or "")


@pytest.mark.parametrize(
    "needs", ["updates", ["update", "explains"], ("new_users",), [3], [None], 5, b"update", None]
)
def test_names_are_checked_before_any_work(needs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.tuning.one_call.search", lambda *_, **__: pytest.fail("searched"))
    with refuses((ValueError, TypeError), "needs"):
        mfrank.tune(DATA, **SMALL, needs=needs)
    with refuses((ValueError, TypeError), "needs"):
        mfrank.compare(*(DATA, DATA), models={"found": mfrank.tune}, tune=1, needs=needs)


def test_needs_are_of_a_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with refuses(ValueError, "needs", remedy="pass tune"):
        mfrank.compare(DATA, DATA, needs=())
    with refuses(ValueError, "needs", remedy="add it"):
        mfrank.compare(DATA, DATA, models={"EASE": mfrank.EASE()}, tune=1, needs=())
    (tmp_path / "likes.csv").write_text("user,item\n1,2\n3,4\n")
    mfrank.ALS(factors=2, iterations=1).fit(DATA).save(tmp_path / "model")
    line = ["tune", str(tmp_path / "likes.csv"), "--model", str(tmp_path / "new")]
    assert main([*line, "--refit", str(tmp_path / "model"), "--needs", "update"]) == 2
    assert "--needs has no effect" in capsys.readouterr().err
    assert main([*line, "--needs", "updates"]) == 2
    told = capsys.readouterr().err
    assert "--needs has 'updates'" in told
    assert "--needs nothing" in told


def test_a_space_of_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    LESS["explain"](monkeypatch)
    alone = Space.of_one(TIMED_SPACE.named("EASE"))
    with refuses(ValueError, "needs"):
        alone.able(("explain",))
    assert alone.able(("update",)) == (alone, {})


def test_a_file_is_gone_on_with_other_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trials stay; those of models that are left out do not count."""
    LESS["update"](monkeypatch)
    ask: dict[str, Any] = {**SMALL, "trials": 8, "storage": tmp_path / "search.sqlite"}
    every = {row["family"] for row in mfrank.tune(DATA, **ask, needs=()).leaderboard}
    assert "EASE" in every
    fewer = mfrank.tune(DATA, **ask)
    rows = {row["family"]: row for row in fewer.leaderboard}
    assert rows["EASE"]["value"] is None
    assert every <= set(rows) | {"blend"}
    again = mfrank.tune(DATA, **ask, needs=())
    assert next(row for row in again.leaderboard if row["family"] == "EASE")["value"]
    same = mfrank.refit(fewer.model, DATA)
    np.testing.assert_array_equal(same.item_factors, fewer.model.item_factors)
    assert type(same) is type(fewer.model)


def test_matrices_and_frames_are_searched_alike() -> None:
    for data in (DATA.user_items, sp.coo_array(DATA.user_items)):
        found = mfrank.tune(data, trials=1, factors=4, n_threads=1, needs="update")
        assert found.model.seen is not None
