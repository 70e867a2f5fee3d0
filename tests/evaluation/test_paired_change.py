"""A model beside an earlier version of it: paired by users, in Python and on the command line."""

from __future__ import annotations

import json
import math
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.evaluation import Difference
from tests.support.errors import refuses

K = 5


@cache
def days() -> tuple[mfrank.Interactions, mfrank.Interactions, mfrank.Interactions]:
    """Three days of text ids; the second and the third have new users and items."""
    drawn = mfrank.synthetic(80, 50, 1500, random_state=0)
    cells = list(zip(drawn.entry_users, drawn.user_items.indices, strict=True))
    kept = [
        [cell for n, cell in enumerate(cells) if n % 3 == part and max(cell) < most]
        for part, most in enumerate((40, 45, 80))
    ]
    return tuple(  # type: ignore[return-value]
        mfrank.Interactions.from_arrays(
            [f"u{user}" for user, _ in part], [f"i{item}" for _, item in part]
        )
        for part in kept
    )


def als(width: int = 6) -> mfrank.ALS:
    return mfrank.ALS(mfrank.IALS(), factors=width, iterations=3, random_state=0)


MODELS: dict[str, Any] = {
    "ALS": als,
    "Descent": lambda: mfrank.Descent(mfrank.BPR(), 4, 3, random_state=0),
    "EASE": mfrank.EASE,
    "Popularity": mfrank.Popularity,
    "Blend": lambda: mfrank.Blend([als(), mfrank.ItemKNN()], [1, 0.3]),
}


def ndcg_of(model: Any, user: str, seen: set[str], relevant: set[str]) -> float:
    """By the definition, from the whole list of a user without what the newer model saw."""
    ids, _ = model.recommend(user, N=len(model.item_ids), filter_already_liked_items=False)
    ranked = [item for item in ids if item is not None and item not in seen][:K]
    gain = sum(1 / math.log2(rank + 2) for rank, item in enumerate(ranked) if item in relevant)
    return gain / sum(1 / math.log2(rank + 2) for rank in range(min(K, len(relevant))))


def items_of(data: mfrank.Interactions, user: str) -> set[str]:
    if user not in set(data.user_ids.labels.tolist()):
        return set()
    return set(data.item_ids.raw(data.user_items[data.user_ids.rows([user])].indices).tolist())


@pytest.mark.parametrize("kind", MODELS)
def test_the_change_is_that_of_the_users_whom_both_know(kind: str) -> None:
    first, second, third = days()
    earlier = MODELS[kind]().fit(first)
    model = mfrank.refit(earlier, first + second)
    assert len(earlier.user_ids) < len(model.user_ids)
    assert len(earlier.item_ids) < len(model.item_ids)
    wanted = []
    for user in model.user_ids.labels.tolist():
        seen = items_of(first, user) | items_of(second, user)
        relevant = items_of(third, user) & set(model.item_ids.labels.tolist()) - seen
        if relevant and user in set(earlier.user_ids.labels.tolist()):
            each = (ndcg_of(one, user, seen, relevant) for one in (model, earlier))
            wanted.append(next(each) - next(each))
    found = mfrank.paired_change(model, earlier, third, mfrank.NDCG @ K)
    assert found.n_users == len(wanted) > 9
    assert found.mean == pytest.approx(np.mean(wanted), abs=1e-6)
    assert found.standard_error == pytest.approx(np.std(wanted, ddof=1) / len(wanted) ** 0.5)
    still = mfrank.paired_change(model, model, third)
    assert still.mean == 0
    assert not still.is_fall(0)


def test_rows_of_matrices_are_ids_also_where_there_are_more_of_them() -> None:
    first, second = (mfrank.synthetic(n, 30, 400, random_state=n).to_scipy() for n in (40, 60))
    earlier = als().fit(first)
    model = als().fit(first).partial_fit(second)
    third = mfrank.synthetic(60, 30, 300, random_state=1).to_scipy()
    assert 9 < mfrank.paired_change(model, earlier, third).n_users <= 40


@pytest.mark.parametrize(
    ("mean", "error", "errors", "falls"),
    [
        (-0.31, 0.1, 3, True),
        (-0.3, 0.1, 3, False),
        (-0.05, 0.1, 0.4, True),
        (0.5, 0.1, 3, False),
        (0.0, 0.0, 3, False),
        (-0.1, 0.0, 3, True),
        (-0.1, math.nan, 3, False),
    ],
)
def test_a_fall_is_more_than_so_many_errors(
    mean: float, error: float, errors: float, falls: bool
) -> None:
    change = Difference(mfrank.NDCG @ K, mean, error, 0, 0, 0, 9)
    assert change.is_fall(errors) is falls


@cache
def fitted() -> tuple[Any, Any]:
    return als().fit(days()[0] + days()[1]), als().fit(days()[0])


def without_seen(model: Any) -> Any:
    return mfrank.Recommender.of(model.store)


@pytest.mark.parametrize(
    ("call", "error", "argument"),
    [
        (lambda new, old: (new.store, old, days()[2]), TypeError, "model"),
        (lambda new, old: (new, 3, days()[2]), TypeError, "earlier"),
        (lambda new, old: (without_seen(new), old, days()[2]), ValueError, "model"),
        (lambda new, old: (new, old, days()[1]), ValueError, "test"),
        (lambda new, old: (new, old, mfrank.synthetic(9, 9, 40)), ValueError, "test"),
        (lambda new, old: (new, als().fit(mfrank.synthetic(9, 9, 40)), days()[2]), ValueError, ""),
    ],
    ids=["a store", "no model", "nothing seen", "learned", "row numbers", "other ids"],
)
def test_what_cannot_be_compared_is_refused(
    call: Any, error: type[Exception], argument: str
) -> None:
    with refuses(error, argument or "earlier"):
        mfrank.paired_change(*call(*fitted()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of two versions, of which the older is the better one, and a day."""
    monkeypatch.chdir(tmp_path)
    new, old = fitted()
    new.save("model", keep=3)
    spoiled = copy(new)
    spoiled._hold(replace(new.store, item_factors=-new.store.item_factors), new.seen)
    spoiled.save("model", keep=3)
    old.save("alone")
    data = days()[2]
    users = data.user_ids.raw(data.entry_users)
    items = data.item_ids.raw(data.user_items.indices)
    rows = [f"{user},{item}" for user, item in zip(users, items, strict=True)]
    Path("day.csv").write_text("\n".join(["user,item", *rows]) + "\n")
    return tmp_path


def test_the_status_of_evaluate_tells_a_fall(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["evaluate", "--model", "model", "--test", "day.csv", "--metric", "ndcg@5", "--against"]
    change = mfrank.paired_change(
        mfrank.load("model"), mfrank.load("model", version=1), days()[2], "ndcg@5"
    )
    steps = -change.mean / change.standard_error
    assert steps > 0.2
    for errors, status in ((steps - 0.1, 3), (steps + 0.1, 0)):
        assert main([*line, "model@1", "--alert", str(errors), "--json", "scores.json"]) == status
        assert ("ALERT" in capsys.readouterr().out) is (status == 3)
    told = json.loads(Path("scores.json").read_text())["against"]
    assert told["mean"] == pytest.approx(change.mean)
    assert main([*line, "alone"]) == 0  # another folder
    assert "against alone: NDCG@5: " in capsys.readouterr().out
    assert main(["rollback", "--model", "model"]) == 0
    assert "ALS" in capsys.readouterr().out
    assert mfrank.load("model").store.factors == 6
    assert main([*line, "model@1", "--alert", "3"]) == 0
    assert "no earlier version yet" in capsys.readouterr().err
    assert main(["rollback", "--model", "model"]) == 2
    assert "--keep 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("--alert 3", "--against"),
        ("--against model@1 --alert -1", "--alert"),
        ("--against model@1 --include-seen", "--include-seen"),
        ("--against model@1 --train day.csv", "--train"),
        ("--against model@2", "has no version 2"),
        ("--against none@1", "none"),
        ("--against none", "none"),
    ],
)
def test_comparisons_that_cannot_be_have_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str], more: str, told: str
) -> None:
    assert main(["evaluate", "--model", "model", "--test", "day.csv", *more.split()]) == 2
    assert told in capsys.readouterr().err


def test_commands_read_versions_and_a_folder_of_such_a_name_is_itself(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["recommend", "--n", "3", "--user", "u1", "--model"]
    assert main([*line, "model@1"]) == 0
    earlier = capsys.readouterr().out
    assert main([*line, "model@0"]) == 0
    assert capsys.readouterr().out != earlier
    fitted()[0].save("model@7")
    assert main([*line, "model@7"]) == 0
    assert capsys.readouterr().out == earlier
    assert main(["update", "day.csv", "--model", "model", "--keep", "2"]) == 0
    assert mfrank.n_versions("model") == 2
    assert main(["update", "day.csv", "--model", "model@1"]) == 2
