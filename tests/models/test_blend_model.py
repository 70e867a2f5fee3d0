"""A blend is the sum of its parts: in scores, for new users, explained, saved and fitted again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.models import NeighborRecommender, spread
from mfrank.models import blend as blend_models
from mfrank.retrieval import pack
from mfrank.serving import answers
from mfrank.store import is_mapped
from mfrank.tuning import event_weights
from tests.support.errors import refuses


@cache
def data() -> mfrank.Interactions:
    drawn = mfrank.synthetic(60, 30, 700, random_state=0)
    users, items = (
        drawn.user_ids.raw(drawn.entry_users),
        drawn.item_ids.raw(drawn.user_items.indices),
    )
    times = np.random.default_rng(0).permutation(len(users)) + 10**9
    users, items = [f"u{u}" for u in users], [f"i{i}" for i in items]
    return mfrank.Interactions.from_arrays(users, items, timestamps=times)


def als(objective: Any = None, **options: Any) -> mfrank.ALS:
    chosen = mfrank.IALS() if objective is None else objective
    return mfrank.ALS(chosen, factors=4, iterations=3, random_state=0, **options)


def cosines() -> mfrank.Descent:
    return mfrank.Descent(mfrank.SampledSoftmax(), 3, 3, random_state=0)


RECIPES: dict[str, tuple[Any, list[float]]] = {
    "two ALS": (lambda: [als(), als(mfrank.WRMF())], [1, 0.5]),
    "float64 and float32": (lambda: [als(dtype="float64"), als(mfrank.RG2())], [1, 1]),
    "biases": (lambda: [als(biases=True), cosines()], [1, 2]),
    "cosines first": (lambda: [cosines(), als()], [1, 0.3]),
    "distances": (lambda: [als(), mfrank.Descent(mfrank.SML(), 3, 3, random_state=0)], [1, 0.2]),
    "links first": (lambda: [mfrank.EASE(50.0), als()], [1, 0.4]),
    "all kinds": (
        lambda: [mfrank.ItemKNN(), cosines(), mfrank.ItemFilter(), als(), mfrank.EASE(9.0)],
        [0.3, 1, 0.5, 0.7, 0.2],
    ),
    "popularity": (lambda: [als(), mfrank.Popularity()], [1, 0.1]),
    "next items": (
        lambda: [mfrank.NextItem((1.0, 4.0)), als(), mfrank.EASE(9.0), mfrank.NextItem((2.0,))],
        [1, 0.5, 0.2, 0.3],
    ),
    "only popularity has factors": (lambda: [mfrank.EASE(9.0), mfrank.Popularity()], [1, 0.1]),
}


@cache
def fitted(name: str) -> mfrank.Blend:
    parts, weights = RECIPES[name]
    return mfrank.Blend(parts(), weights).fit(data())


@pytest.fixture(params=RECIPES)
def blend(request: Any) -> mfrank.Blend:
    return fitted(request.param)


def every_pair() -> tuple[Any, Any]:
    n_users, n_items = data().n_users, data().n_items
    return np.repeat(np.arange(n_users), n_items), np.tile(np.arange(n_items), n_users)


def whole(model: Any) -> Any:
    """The lists of all users, of all items."""
    users = data().user_ids.labels
    return model.recommend(users, N=data().n_items, filter_already_liked_items=False)


def test_scores_are_the_weighted_sum_of_those_of_the_parts(blend: mfrank.Blend) -> None:
    pairs = every_pair()
    alone = [part.fit(data()) for part in blend.parts]
    wanted = sum(
        weight / spread(model) * model.score(*pairs, by_row=True)
        for model, weight in zip(alone, blend.weights, strict=True)
    )
    found = blend.score(*pairs, by_row=True)
    np.testing.assert_allclose(found / found.std(), wanted / wanted.std(), atol=2e-4)
    ids, scores = whole(blend)
    for user, items, values in zip(data().user_ids.labels[:5], ids, scores, strict=False):
        known = [item is not None for item in items]
        again = blend.score([user] * sum(known), items[known])
        np.testing.assert_allclose(values[known], again, atol=1e-5)
        assert (np.diff(values[known]) <= 0).all()


def test_the_parts_made_of_the_store_are_those_that_were_fitted(blend: mfrank.Blend) -> None:
    pairs = every_pair()
    for part, made in zip(blend.parts, blend.models, strict=True):
        alone = type(part)(**part.get_params(deep=False)).fit(data())
        assert made.get_params() == alone.get_params()
        np.testing.assert_allclose(
            made.score(*pairs, by_row=True), alone.score(*pairs, by_row=True), atol=1e-5
        )
        assert made.seen is blend.seen or made.seen.matrix.nnz == data().nnz


def test_new_users_are_folded_into_each_part(blend: mfrank.Blend) -> None:
    users, items = data().user_ids.labels[:4].tolist(), data().item_ids.labels
    found = blend.recommend(
        users, data(), len(items), recalculate_user=True, filter_already_liked_items=False
    )
    total = np.zeros((len(users), len(items)))
    unit = None
    for model, weight in zip(blend.models, blend.weights, strict=True):
        own = model.recommend(
            users, data(), len(items), recalculate_user=True, filter_already_liked_items=False
        )
        scale = weight / spread(model)
        if unit is None and not isinstance(model, NeighborRecommender):
            unit = scale
        for row, (ids, scores) in enumerate(zip(*own, strict=True)):
            known = [item is not None for item in ids]
            total[row, data().item_ids.rows(ids[known])] += scale * scores[known]
    for row, (ids, scores) in enumerate(zip(*found, strict=True)):
        known = [item is not None for item in ids]
        np.testing.assert_allclose(
            scores[known] * unit, total[row, data().item_ids.rows(ids[known])], rtol=1e-3, atol=1e-4
        )
    entries = np.flatnonzero(data().entry_users == 2)
    entries = entries[np.argsort(data().timestamps[entries])]
    own = data().item_ids.raw(data().user_items.indices[entries])
    new = blend.recommend_from_items(own, N=6)
    asked = blend.recommend(users[2:3], data(), 6, recalculate_user=True)
    assert new.ids.tolist() == asked.ids[0].tolist()


def ask_for_somebody(model: mfrank.Blend) -> None:
    own = data().item_ids.raw(data().user_items[[2]].indices)
    model.recommend_from_items(own, N=3)
    model.explain("u3", data(), "i3")
    model.recommend(["u1", "u2"], data(), 3, recalculate_user=True)


@pytest.mark.parametrize("mapped", [False, True])
def test_new_users_and_explanations_copy_no_table_but_that_of_items(
    blend: mfrank.Blend, mapped: bool, tmp_path: Path
) -> None:
    blend.save(tmp_path / "model")
    model: Any = mfrank.load(tmp_path / "model", mmap=mapped)
    ask_for_somebody(model)
    store, mine = model.store, blend.models
    assert is_mapped(store.user_factors) is is_mapped(model.seen.matrix.indices) is mapped
    for part, alone in zip(model.models, mine, strict=True):
        if isinstance(part, NeighborRecommender):
            for own, name in ((part.similarity.data, ""), (part.similarity.indices, "_indices")):
                assert np.shares_memory(own, store.extras[f"neighbors{name}"])
        elif "user_factors" in vars(part.store):
            shared = np.shares_memory(part.store.user_factors, store.user_factors)
            assert shared or isinstance(part, mfrank.Popularity)
        np.testing.assert_array_equal(part.user_factors, alone.user_factors)  # where it is read


def test_parts_are_made_once_for_all_calls_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mfrank.Blend([als(), cosines()]).fit(data())
    made, both, parts_of = [], Barrier(2, timeout=9), blend_models.parts_of

    def slowly(*given: Any) -> Any:
        made.append(given)
        with suppress(BrokenBarrierError):
            both.wait(0.2)  # for another thread that makes them, too
        return parts_of(*given)

    monkeypatch.setattr(blend_models, "parts_of", slowly)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ask_for_somebody, [model, model]))
    assert len(made) == 1
    assert model._snapshot().models is model.models


def test_an_explanation_adds_up_those_of_the_parts(blend: mfrank.Blend) -> None:
    user = data().user_ids.labels[3]
    for item in data().item_ids.labels[:3].tolist():
        for given in (None, data()):
            why = blend.explain(user, given, item, N=99)
            total = sum(part for _, part in why.contributions) + why.baseline
            assert total == pytest.approx(why.score, abs=1e-9)
            assert {name for name, _ in why.contributions} <= set(
                data().item_ids.raw(data().user_items[[3]].indices).tolist()
            )
            assert blend.explain(user, given, item, N=2).contributions == why.contributions[:2]
        assert blend.explain(user, None, item).score == pytest.approx(
            float(blend.score([user], [item])[0])
        )


def test_a_fit_of_the_same_recipe_is_the_same(blend: mfrank.Blend) -> None:
    again = mfrank.Blend(blend.parts, blend.weights).fit(data())
    for before, after in zip(whole(blend), whole(again), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_epochs_of_a_part_end_where_they_are_told_to() -> None:
    made = mfrank.Blend([als(), cosines()], epochs=[1, None]).fit(data())
    assert [len(model.store.history) for model in made.models] == [1, 3]
    alone = als().fit(data(), callback=lambda *_: True)
    np.testing.assert_array_equal(made.models[0].store.item_factors, alone.store.item_factors)


def test_what_is_removed_is_removed_from_all_parts() -> None:
    made = mfrank.Blend([als(), cosines()], [1, 0.5]).fit(data())
    gone = data().user_ids.labels[:2].tolist()
    kept = data().user_ids.labels[5]
    before = made.recommend(kept, N=5)
    made.remove(users=gone)
    assert made.store.n_users == data().n_users - 2
    assert all(model.store.n_users == data().n_users - 2 for model in made.models)
    after = made.recommend(kept, N=5)
    assert before.ids.tolist() == after.ids.tolist()
    made.remove(items=[before.ids[0]])
    assert before.ids[0] not in made.recommend(kept, N=20).ids.tolist()


def test_neighbors_of_users_need_factors_alone() -> None:
    user, item = data().user_ids.labels[1], data().item_ids.labels[1]
    assert fitted("two ALS").similar_users(user, N=3).ids[0] == user
    assert len(fitted("two ALS").recommend_users(item, N=3).ids) == 3
    for call in (
        lambda: fitted("links first").similar_users(user),
        lambda: fitted("links first").recommend_users(item),
    ):
        with pytest.raises(TypeError):
            call()
    assert fitted("links first").similar_items(item, N=1).ids.tolist() == [item]


def test_a_blend_prints_its_parts_and_weights() -> None:
    made = mfrank.Blend([als(), mfrank.EASE(50.0)], [1, 0.25])
    assert repr(made).startswith("Blend(1 x ALS(objective=IALS(")
    assert "0.25 x EASE(regularization=50.0)" in repr(made)
    assert repr(made).endswith("not fitted)")
    assert "fitted to 60 users x 30 items" in repr(fitted("all kinds"))
    assert "EASE" in made._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "kind", "argument"),
    [
        (([],), TypeError, "parts"),
        (([als()],), TypeError, "parts"),
        ((als(),), TypeError, "parts"),
        (([als(), "EASE"],), TypeError, "parts"),
        (([als(), als()], [1]), ValueError, "weights"),
        (([als(), als()], [1, 0]), ValueError, "weights"),
        (([als(), als()], [1, np.nan]), ValueError, "weights"),
        (([als(), als()], None, [1]), ValueError, "epochs"),
        (([als(), als()], None, [0, None]), ValueError, "epochs"),
    ],
)
def test_what_is_no_blend_is_refused(arguments: Any, kind: Any, argument: str) -> None:
    with refuses(kind, argument):
        mfrank.Blend(*arguments)


def test_parts_without_factors_and_parts_of_other_data_are_refused() -> None:
    with refuses(ValueError, "parts", remedy="ALS"):
        mfrank.Blend([mfrank.EASE(), mfrank.ItemKNN()]).fit(data())
    other = als().fit(mfrank.synthetic(20, 10, 99, random_state=0))
    with refuses(ValueError, "user_ids", remedy="same users"):
        mfrank.Blend.from_models([als().fit(data()), other])
    with pytest.raises(mfrank.NotFittedError):
        mfrank.Blend.from_models([als(), als()])


def test_what_is_recorded_of_a_blend_stays_in_updates() -> None:
    made = mfrank.Blend([als(), cosines()]).fit(data())
    event_weights.record_weights(made, {"view": 0.5, "purchase": None})
    made.partial_fit(mfrank.Interactions.from_arrays(["u1"], ["i2"])).remove(users="u3")
    assert made.event_weights == {"view": 0.5, "purchase": None}


def test_a_blend_of_a_part_that_reads_values_is_not_explained_without_them(tmp_path: Path) -> None:
    blend = mfrank.Blend([als(mfrank.WRMF()), cosines()]).fit(data())
    pack(blend.store, blend.seen).save(tmp_path / "model")  # as models were once saved
    loaded, user, item = mfrank.load(tmp_path / "model"), "u1", "i2"
    with pytest.raises(answers.CannotAnswer, match="WRMF needs the values"):
        answers.explanation(loaded, user, item, 3)
    row = data().user_items[data().user_ids.rows([user])]
    assert answers.explanation(loaded, user, item, 3, row)["contributions"]


def test_the_store_of_a_blend_with_links_ranks_as_the_blend_does() -> None:
    made = fitted("links first")
    again = mfrank.ItemBlend.of(made.store)
    user = data().user_ids.labels[4]
    one, other = (m.recommend(user, N=9, filter_already_liked_items=False) for m in (made, again))
    assert one.ids.tolist() == other.ids.tolist()
