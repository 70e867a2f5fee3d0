"""What lists leave out may be chosen: every model, in every way that it gives lists."""

from __future__ import annotations

import copy
import csv
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strangers
from rerankers import fitted as reranked
from strangers import N_ITEMS, N_USERS, train

import mfrank
from mfrank.cli.main import main
from tests.support.errors import refuses

Lists = dict[str, list[str]]


def bought() -> mfrank.Interactions:
    """A third of what users have, and some that they do not have."""
    data, rng = train(), np.random.default_rng(3)
    had = data.take(rng.random(data.nnz) < 0.3)
    others = np.argwhere((data.user_items.toarray() == 0) & (rng.random((N_USERS, N_ITEMS)) < 0.2))
    more = mfrank.Interactions.from_arrays(
        data.user_ids.raw(others[:, 0]), data.item_ids.raw(others[:, 1])
    )
    return mfrank.Interactions.from_arrays(
        [*had.user_ids.raw(had.entry_users), *more.user_ids.raw(more.entry_users)],
        [*had.item_ids.raw(had.user_items.indices), *more.item_ids.raw(more.user_items.indices)],
    )


def chosen(name: str) -> Any:
    """A copy of a fitted model whose lists leave out what was bought."""
    return copy.copy(strangers.model(name)).leave_out(bought())


def pairs(data: mfrank.Interactions) -> set[tuple[str, str]]:
    users, items = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    return set(zip(users.tolist(), items.tolist(), strict=True))


def expected(model: Any) -> Lists:
    """The lists of everything, without what was bought."""
    users = model.user_ids.labels
    everything = model.recommend(users, N=N_ITEMS, filter_already_liked_items=False).ids
    out = pairs(bought())
    return {
        user: [item for item in row if item is not None and (user, item) not in out]
        for user, row in zip(users.tolist(), everything.tolist(), strict=True)
    }


def in_one_call(model: Any, _: Path) -> Lists:
    users = model.user_ids.labels
    rows = model.recommend(users, N=N_ITEMS).ids.tolist()
    return dict(zip(users.tolist(), rows, strict=True))


def one_by_one(model: Any, _: Path) -> Lists:
    users = model.user_ids.labels
    return {user: model.recommend(user, N=N_ITEMS).ids.tolist() for user in users.tolist()}


def by_row(model: Any, _: Path) -> Lists:
    rows = model.recommend(np.arange(N_USERS), N=N_ITEMS, by_row=True).ids
    users, items = model.user_ids.labels.tolist(), model.item_ids.labels
    return {
        user: [None if item < 0 else items[item] for item in row]
        for user, row in zip(users, rows.tolist(), strict=True)
    }


def pickled(model: Any, _: Path) -> Lists:
    return in_one_call(pickle.loads(pickle.dumps(model)), _)


def loaded(model: Any, folder: Path) -> Lists:
    model.save(folder / "model")
    return in_one_call(mfrank.load(folder / "model"), folder)


def mapped(model: Any, folder: Path) -> Lists:
    model.save(folder / "model")
    return in_one_call(mfrank.load(folder / "model", mmap=True, verify=True), folder)


def in_files(model: Any, folder: Path) -> Lists:
    model.recommend_all(folder / "lists", N=N_ITEMS, format="csv")
    lists: Lists = {user: [] for user in model.user_ids.labels.tolist()}
    for part in sorted((folder / "lists").glob("*.csv")):
        with part.open(newline="") as file:
            for row in csv.DictReader(file):
                lists[row["user"]].append(row["item"])
    return lists


DOORS: dict[str, Callable[[Any, Path], Lists]] = {
    "one call": in_one_call,
    "one by one": one_by_one,
    "by row": by_row,
    "pickled": pickled,
    "loaded": loaded,
    "mapped": mapped,
    "files": in_files,
}


def unpadded(lists: Lists) -> Lists:
    return {user: [item for item in row if item is not None] for user, row in lists.items()}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", strangers.EVERY)
def test_lists_leave_out_what_was_chosen_and_nothing_else(
    name: str, door: str, tmp_path: Path
) -> None:
    model = chosen(name)
    assert unpadded(DOORS[door](model, tmp_path)) == expected(model)
    assert expected(model) != unpadded(in_one_call(strangers.model(name), tmp_path))


@pytest.mark.parametrize("name", strangers.EVERY)
def test_none_leaves_out_again_what_users_have(name: str, tmp_path: Path) -> None:
    model = chosen(name).leave_out(None)
    assert in_one_call(model, tmp_path) == in_one_call(strangers.model(name), tmp_path)


@pytest.mark.parametrize("name", strangers.EVERY)
def test_an_evaluation_excludes_what_lists_leave_out(name: str) -> None:
    """Held-out items that the user has, and may be listed, count."""
    model, test = chosen(name), train()
    own = mfrank.evaluate(model, test, metrics="recall@5")["recall@5"]
    out, plain = bought_by_all(), strangers.model(name)
    given = mfrank.evaluate(plain, test, train=out, metrics="recall@5")["recall@5"]
    assert own.value == given.value > 0


def bought_by_all() -> mfrank.Interactions:
    data = train()
    out = bought()
    return mfrank.Interactions.from_arrays(
        out.user_ids.raw(out.entry_users),
        out.item_ids.raw(out.user_items.indices),
        user_ids=data.user_ids,
        item_ids=data.item_ids,
    )


def test_a_matrix_is_by_row_and_a_table_by_id(tmp_path: Path) -> None:
    model = chosen("IALS")
    wanted = in_one_call(model, tmp_path)
    model.leave_out(None).leave_out(bought_by_all().to_scipy())
    assert in_one_call(model, tmp_path) == wanted
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    out = bought()
    frame = pandas.DataFrame(
        {
            "user": out.user_ids.raw(out.entry_users),
            "item": out.item_ids.raw(out.user_items.indices),
        }
    )
    assert in_one_call(model.leave_out(None).leave_out(frame), tmp_path) == wanted


def test_ratings_below_a_threshold_are_left_out_too(tmp_path: Path) -> None:
    """Whoever names the purchases by a threshold names those below it as well."""
    out = bought()
    values = np.where(np.arange(out.nnz) % 2, 5.0, 1.0)
    rated = mfrank.Interactions.from_arrays(
        out.user_ids.raw(out.entry_users), out.item_ids.raw(out.user_items.indices), values
    )
    model = copy.copy(strangers.model("IALS")).leave_out(rated.at_least(4))
    assert in_one_call(model, tmp_path) == in_one_call(chosen("IALS"), tmp_path)


def test_what_the_model_does_not_know_is_told(caplog: Any) -> None:
    model = copy.copy(strangers.model("IALS"))
    some = mfrank.Interactions.from_arrays(["u01", "new", "u02"], ["i01", "i01", "new"])
    with caplog.at_level("INFO", "mfrank"):
        model.leave_out(some)
    assert "2 entries to leave out are of users or items that the model does not" in caplog.text
    before = model.seen
    with refuses(ValueError, "user_items"):
        model.leave_out(mfrank.Interactions.from_arrays(["new"], ["i01"]))
    with refuses(ValueError, "user_items", remedy="matched by id"):
        model.leave_out(some.to_scipy())
    assert model.seen is before


@pytest.mark.parametrize("side", ["user", "item"])
def test_numbered_rows_are_not_taken_for_ids(side: str) -> None:
    rows, others = [[5, 6, 6], [0, 1, 0]], [[0, 1, 1], [0, 1, 0]]
    turn = 1 if side == "user" else -1
    data = mfrank.Interactions.from_arrays(*rows[::turn])
    numbered = mfrank.Interactions.from_sparse(
        mfrank.Interactions.from_arrays(*others[::turn]).to_scipy()
    )
    model = mfrank.ALS(mfrank.IALS(), factors=2, iterations=1).fit(data)
    with pytest.raises(mfrank.UnknownIdError, match=f"2 {side}s each") as error:
        model.leave_out(numbered)
    assert error.value.argument == "user_items"
    assert tuple(error.value.ids) == (0, 1)


def test_a_model_without_interactions_cannot_leave_out_some(tmp_path: Path) -> None:
    strangers.model("IALS").save(tmp_path / "model", with_seen=False)
    with pytest.raises(mfrank.InputError) as error:
        mfrank.load(tmp_path / "model").leave_out(bought())
    assert "with_seen=True" in error.value.remedy


def test_factors_stay_where_they_are() -> None:
    model = copy.copy(strangers.model("IALS"))
    placed = model.placed
    assert model.leave_out(bought()).placed is placed


def test_a_call_may_bring_its_own(tmp_path: Path) -> None:
    model = chosen("IALS")
    own = model.recommend("u01", train(), N_ITEMS)
    np.testing.assert_array_equal(own.ids, strangers.model("IALS").recommend("u01", N=N_ITEMS).ids)


@pytest.mark.parametrize("item", ["i01", "i02", "i05"])
def test_users_of_an_item_leave_out_those_who_bought_it(item: str) -> None:
    model = chosen("IALS")
    users = model.recommend_users(item, N=N_USERS).ids.tolist()
    everybody = model.recommend_users(item, N=N_USERS, filter_already_liked_users=False).ids
    out = {user for user, bought_item in pairs(bought()) if bought_item == item}
    listed = [user for user in everybody.tolist() if user is not None and user not in out]
    assert [user for user in users if user is not None] == listed


def test_an_update_leaves_out_what_is_new(tmp_path: Path, caplog: Any) -> None:
    model = copy.copy(strangers.model("IALS")).leave_out(bought())
    before = expected(model)
    new = mfrank.Interactions.from_arrays(["u01", "u02", "fresh"], [*before["u01"][:1], "z", "i02"])
    had = before["u01"][0] in train_items("u01")
    with caplog.at_level("INFO", "mfrank"):
        model.partial_fit(new)
    assert "lists leave out all that is new in this update" in caplog.text
    lists = unpadded(in_one_call(model, tmp_path))
    assert "z" not in lists["u02"]
    assert "z" in lists["u03"]
    assert "i02" not in lists["fresh"]
    assert (before["u01"][0] in lists["u01"]) == had  # only what was not there before
    assert not any(item in lists[user] for user, item in pairs(bought()))
    model.partial_fit_users(["u04"], mfrank.Interactions.from_arrays(["u04", "u04"], ["i03", "z"]))
    assert "z" not in unpadded(in_one_call(model, tmp_path))["u04"]


def test_an_update_may_say_what_is_left_out_of_it(tmp_path: Path) -> None:
    model = copy.copy(strangers.model("IALS")).leave_out(bought())
    before = expected(model)
    known = before["u01"][0]
    new = mfrank.Interactions.from_arrays(["u01", "u02", "fresh"], [known, "z", "i02"])
    today = mfrank.Interactions.from_arrays(["u01", "fresh"], [known, "i02"])
    model.partial_fit(new, leave_out=today)
    lists = unpadded(in_one_call(model, tmp_path))
    assert known not in lists["u01"]
    assert "z" in lists["u02"]
    assert "i02" not in lists["fresh"]
    assert not any(item in lists[user] for user, item in pairs(bought()))
    with refuses(TypeError, "leave_out", remedy="table"):
        model.partial_fit(new, leave_out=today.to_scipy())
    with refuses(ValueError, "leave_out", remedy="choose these first"):
        copy.copy(strangers.model("IALS")).partial_fit(new, leave_out=today)


def train_items(user: str) -> set[str]:
    return {item for one, item in pairs(train()) if one == user}


def test_who_is_removed_is_gone_from_what_is_left_out(tmp_path: Path) -> None:
    model = chosen("IALS")
    wanted = expected(model)
    model.remove(users=["u01"], items=["i02"])
    model.save(tmp_path / "model")
    lists = unpadded(in_one_call(mfrank.load(tmp_path / "model"), tmp_path))
    assert "u01" not in lists
    for user, row in lists.items():
        assert row == [item for item in wanted[user] if item != "i02"]


def test_a_new_fit_leaves_out_all_again(tmp_path: Path) -> None:
    model = mfrank.ALS(mfrank.IALS(), factors=4, iterations=2, random_state=0).fit(train())
    model.leave_out(bought()).fit(train())
    assert in_one_call(model, tmp_path) == in_one_call(strangers.model("IALS"), tmp_path)


def test_a_reranker_leaves_out_what_its_model_does() -> None:
    reranker, split = reranked()
    some = split.train.take(np.arange(split.train.nnz) % 3 == 0)
    users = split.train.user_ids.labels
    reranker.model.leave_out(some)
    lists = reranker.recommend(users, N=12).ids.tolist()
    out = pairs(some)
    shown = {(user, item) for user, row in zip(users, lists, strict=True) for item in row if item}
    assert not shown & out
    assert shown & pairs(split.train)


def test_an_index_leaves_out_what_the_model_does(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="needs faiss: pip install mfrank[faiss]")
    model = chosen("IALS")
    lists = mfrank.FaissLists(model, mfrank.to_faiss(model.store, tmp_path / "items"))
    users = ["u01", "u02", "u08"]
    found, wanted = (each.recommend(users, N=8).ids for each in (lists, model))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mmap", [False, True])
def test_a_damaged_pattern_is_refused(tmp_path: Path, mmap: bool) -> None:
    chosen("IALS").save(tmp_path / "model")
    (file,) = tmp_path.rglob("*left_out_indices.npy")
    columns = np.load(file)
    columns[0] = N_ITEMS + 5
    np.save(file, columns)
    for use in (
        lambda model: model.recommend("u01"),
        lambda model: model.partial_fit(mfrank.Interactions.from_arrays(["u01"], ["new"])),
        lambda model: model.remove(users=["u02"]),
        lambda model: model.save(tmp_path / "again"),
    ):
        with pytest.raises(ValueError, match="seen"):
            use(mfrank.load(tmp_path / "model", mmap=mmap))


@pytest.mark.parametrize("of", [lambda marks: marks.astype(np.int8), lambda marks: marks[:-1]])
def test_damaged_marks_of_what_is_only_seen_are_refused(tmp_path: Path, of: Any) -> None:
    data = mfrank.Interactions.from_arrays(["a", "a", "b"], ["x", "y", "x"], [1, 0, 1])
    mfrank.ALS(mfrank.IALS(), factors=2, iterations=1).fit(data).save(tmp_path / "model")
    store = mfrank.FactorStore.load(tmp_path / "model")
    marks = of(store.extras["seen_positive"])
    replace(store, extras={**store.extras, "seen_positive": marks}).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"seen items .* damaged: .*seen_positive"):
        mfrank.load(tmp_path / "model")


def test_a_server_leaves_out_what_the_model_does(tmp_path: Path) -> None:
    clients = pytest.importorskip("clients", reason="needs the extra serve")
    model = chosen("IALS")
    from mfrank import serving

    asked = clients.TestClient(serving.app(model))
    for user in ("u01", "u02", "u08"):
        reply = asked.get(f"/recommend/{user}", params={"n": N_ITEMS}).json()
        assert [one["id"] for one in reply["items"]] == expected(model)[user]


def write(path: Path, data: mfrank.Interactions) -> str:
    rows = enumerate(sorted(pairs(data)), 1_600_000_000)
    text = "\n".join(f"{user},{item},{time}" for time, (user, item) in rows)
    path.write_text(f"user,item,timestamp\n{text}\n")
    return str(path)


def test_an_update_by_command_leaves_out_the_purchases_of_the_day(tmp_path: Path) -> None:
    kinds = ["view", "purchase"]
    rows = [
        (user, item, kinds[n % 3 == 0]) for n, (user, item) in enumerate(sorted(pairs(train())))
    ]

    def file(name: str, some: list[tuple[str, str, str]]) -> str:
        text = "\n".join(map(",".join, some))
        (tmp_path / name).write_text(f"user,item,event\n{text}\n")
        return str(tmp_path / name)

    weights = ["--weights", "view=1,purchase=1", "--leave-out-events", "purchase"]
    model = ["--model", str(tmp_path / "model")]
    few = ["--objective", "ials", "--factors", "4", "--iterations", "2"]
    assert main(["fit", file("a.csv", rows), *model, *weights, *few]) == 0
    day = [
        ("u01", "fresh-1", "view"),
        ("u01", "fresh-2", "purchase"),
        ("u02", "fresh-1", "purchase"),
    ]
    assert main(["update", file("b.csv", day), *model, *weights]) == 0
    lists = unpadded(in_one_call(mfrank.load(tmp_path / "model"), tmp_path))
    assert "fresh-1" in lists["u01"]
    assert "fresh-2" not in lists["u01"]
    assert "fresh-1" not in lists["u02"]
    out = {(user, item) for user, item, kind in rows if kind == "purchase"}
    assert not any(item in lists[user] for user, item in out)


COMMANDS = {
    "fit": ["--factors", "4", "--iterations", "2"],
    "descend": ["--factors", "4", "--iterations", "1"],
    "pagerank": ["--untuned"],
    "tune": ["--trials", "1", "--factors", "4"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_a_file(command: str, tmp_path: Path, capsys: Any) -> None:
    file, out = write(tmp_path / "all.csv", train()), write(tmp_path / "out.csv", bought())
    line = [command, file, "--model", str(tmp_path / "model"), *COMMANDS[command]]
    assert main([*line, "--leave-out", out]) == 0
    model = mfrank.load(tmp_path / "model")
    shown = {(user, i) for user, row in in_one_call(model, tmp_path).items() for i in row if i}
    assert not shown & pairs(bought())
    assert shown & pairs(train())
    assert main([*line, "--leave-out", str(tmp_path / "no.csv")]) == 2
    assert "no.csv" in capsys.readouterr().err
