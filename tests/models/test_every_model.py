"""One contract for every model: what each can do it does as stated, the rest it refuses first."""

from __future__ import annotations

import copy
import csv
import io
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import scipy.sparse as sp
from contract import (
    CAN,
    FEW,
    NOT_MODELS,
    ONE,
    RECIPES,
    REFUSED,
    SUBJECTS,
    TABLES,
    Table,
    can,
    every_model,
    fitted,
    has_links,
    in_markdown,
    items_of,
    public_models,
    reads_order,
    refused,
    same,
    users_of,
)
from hypothesis import assume, given

import mfrank
from mfrank.models import FEATURES, NeighborRecommender


def test_every_public_model_is_in_the_table_and_the_suite() -> None:
    rows = {name for names in CAN for name in names.split(", ")}
    assert rows == set(public_models()) - NOT_MODELS
    assert rows == {subject.split(",")[0] for subject in SUBJECTS}
    assert len({tuple(row) for row in CAN.values()}) == 1


def test_the_documented_table_is_that_of_the_suite() -> None:
    page = Path(__file__).parents[2] / "docs" / "life.md"
    if not page.is_file():
        pytest.skip("the pages are not beside the tests")
    assert in_markdown() in page.read_text(encoding="utf-8")


@every_model
@FEW
@given(table=TABLES)
def test_lists_are_the_best_unseen_items(subject: str, table: Table) -> None:
    data = table.data()
    model, users = fitted(subject, data), users_of(data)
    own = model.seen is None
    more = {"user_items": data} if own else {}
    lists = model.recommend(users, N=data.n_items, **more)
    assert lists.ids.shape == lists.scores.shape == (data.n_users, data.n_items)
    for row, (user, ids, scores) in enumerate(zip(users, *lists, strict=True)):
        listed = ids[~np.isnan(scores)].tolist()
        assert len(set(listed)) == len(listed)
        assert not set(listed) & set(items_of(data, row))
        assert (np.diff(scores[: len(listed)]) <= 0).all()
        alone = model.recommend(user, N=data.n_items, **more)
        same(alone, type(lists)(ids, scores))
        if listed and not isinstance(model, mfrank.Reranker):
            np.testing.assert_allclose(
                model.score([user] * len(listed), listed),
                scores[: len(listed)],
                rtol=1e-5,
                atol=1e-6,
            )
    by_row = model.recommend(np.arange(data.n_users), N=3, by_row=True, **more)
    np.testing.assert_array_equal(by_row.scores, lists.scores[:, :3])


@every_model
@FEW
@given(table=TABLES)
def test_new_users_get_lists_from_what_they_have(subject: str, table: Table) -> None:
    data = table.data()
    model = fitted(subject, data)
    likes, values = data.user_items[[1]].indices, data.user_items[[1]].data
    items, somebody = data.item_ids.raw(likes).tolist(), "nobody" if table.named else -1
    times = np.arange(len(items)) if reads_order(model) else None
    row = mfrank.Interactions.from_arrays([somebody] * len(items), items, values, times)
    calls = (
        lambda: model.recommend_from_items(items, 9, values=values),
        lambda: model.recommend(somebody, row, 9, recalculate_user=True),
        lambda: model.recommend(
            [somebody], sp.csr_array(data.user_items[[1]]), 9, recalculate_user=True
        ),
    )
    assert model.folds_in == can(model, "new users")
    if not model.folds_in:
        for call in calls:
            refused(call)
        return
    one, other, *many = (call() for call in calls[: 2 if reads_order(model) else 3])
    for answer in (other, *(type(one)(each.ids[0], each.scores[0]) for each in many)):
        np.testing.assert_array_equal(one.ids, answer.ids)
        np.testing.assert_allclose(one.scores, answer.scores, rtol=1e-5)
    listed = one.ids[~np.isnan(one.scores)].tolist()
    by_items = type(model) in (mfrank.EASE, mfrank.ItemFilter, mfrank.ItemKNN)
    # In a small table the user's items may be linked to no other.
    assert listed or by_items or type(model) is mfrank.NextItem
    assert not set(listed) & set(items)
    if by_items or type(model) is mfrank.Popularity:
        known = model.recommend(users_of(data)[1], N=9)
        np.testing.assert_allclose(known.scores, one.scores)


@every_model
@FEW
@given(table=TABLES)
def test_explanations_add_up_to_the_score(subject: str, table: Table) -> None:
    data = table.data()
    model, users = fitted(subject, data), users_of(data)
    listed = model.recommend(users[0], data, N=2)
    assume(not np.isnan(listed.scores[0]))  # of few candidates, none may be left
    item = listed.ids[0]
    if not can(model, "explain"):
        refused(lambda: model.explain(users[0], None, item))
        return
    folded = model.recommend(users[0], data, N=9, recalculate_user=True)
    for given_rows, answer in ((None, listed), (data, folded)):
        item = answer.ids[0]
        why = model.explain(users[0], given_rows, item, N=99)
        assert why.score == pytest.approx(answer.scores[0], rel=1e-4, abs=1e-5)
        if isinstance(model, mfrank.SupervisedPageRank):
            assert 0 < sum(path.mass for path in why.paths) <= why.score * 1.0001
            continue
        parts = [part for _, part in why.contributions]
        assert sum(parts) + why.baseline == pytest.approx(why.score, rel=1e-6, abs=1e-7)
        assert parts == sorted(parts, reverse=True)
        of = items_of(data, 0)
        if isinstance(model, mfrank.Reranker):
            n_parts = len(getattr(model.model, "parts", ()))
            of = [*FEATURES, "item_feature_0"]
            for part in range(n_parts):
                of += [f"part_{part}_score_in_list", f"part_{part}_rank"]
        assert {each for each, _ in why.contributions} <= {*of}


@every_model
@FEW
@given(table=TABLES)
def test_an_update_takes_up_new_users_and_items(subject: str, table: Table) -> None:
    data = table.data()
    model = fitted(subject, data)
    if not can(model, "update"):
        refused(lambda: model.partial_fit(data))
        return
    before = model.store
    for bad in (
        lambda: model.partial_fit(data.user_items[:, :-1]),
        lambda: model.partial_fit(table.of([0], [1], [1]), batch=3),
        lambda: model.partial_fit(table.of([0], [1], [1]), leave_out="all"),
        lambda: model.partial_fit(table._replace(named=not table.named).of([0], [1], [1])),
    ):
        with pytest.raises(REFUSED):
            bad()
        assert model.store is before
    new_user, new_item = table.n_users, table.n_items
    users, items = [new_user, new_user, 0, 1, 2], [0, new_item, new_item, new_item, 1]
    day = table.of(users, items, [2, 1, 1, 3, 1])
    new = table.name("user", new_user), table.name("item", new_item)
    assert model.partial_fit(day, batch="monday") is model
    assert new[0] in model.user_ids.labels
    assert new[1] in model.item_ids.labels
    lists = model.recommend([new[0], table.name("user", 3)], N=20)
    found = [set(ids[~np.isnan(scores)].tolist()) for ids, scores in zip(*lists, strict=True)]
    assert found[0] or isinstance(model, NeighborRecommender)  # whose links may lead nowhere
    assert not found[0] & {table.name("item", 0), new[1]}
    whole = data + day
    every = model.recommend(users_of(whole), N=20)
    for user, ids in zip(users_of(whole), every.ids.tolist(), strict=True):
        assert not set(ids) & set(items_of(whole, whole.user_ids.rows([user])[0]))
    after = model.store
    model.partial_fit(day, batch="monday")
    assert model.store is after


CAN_BE_FITTED_WITHOUT = {
    name
    for names, row in CAN.items()
    for name in names.split(", ")
    if row["remove"].startswith("as after a fit without them")
}


@every_model
@FEW
@given(table=TABLES)
def test_what_is_removed_is_in_no_list(subject: str, table: Table, tmp_path_factory: Any) -> None:
    data = table.data()
    model = fitted(subject, data)
    user, item = table.name("user", 0), data.item_ids.raw([1])[0]
    bare = model.seen is None and model.store.counts is not None
    if not can(model, "remove") or bare:
        refused(lambda: model.remove(users=user))
        return
    others = users_of(data)[users_of(data) != user]
    more = {} if model.seen is not None else {"filter_already_liked_items": False}
    counts = np.asarray((data.user_items[1:] > 0).sum(axis=0)).ravel()
    lone = data.item_ids.raw(np.flatnonzero(counts == 0)).tolist()  # nobody is left who has them
    before = model.recommend(others, N=20, **more)
    with pytest.raises(mfrank.UnknownIdError):
        model.remove(users=[user, "stranger" if table.named else -5])
    assert user in model.user_ids.labels
    assert model.remove(users=user, items=[item]) is model
    assert user not in model.user_ids.labels
    assert item not in model.item_ids.labels
    after = model.recommend(others, N=20, **more)
    parts = getattr(model, "parts", [getattr(model, "model", model)])
    if CAN_BE_FITTED_WITHOUT & {type(part).__name__ for part in parts}:
        assert not (after.ids == item).any()
    else:
        order = set if isinstance(model, mfrank.Reranker) else list  # trees read counts of users
        for lists in zip(before.ids.tolist(), after.ids.tolist(), strict=True):
            old, new = (
                [each for each in row if each not in {item, None, -1, *lone}] for row in lists
            )
            assert order(old) == order(new)
    if table.named:
        folder = tmp_path_factory.mktemp("removed")
        model.save(folder / "model")
        traces = [str(each).encode() for each in (user, item)]
        for file in folder.rglob("*"):
            assert not (file.is_file() and any(each in file.read_bytes() for each in traces))
    if type(model).__name__ in CAN_BE_FITTED_WITHOUT:
        rest = data.take(
            (data.entry_users != data.user_ids.rows([user])[0]) & (data.user_items.indices != 1)
        )
        left = rest.k_core(1)
        assume(left.n_items == len(model.item_ids))  # else the model has items of nobody, too
        assume(left.timestamps.max() == data.timestamps.max())  # else a window would end earlier
        again = fitted(subject, left)
        pairs = np.repeat(users_of(left), left.n_items), np.tile(left.item_ids.labels, left.n_users)
        np.testing.assert_allclose(model.score(*pairs), again.score(*pairs), atol=1e-9)


@every_model
@FEW
@given(table=TABLES)
def test_a_loaded_model_is_the_saved_one(subject: str, table: Table, tmp_path_factory: Any) -> None:
    data, folder = table.data(), tmp_path_factory.mktemp("saved")
    model, users = fitted(subject, data), users_of(data)
    model.save(folder / "model")
    other = mfrank.EASE if type(model) is not mfrank.EASE else mfrank.ALS
    refused(lambda: other.load(folder / "model"))
    for load in (mfrank.load, type(model).load):
        loaded = load(folder / "model", mmap=load is not mfrank.load)
        if subject in RECIPES:
            assert type(loaded) is type(model)
            assert repr(loaded) == repr(model)
        same(loaded.recommend(users, data, N=20), model.recommend(users, data, N=20))
        item = data.item_ids.raw(np.arange(2))
        same(loaded.similar_items(item, N=3), model.similar_items(item, N=3))
        if model.folds_in:
            same(*(each.recommend_from_items(item, 5) for each in (loaded, model)))


@every_model
@FEW
@given(table=TABLES)
def test_a_copy_is_the_model_and_stays_as_it_is(subject: str, table: Table) -> None:
    data = table.data()
    model, users = fitted(subject, data), users_of(data)
    lists = model.recommend(users, data, N=9)
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    if can(model, "update"):
        model.partial_fit(table.of([0, 1, 2], [1, 2, 3], [1, 5, 2]))
    model.save(file := io.BytesIO())
    file.seek(0)
    same(mfrank.load(file).recommend(users, data, N=9), model.recommend(users, data, N=9))
    for each in copies:
        same(each.recommend(users, data, N=9), lists)
        assert repr(each).startswith(type(model).__name__)


@every_model
@FEW
@given(table=TABLES)
def test_lists_are_filtered_filled_and_steered(subject: str, table: Table) -> None:
    data = table.data()
    model, user = fitted(subject, data), users_of(data)[0]
    strangers = [user, "stranger" if table.named else -7]
    whole = model.recommend(user, data, N=9)
    best = [each["id"] for each in whole.to_dicts()]
    assume(best)  # the user may have all that was popular in a window
    assert model.recommend(user, data, 9, items=best[:1]).ids[0] == best[0]
    assert best[0] not in model.recommend(user, data, 9, filter_items=best[:1]).ids
    with pytest.raises(mfrank.UnknownIdError):
        model.recommend(strangers, filter_already_liked_items=False)
    options = {"on_unknown": "skip", "filter_already_liked_items": False, "N": 3}
    assert np.isnan(model.recommend(strangers, **options).scores[1]).all()
    if model.seen is None:
        refused(lambda: model.recommend(strangers, fallback="popularity", **options))
    else:
        filled = model.recommend(strangers, fallback="popularity", **options)
        assert not np.isnan(filled.scores).any()
    last = {best[-1]: 1e3}
    if isinstance(model, mfrank.Reranker):
        refused(lambda: model.recommend(user, data, steer=mfrank.Steering(boosts=last)))
    else:
        boosted = model.recommend(user, data, N=9, steer=mfrank.Steering(boosts=last))
        assert boosted.ids[0] == best[-1]


@every_model
@FEW
@given(table=TABLES)
def test_neighbors_begin_with_the_row_itself(subject: str, table: Table) -> None:
    data = table.data()
    model = fitted(subject, data)
    for call, ids, works in (
        (model.similar_items, data.item_ids.raw(np.arange(2)), True),
        (
            model.similar_users,
            users_of(data)[:2],
            can(model, "similar users"),
        ),
    ):
        if not works:
            refused(lambda call=call, ids=ids: call(ids))
            continue
        found = call(ids, N=4)
        for one, listed, values in zip(ids, *found, strict=True):
            assert listed[0] == one
            known = values[~np.isnan(values)]
            assert (np.diff(known) <= 1e-6).all()
            same(call(one, N=4), type(found)(listed, values))


@every_model
def test_all_lists_written_are_those_of_a_call(subject: str, tmp_path: Path) -> None:
    data = ONE.data()
    model, users = fitted(subject, data), users_of(data)
    model.recommend_all(tmp_path / "lists", data, N=3, format="csv")
    wanted = model.recommend(users, data, N=3)
    rows = [
        (user, place + 1, each["id"], each["score"])
        for user, ids in zip(users, wanted.to_dicts(), strict=True)
        for place, each in enumerate(ids)
    ]
    (part,) = (tmp_path / "lists").glob("part-*")
    with part.open(newline="", encoding="utf-8") as file:
        found = [
            (r["user"], int(r["rank"]), r["item"], float(r["score"])) for r in csv.DictReader(file)
        ]
    assert [row[:3] for row in found] == [row[:3] for row in rows]
    np.testing.assert_allclose([r[3] for r in found], [r[3] for r in rows], rtol=1e-6)


@every_model
def test_an_evaluation_is_of_the_lists(subject: str) -> None:
    data = ONE.data()
    split = mfrank.by_ratio(data, train=0.6, valid=0.2, test=0.2, random_state=0)
    timed = split.train
    model = fitted(subject, timed)
    metrics = [mfrank.NDCG @ 3, mfrank.Recall @ 2]
    one = mfrank.evaluate(model, split.test, train=timed, metrics=metrics)
    other = mfrank.evaluate(
        lambda users, rows, N: model.recommend(users, rows, N, by_row=True),
        split.test,
        train=timed,
        metrics=metrics,
    )
    for metric in metrics:
        assert one[str(metric)].value == pytest.approx(other[str(metric)].value)


@every_model
def test_a_server_answers_as_the_model(subject: str) -> None:
    pytest.importorskip("fastapi")
    from clients import client

    data = ONE.data()
    model, users = fitted(subject, data), users_of(data)
    api = client(model)
    seen = "" if model.seen is not None else "&include_seen=true"
    user, liked = users[2], items_of(data, 2)
    wanted = model.recommend(user, N=3, filter_already_liked_items=not seen).to_dicts()
    answer = api.get(f"/recommend/{quote(user, safe='')}?n=3{seen}")
    assert answer.status_code == 200, answer.text
    check_same(answer.json()["items"], wanted)
    posted = api.post("/recommend", json={"from_items": liked, "n": 3})
    if model.folds_in:
        check_same(
            posted.json()["lists"][0]["items"], model.recommend_from_items(liked, 3).to_dicts()
        )
    else:
        assert posted.status_code == 501
    item = wanted[0]["id"]
    score = api.get(f"/score/{quote(user, safe='')}?item={quote(item, safe='')}")
    if isinstance(model, mfrank.Reranker):
        refused(lambda: model.score([user], [item]))
        assert score.status_code == 422
    else:
        values = model.score([user], [item]).tolist()
        check_same(score.json()["items"], [{"id": item, "score": values[0]}])
    why = api.get(f"/explain/{quote(user, safe='')}/{quote(item, safe='')}")
    if can(model, "explain"):
        assert why.json()["score"] == pytest.approx(model.explain(user, None, item).score, rel=1e-5)
    else:
        assert why.status_code == 501
    near = api.get(f"/similar/{quote(item, safe='')}?n=3")
    assert near.status_code == 200


def check_same(found: Any, wanted: Any) -> None:
    assert [each["id"] for each in found] == [each["id"] for each in wanted]
    np.testing.assert_allclose(
        [each["score"] for each in found], [each["score"] for each in wanted], rtol=1e-5
    )


FORMATS = {
    "to_parquet": "pyarrow",
    "to_safetensors": "safetensors",
    "to_faiss": "faiss",
    "to_onnx": "onnx",
}


@every_model
@pytest.mark.parametrize("to", FORMATS)
def test_exports(subject: str, to: str, tmp_path: Path) -> None:
    pytest.importorskip(FORMATS[to])
    data = ONE.data()
    model = fitted(subject, data)
    call = partial(getattr(mfrank, to), model.store, tmp_path / "file")
    walk = isinstance(model, mfrank.SupervisedPageRank)
    works = can(model, "export")
    works &= to == "to_safetensors" or not (walk or (has_links(model) and to != "to_onnx"))
    if not works:
        refused(call)
        assert not list(tmp_path.iterdir())
        return
    call()
    if to in ("to_parquet", "to_safetensors"):
        back = getattr(mfrank, to.replace("to_", "from_"))(tmp_path / "file")
        np.testing.assert_array_equal(back.item_factors, model.store.item_factors)


@every_model
def test_a_model_says_what_it_is(subject: str) -> None:
    model = fitted(subject, ONE.data())
    for text in (repr(model), model._repr_html_()):
        assert type(model).__name__ in text
        assert "not fitted" not in text
        assert {"8", "7"} <= set(re.findall(r"\d+", text))
        if isinstance(model, mfrank.Blend):
            for part, weight in zip(model.parts, model._weights, strict=True):
                assert f"{weight:g} x {type(part).__name__}(" in text


@every_model
def test_a_recipe_is_fitted_again(subject: str) -> None:
    data = ONE.data()
    model = fitted(subject, data)
    if not hasattr(model, "fit"):
        refused(lambda: mfrank.refit(model, data))
        return
    same(*(each.recommend(users_of(data), N=9) for each in (model, mfrank.refit(model, data))))
