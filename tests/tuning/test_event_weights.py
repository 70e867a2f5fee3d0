"""One kind of event is ranked, and the weights of the others are found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.tuning import TargetData, WeightSearch, budget_of
from tests.support.errors import refuses

FEW: dict[str, Any] = {"trials": 1, "factors": 32}


def shop(timed: bool = False, scale: int = 1, seed: int = 0) -> mfrank.Events:
    """Purchases and carts of a user's own taste; views of what is popular, whoever looks."""
    rng = np.random.default_rng(seed)
    n_users, n_items, tastes = 200 * scale, 240, 8
    kinds = np.repeat(["purchase", "cart", "view"], np.array([600, 1600, 2400]) * scale)
    users = rng.integers(0, n_users, len(kinds))
    own = users % tastes + tastes * rng.integers(0, n_items // tastes, len(users))
    popular = (rng.zipf(1.4, len(users)) - 1) % n_items
    items = np.where(kinds == "view", popular, own)
    times = rng.permutation(len(users)) if timed else None
    return mfrank.Events.from_arrays(users, items, kinds, timestamps=times)


def searched(events: mfrank.Events) -> dict[str, float | None]:
    data = TargetData.of(events, "purchase", None, 0)
    search = WeightSearch(data, mfrank.NDCG @ 10, budget_of(None), 64, 0, 1)
    return search.best()


def test_misleading_views_get_a_low_weight_and_helpful_carts_a_high_one() -> None:
    found = searched(shop(timed=True, scale=5))
    assert found["purchase"] == 1
    assert (found["view"] or 0) < 0.1
    assert (found["cart"] or 0) >= 0.2


def test_the_weights_do_not_depend_on_chance_or_on_the_clock() -> None:
    assert searched(shop()) == searched(shop())


@pytest.mark.parametrize("timed", [False, True])
def test_a_call_finds_weights_and_records_them(timed: bool, tmp_path: Path) -> None:
    events = shop(timed)
    found = mfrank.tune(events, target="purchase", **FEW)
    weights = found.weights
    assert weights is not None
    assert set(weights) == {"cart", "purchase", "view"}
    assert found.validation == ("by time" if timed else "per user")
    assert "weights={'cart': " in repr(found)
    found.model.save(tmp_path / "m")
    assert mfrank.load(tmp_path / "m").store.event_weights == weights
    again = mfrank.tune(events, target="purchase", weights=weights, **FEW)
    assert again.weights == weights
    np.testing.assert_array_equal(again.model.item_factors, found.model.item_factors)


def test_lists_leave_out_what_was_bought_alone() -> None:
    events = shop()
    given = {"view": 1, "cart": 1, "purchase": 2}
    model = mfrank.tune(events, target="purchase", weights=given, **FEW).model
    lists = model.recommend(np.arange(200), N=240, by_row=True).ids
    rows = events.item_ids.rows(lists.ravel().tolist(), missing=-1).reshape(lists.shape)
    shown = np.zeros((200, 240), bool)
    for user, row in enumerate(rows):
        shown[user, row[row >= 0]] = True
    bought, viewed = (events[kind].user_items.toarray() > 0 for kind in ("purchase", "view"))
    assert not (shown & bought).any()
    assert (shown & viewed).any()


@pytest.mark.parametrize("kind", ["events", "interactions", "frame"])
def test_a_validation_part_is_matched_by_id_and_trained_on_at_last(kind: str) -> None:
    pytest.importorskip("pandas", reason="needs pandas")
    events = shop()
    is_valid = (events.codes == events.kinds.index("purchase")) & (np.arange(len(events)) % 5 == 0)
    rest, part = events.take(~is_valid), events.take(is_valid)
    valid: Any = part
    if kind != "events":
        valid = part["purchase"] if kind == "interactions" else part["purchase"].to_pandas()
    weights = {"view": 0.1, "cart": 1, "purchase": 4}
    found = mfrank.tune(rest, target="purchase", weights=weights, valid=valid, **FEW)
    assert found.validation == "as given"
    want = events.weighted(weights).user_items.astype(bool)
    assert (found.model.seen.matrix.astype(bool) != want).nnz == 0


def test_a_frame_is_read_as_events() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    events = shop()
    frame = pandas.DataFrame(
        {"user": events.users, "item": events.items, "event": np.array(events.kinds)[events.codes]}
    )
    found = mfrank.tune(frame, target="purchase", weights=dict.fromkeys(events.kinds, 1), **FEW)
    assert found.weights == {"cart": 1, "purchase": 1, "view": 1}


def test_what_is_given_for_a_target_is_checked() -> None:
    events = shop()
    data = events["purchase"]
    tune = mfrank.tune
    with refuses(TypeError, "target", remedy="mfrank.Events"):
        tune(data, target="purchase", **FEW)
    with refuses(TypeError, "data", remedy="target"):
        tune(events, **FEW)
    with refuses(ValueError, "weights", remedy="name the kind"):
        tune(data, weights={"view": 1}, **FEW)
    with refuses(ValueError, "target", remedy="the kinds are"):
        tune(events, target="buy", **FEW)
    for odd in ({"view": -1, "cart": 1, "purchase": 1}, {"view": 1, "cart": 1, "purchase": 0}):
        with refuses(ValueError, "weights"):
            tune(events, target="purchase", weights=odd, **FEW)
    with refuses(ValueError, "weights", remedy="give each a weight"):
        tune(events, target="purchase", weights={"view": 1}, **FEW)
    other = mfrank.Interactions.from_arrays(["a"], ["b"])
    with refuses((TypeError, ValueError), "valid"):
        tune(events, target="purchase", valid=other, **FEW)


def test_a_search_is_resumed_with_the_same_weights(tmp_path: Path) -> None:
    storage = tmp_path / "search.sqlite"
    first, second = (
        mfrank.tune(shop(), target="purchase", storage=storage, **FEW) for _ in range(2)
    )
    assert first.weights == second.weights
    assert len(first.leaderboard) == len(second.leaderboard)


def test_the_command_finds_weights_and_info_tells_them(tmp_path: Path, capsys: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    events = shop()
    frame = pandas.DataFrame(
        {"user": events.users, "item": events.items, "what": np.array(events.kinds)[events.codes]}
    )
    path, folder = tmp_path / "shop.csv", str(tmp_path / "m")
    frame.to_csv(path, index=False)
    line = ["tune", str(path), "--event", "what", "--model", folder, "--trials", "1"]
    line += ["--factors", "32", "--target"]
    assert main([*line, "purchase"]) == 0
    printed = capsys.readouterr().out
    assert "the same events: --weights cart=" in printed
    assert main(["info", "--model", folder]) == 0
    assert "weights of events" in capsys.readouterr().out
    own = mfrank.load(folder).store.event_weights
    flag = ",".join(f"{k}={'none' if w is None else w}" for k, w in own.items())
    assert main([*line, "purchase", "--weights", flag]) == 0
    assert mfrank.load(folder).store.event_weights == own
    capsys.readouterr()
    for more, words in (
        (["buy"], "--target must be a kind of event"),
        (["purchase", "--leave-out-events", "view"], "--target"),
        (["purchase", "--at-least", "2"], "--at-least"),
    ):
        assert main([*line, *more]) == 2
        assert words in capsys.readouterr().err
    pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        frame.to_sql("shop", connection, index=False)
    line[1:2] = [f"sqlite:///{tmp_path}/a.db", "--query", "SELECT * FROM shop"]
    assert main([*line, "purchase", "--weights", flag]) == 0
    assert mfrank.load(folder).store.event_weights == own
    # Purchases of another file are judged without its views.
    test = ["evaluate", "--model", folder, "--test", str(path), "--include-seen"]
    assert main([*test, "--where", "what=purchase"]) == 0


def test_commands_judge_a_model_of_all_events_by_one_kind(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python does with the same parts."""
    # Its memory would be measured in a new process for each contender.
    monkeypatch.setattr("mfrank.comparison.protocol.peak_memory", lambda *_: None)
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    events = shop()
    is_test = np.arange(len(events)) % 4 == 0
    rows = {
        "user": events.users,
        "item": events.items,
        "event": np.array(events.kinds)[events.codes],
    }
    frame, weights = pandas.DataFrame(rows), {"view": 0.5, "cart": 2.0, "purchase": 5.0}
    paths = [str(tmp_path / name) for name in ("train.csv", "test.csv")]
    for path, part in zip(paths, (frame[~is_test], frame[is_test]), strict=True):
        part.to_csv(path, index=False)
    flag = ["--weights", "view=0.5,cart=2,purchase=5"]
    small = ["--factors", "4", "--iterations", "2"]
    folder, scores = str(tmp_path / "m"), tmp_path / "scores.json"
    line = ["fit", paths[0], "--model", folder, "--objective", "wrmf", *small, *flag]
    assert main([*line, "--random-state", "0", "--leave-out-events", "purchase"]) == 0
    line = ["evaluate", "--model", folder, "--test", paths[1], "--json", str(scores)]
    known = mfrank.load(folder)
    bought = mfrank.Interactions.from_frame(frame[is_test], where={"event": "purchase"})
    wanted = mfrank.evaluate(known, bought)["ndcg@10"].value
    for chosen in (["--target", "purchase"], ["--where", "event=purchase"]):
        assert main([*line, *chosen]) == 0
        assert str(wanted)[:8] in scores.read_text()
    table = tmp_path / "table.json"
    line = ["compare", paths[0], "--target", "purchase", "--objective", "wrmf", *small, *flag]
    line += ["--repeats", "1", "--metric", "ndcg@10", "--random-state", "0", "--json", str(table)]
    assert main([*line, "--test", paths[1]]) == 0
    assert str(wanted)[:8] in table.read_text()
    assert main([*line, "--split", "leave-out"]) == 0
    split = mfrank.Events.of(frame[~is_test]).split("purchase", mfrank.leave_k_out)
    objective = mfrank.WRMF()
    model = mfrank.ALS(objective, factors=4, iterations=2, random_state=0)
    model.fit(split.train.weighted(weights)).leave_out(split.train["purchase"])
    assert str(mfrank.evaluate(model, split.test)["ndcg@10"].value)[:8] in table.read_text()
    capsys.readouterr()
    for odd, told in (["--tune", "1"], "--iterations"), (["--at-least", "1"], "--at-least"):
        assert main([*line, *odd]) == 2
        assert told in capsys.readouterr().err


def test_what_is_viewed_and_often_bought_by_those_who_view_it_is_ranked_first() -> None:
    """Of the items that a user has viewed, half are bought by most who view them."""
    rng = np.random.default_rng(0)
    views = np.argwhere(rng.random((300, 40)) < 0.3)
    bought = views[rng.random(len(views)) < np.where(views[:, 1] % 2, 0.6, 0.05)]
    users, items = np.concatenate([views, bought]).T
    kinds = np.repeat(["view", "purchase"], [len(views), len(bought)])
    held_out = (np.cumsum(kinds == "purchase") % 5 == 0) & (kinds == "purchase")
    parts = (
        mfrank.Events.from_arrays(users[rows], items[rows], kinds[rows])
        for rows in (~held_out, held_out)
    )
    train, valid = parts
    found = mfrank.tune(
        train,
        target="purchase",
        valid=valid,
        weights={"view": 0.2, "purchase": 1},
        trials=9,
        factors=8,
    )
    best = found.leaderboard[0]
    assert "ItemKNN with own items" in [row["family"] for row in found.leaderboard if row["weight"]]
    knn = next(row["value"] for row in found.leaderboard if row["family"] == "ItemKNN")
    assert best["value"] > 1.5 * knn
