"""The leaderboard of a search: what its rows say, and how they are shown and written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import mfrank
from mfrank.evaluation import Score
from mfrank.tuning import (
    BASELINES,
    FAMILIES,
    BlendPart,
    Budget,
    Facts,
    Leaderboard,
    Outcome,
    Runner,
    SearchResult,
    Setting,
    Trial,
    TrialJudge,
)

JUDGE = TrialJudge.of(mfrank.synthetic(60, 40, 900, random_state=0), mfrank.NDCG @ 20, 0, 1)
RUNNER = Runner(Setting(Facts.of(JUDGE.train), 16, 0, 1), JUDGE, Budget(None), {})
WIDE = Outcome(Trial("IALS", (0.5,) * 3, 1), 0.3, 0.01, 4, 2.0, 1.5, 0.1)
PLAIN = Outcome(Trial("ItemFilter", (0.5,) * 2, 0), 0.2, 0.0, 1, 0.5, 0.4, 0.1)
OF_ONE = Outcome(Trial("ItemKNN", (), 0), 0.1, None, 1, 0.25, 0.2, 0.1)
FAILED = Outcome(Trial("RG2", (0.5,) * 3, 2), None, seconds=1.5, error="MemoryError: too wide")
REASON = "left out: there was no time for it"


def board(
    outcomes: tuple[Outcome, ...] = (PLAIN, FAILED, OF_ONE, WIDE), *, blend: bool = False
) -> Leaderboard:
    parts = [BlendPart(WIDE), BlendPart(PLAIN, 0.5)][: 1 + blend]
    score = Score(0.4, 0.02) if blend else None
    return SearchResult(RUNNER, outcomes, {"EASE": REASON}, parts, score).leaderboard


def test_rows_are_best_first_and_say_what_was_tried() -> None:
    rows = board(blend=True)
    assert [row["family"] for row in rows] == [
        *("blend", "IALS", "ItemFilter", "ItemKNN"),
        *("RG2", "EASE"),  # without a value
    ]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert {row["metric"] for row in rows} == {"NDCG@20"}
    assert [row["epochs"] for row in rows] == [0, 4, 1, 1, 0, 0]
    assert [row["rung"] for row in rows] == [None, 1, 0, 0, 2, None]
    assert [row["seconds"] for row in rows] == [0, 2.0, 0.5, 0.25, 1.5, 0]
    assert [row["factors"] for row in rows] == [None, 5, None, None, 16, None]
    assert [row["error"] for row in rows] == [None] * 4 + ["MemoryError: too wide", REASON]
    assert [row["weight"] for row in rows] == [1.0, 1.0, 0.5, None, None, None]
    assert (rows[0]["model"], rows[5]["model"]) == ("1 IALS + 0.5 ItemFilter", "EASE")
    assert len({tuple(row) for row in rows}) == 1  # all rows have the same keys
    alone = board()
    assert [row["family"] for row in alone][:2] == ["IALS", "ItemFilter"]
    assert [row["weight"] for row in alone] == [1.0, None, None, None, None]


def test_intervals_reach_1_96_standard_errors_where_there_is_one() -> None:
    found = {row["family"]: row for row in board(blend=True)}
    for family, value, error in (("blend", 0.4, 0.02), ("IALS", 0.3, 0.01), ("ItemFilter", 0.2, 0)):
        row = found[family]
        assert (row["value"], row["standard_error"]) == (value, error)
        assert row["low"] == pytest.approx(value - 1.96 * error)
        assert row["high"] == pytest.approx(value + 1.96 * error)
    for family, known in (("ItemKNN", 0.1), ("RG2", None), ("EASE", None)):
        row = found[family]
        shown = row["value"], row["standard_error"], row["low"], row["high"]
        assert shown == (known, None, None, None)
    of_one = SearchResult(RUNNER, [], {}, [BlendPart(WIDE)] * 2, Score(0.4, math.nan)).leaderboard
    assert (of_one[0]["value"], of_one[0]["low"], of_one[0]["standard_error"]) == (0.4, None, None)


@pytest.mark.parametrize(
    "family",
    [*BASELINES, *(one for of_ladder in FAMILIES.values() for one in of_ladder)],
    ids=lambda family: family.name,
)
def test_the_model_of_a_row_is_the_call_that_makes_it(family: Any) -> None:
    trial = Trial(family.name, (0.25,) * len(family.axes), 0)
    (row, *_) = board((Outcome(trial, 0.5),))
    made = eval(row["model"], {name: getattr(mfrank, name) for name in mfrank.__all__})
    assert repr(made) == repr(RUNNER.model(trial))


def test_a_leaderboard_is_a_sequence() -> None:
    rows = board()
    assert len(rows) == 5
    assert rows[1] == list(rows)[1]
    assert list(rows[1:3]) == list(rows)[1:3]
    assert rows[-1]["family"] == "EASE"


def test_what_is_not_known_is_shown_as_a_dash() -> None:
    head, *lines = str(board()).splitlines()
    titles = "rank value interval factors epochs seconds used model"
    assert " ".join(head.split()) == titles
    assert lines[0].split()[:8] == ["1", "0.3000", "0.2804", "to", "0.3196", "5", "4", "2.0"]
    assert lines[0].split()[8:9] == ["1"]
    knn = lines[2].split()
    assert knn == ["3", "0.1000", "-", "-", "1", "0.2", "ItemKNN(neighbors=100)"]
    assert lines[3].split()[:6] == ["4", "-", "-", "16", "0", "1.5"]
    assert lines[3].endswith("): MemoryError: too wide")
    assert lines[4].split(maxsplit=6)[1:] == ["-", "-", "-", "0", "0.0", f"EASE: {REASON}"]


@pytest.mark.parametrize(("number", "told"), [(9, []), (10, ["... 1 more"]), (14, ["... 5 more"])])
def test_ten_rows_are_shown(number: int, told: list[str]) -> None:
    rows = board((PLAIN,) * number)
    _, *lines = str(rows).splitlines()
    assert lines[10:] == told
    assert [line.split()[0] for line in lines[:10]] == [str(rank) for rank in range(1, 11)]
    assert rows._repr_html_().count("<tr") == 1 + 10


@pytest.mark.parametrize("less", [0, 1, 90])
def test_a_model_that_has_no_room_in_the_terminal_is_on_lines_below(
    less: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = board((WIDE,) * 3)
    wide = str(rows).splitlines()
    longest = max(map(len, wide))
    monkeypatch.setattr("mfrank.tuning.leaderboard.terminal_width", lambda: longest - less)
    shown = str(rows).splitlines()
    assert str(rows).split() == "\n".join(wide).split()
    if not less:
        assert shown == wide
        return
    assert max(map(len, shown)) <= longest - less
    first, *below = shown[1 : next(at for at, line in enumerate(shown) if line[0] == "2")]
    assert "IALS" not in first
    value = shown[0].index("value")  # below it the model begins
    assert {len(line) - len(line.lstrip()) for line in below} == {value}
    assert below[0].lstrip().startswith("ALS(")
    assert (len(below) > 1) == (less > 1)


def test_json_can_be_read_by_people_and_programs(tmp_path: Path) -> None:
    rows = board(blend=True)
    text = rows.to_json(tmp_path / "board.json")
    assert json.loads(text) == list(rows)
    assert (tmp_path / "board.json").read_text(encoding="utf-8") == text + "\n"
    assert text.splitlines()[:3] == ["[", "  {", '    "rank": 1,']


def test_a_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas", reason="frames are those of pandas")
    rows = board()
    pandas.testing.assert_frame_equal(rows.to_frame(), pandas.DataFrame(list(rows)))
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"to_frame needs pandas: .*mfrank\[pandas\]"):
        rows.to_frame()
