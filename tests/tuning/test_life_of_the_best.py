"""README's flow, whatever wins: tuned, saved, loaded, explained, updated, served, fitted again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.models import values_told
from mfrank.tuning import (
    OF_EVENTS,
    TIMED_SPACE,
    BlendPart,
    Regression,
    Space,
    one_call,
    search_result,
)

KINDS = ["view", "cart", "purchase"]
EVERY = [*TIMED_SPACE.families(), *chain(*OF_EVENTS.values()), *TIMED_SPACE.baselines]


def rows() -> dict[str, np.ndarray]:
    drawn = mfrank.synthetic(60, 30, 900, random_state=0)
    order = np.random.default_rng(0).permutation(drawn.nnz)
    return {
        "user": np.array([f"u{row}" for row in drawn.entry_users[order]]),
        "item": np.array([f"i{row}" for row in drawn.user_items.indices[order]]),
        "event": np.array(KINDS)[np.arange(drawn.nnz) % 3],
        "value": 1.0 + np.arange(drawn.nnz) % 5,
        "timestamp": 1_700_000_000 + 600 * np.arange(drawn.nnz),
    }


def interactions(columns: dict[str, Any]) -> mfrank.Interactions:
    order = "user", "item", "value", "timestamp"
    return mfrank.Interactions.from_arrays(*(columns[name] for name in order), timestamp_unit="s")


DAY = {
    "user": np.array(["newcomer", "newcomer", "u1", "u2"]),
    "item": np.array(["i1", "novelty", "novelty", "i7"]),
    "value": np.array([2.0, 1.0, 3.0, 1.0]),
    "timestamp": 1_800_000_000 + np.arange(4),
}


def force(patch: pytest.MonkeyPatch, winners: Sequence[Any]) -> None:
    """Let these win: a family or a baseline alone, or several families as a blend."""
    baselines = tuple(family for family in winners if family in TIMED_SPACE.baselines)
    ladders = {family.name: (family,) for family in winners if family not in baselines}
    space = Space({"ALS": (), **ladders}, baselines)
    patch.setattr(one_call, "SPACE", space)
    patch.setattr(search_result, "OF_EVENTS", {})
    patch.setattr(Regression, "suits", lambda *_: True)  # also that of many items
    if len(winners) > 1:
        patch.setattr(search_result, "mixed", blend_of_all)


def blend_of_all(_: Any, outcomes: Sequence[Any], *__: Any) -> tuple[list[BlendPart], None]:
    best = {each.trial.family: each for each in reversed(outcomes)}
    ranked = sorted(best.values(), key=lambda each: -each.value)
    return [BlendPart(each, 1 / (1 + place)) for place, each in enumerate(ranked)], None


def named(name: str) -> Any:
    return next(family for family in EVERY if family.name == name)


WINNERS: dict[str, list[Any]] = {family.name: [family] for family in EVERY}
WINNERS |= {
    " + ".join(names): [named(name) for name in names]
    for names in (
        ("WRMF", "EASE"),
        ("RecentPopularity", "IALS", "SampledSoftmax"),
        ("NextItem", "RG2", "ItemFilter", "SampledSoftmax"),
    )
}


@pytest.fixture(params=WINNERS)
def winners(request: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found = WINNERS[request.param]
    force(monkeypatch, found)
    return found


def tuned(winners: Sequence[Any], events: bool) -> Any:
    small: dict[str, Any] = {"trials": 2 * len(winners), "factors": 4, "n_threads": 1}
    if not events:
        return mfrank.tune(interactions(rows()), **small)
    pd = pytest.importorskip("pandas")
    frame, weights = pd.DataFrame(rows()), {"view": 0.3, "cart": 0.5, "purchase": 1.0}
    return mfrank.tune(frame.drop(columns="value"), target="purchase", weights=weights, **small)


def is_of(model: Any, winners: Sequence[Any]) -> bool:
    if len(winners) == 1:
        return type(model) is winners[0].kind
    kinds = sorted(family.kind.__name__ for family in winners)
    return sorted(type(part).__name__ for part in model.parts) == kinds


def check_explained(model: Any, user: str, item: str) -> None:
    why = model.explain(user, None, item, N=99)
    assert why.score == pytest.approx(model.score([user], [item])[0], rel=1e-4, abs=1e-5)
    assert sum(part for _, part in why.contributions) + why.baseline == pytest.approx(why.score)


@pytest.mark.parametrize("events", [False, True], ids=["interactions", "events"])
def test_whatever_wins_lives(winners: list[Any], events: bool, tmp_path: Path) -> None:
    found, folder, users = tuned(winners, events), tmp_path / "model", ["u3", "u5", "u8"]
    assert is_of(found.model, winners)
    lists = found.model.recommend(users, N=5)
    found.model.save(folder)
    model = mfrank.load(folder)
    assert repr(model) == repr(found.model)
    np.testing.assert_array_equal(model.recommend(users, N=5).ids, lists.ids)
    check_explained(model, "u3", lists.ids[0, 0])
    with values_told():
        model.partial_fit(interactions(DAY), batch="monday")
        again = mfrank.refit(model, interactions(rows()))
    of_new = model.recommend("newcomer", N=5)
    assert of_new.ids[0] is not None
    assert not {"i1", "novelty"} & set(of_new.ids)
    assert model.recommend_from_items(["i1", "novelty"], N=5).ids[0] is not None
    check_explained(model, "newcomer", of_new.ids[0])
    assert is_of(again, winners)
    if not events:
        np.testing.assert_array_equal(again.recommend(users, N=5).ids, lists.ids)
    model.save(folder)
    check_served(folder, "newcomer", of_new)


def check_served(folder: Path, user: str, wanted: Any) -> None:
    pytest.importorskip("fastapi")
    from clients import client

    api = client(folder)
    answer = api.get(f"/recommend/{user}?n=5").json()["items"]
    assert [each["id"] for each in answer] == [each["id"] for each in wanted.to_dicts()]
    assert api.get(f"/explain/{user}/{answer[0]['id']}").status_code == 200
    posted = api.post("/recommend", json={"from_items": ["novelty"], "n": 3})
    assert posted.json()["lists"][0]["items"] == model_lists(folder)


def model_lists(folder: Path) -> Any:
    return mfrank.load(folder).recommend_from_items(["novelty"], N=3).to_dicts()


def write(path: Path, columns: dict[str, Any]) -> str:
    lines = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines))
    return str(path)


def test_whatever_wins_lives_in_the_shell(winners: list[Any], tmp_path: Path, capsys: Any) -> None:
    before = {name: column for name, column in rows().items() if name != "event"}
    train, day = write(tmp_path / "train.csv", before), write(tmp_path / "day.csv", DAY)
    both = {name: np.concatenate([column, DAY[name]]) for name, column in before.items()}
    whole, model, newer = (
        write(tmp_path / "all.csv", both),
        str(tmp_path / "m"),
        str(tmp_path / "n"),
    )

    def mfrank_(*line: str) -> str:
        assert main([*line]) == 0, capsys.readouterr().err
        return str(capsys.readouterr().out)

    small = "--trials", str(2 * len(winners)), "--factors", "4", "--n-threads", "1"
    mfrank_("tune", train, *small, "--model", model)
    assert is_of(mfrank.load(model), winners)
    (listed,) = json.loads(mfrank_("recommend", "--model", model, "--user", "u3", "--json", "-"))
    item = listed["items"][0]["id"]
    assert "because" in mfrank_("explain", "--model", model, "u3", item)
    mfrank_("update", day, "--model", model, "--batch", "monday")
    listed = mfrank_("recommend", "--model", model, "--user", "newcomer", "--n", "5")
    assert listed.count("newcomer") > 0
    mfrank_("tune", whole, "--refit", model, "--model", newer)
    assert "newcomer" in mfrank_("recommend", "--model", newer, "--user", "newcomer", "--n", "5")
