"""A second stage over a blend: what it reads of the parts, and its first stage's weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fits import als
from rerankers import CATBOOST, random_split, small

import mfrank
from mfrank.models import FEATURES, Reranker
from mfrank.models.reranker import features as module
from mfrank.models.reranker import second_stage
from tests.support.errors import refuses

SPLIT = random_split()
TRAIN = SPLIT.train
USERS = TRAIN.user_ids.labels[:9]


def blend(*parts: Any) -> mfrank.Blend:
    return mfrank.Blend(parts or PARTS["weights between factors"]).fit(TRAIN)


PARTS: dict[str, tuple[Any, ...]] = {
    "weights between factors": (mfrank.ItemKNN(), als(), mfrank.EASE(3.0), mfrank.Popularity()),
    "factors alone": (als(), mfrank.Popularity(), als(random_state=4)),
}


def over(first: mfrank.Blend, **options: Any) -> Reranker:
    pytest.importorskip("catboost", reason=CATBOOST)
    return small(first, loss="Logloss", **options).fit(TRAIN, SPLIT.valid)


def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The features that the trees score from now on."""
    seen, scores = list[Any](), second_stage.trees.scores

    def look(trees: Any, features: Any, n_threads: int) -> Any:
        seen.append(features)
        return scores(trees, features, n_threads)

    monkeypatch.setattr(second_stage.trees, "scores", look)
    return seen


ASKED = {
    "known": lambda model, **n: model.recommend(USERS, TRAIN, **n),
    "folded": lambda model, **n: model.recommend(USERS, TRAIN, recalculate_user=True, **n),
    "somebody": lambda model, **n: model.recommend_from_items(
        TRAIN.item_ids.labels[[3, 1, 8]], **n
    ),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("parts", PARTS)
def test_features_of_a_part_are_what_it_says_by_itself(
    parts: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In units of the list, so that a part's scale does not matter."""
    first = blend(*PARTS[parts])
    reranker, ask = over(first), ASKED[asked]
    seen = told(monkeypatch)
    ask(reranker, N=5)
    names = module.names_of(first.store, reranker._fitted().given)
    columns = dict(zip(names, np.vstack(seen).T, strict=True))
    ids = np.atleast_2d(ask(first, N=12).ids)
    listed = np.array([[item is not None for item in row] for row in ids])
    for number, part in enumerate(first.models):
        everything = ask(part, N=len(TRAIN.item_ids))
        own = [
            dict(zip(*lists, strict=True))
            for lists in zip(*map(np.atleast_2d, everything), strict=True)
        ]
        scores = np.array(
            [
                [of.get(item, 0.0) if item is not None else np.nan for item in row]
                for of, row in zip(own, ids, strict=True)
            ]
        )
        expected = module.in_list(scores)[listed]
        np.testing.assert_allclose(
            columns[f"part_{number}_score_in_list"], expected, rtol=2e-3, atol=2e-3
        )
        ranks = columns[f"part_{number}_rank"]
        assert ranks.min() == 0
        assert np.corrcoef(ranks, expected)[0, 1] < -0.5


def test_other_first_stages_have_no_features_of_parts() -> None:
    for model in (als(), mfrank.EASE()):
        pytest.importorskip("catboost", reason=CATBOOST)
        reranker = small(model.fit(TRAIN)).fit(TRAIN, SPLIT.valid)
        assert reranker._fitted().trees.feature_names_ == list(FEATURES)


@pytest.mark.parametrize("first_weight", [0.0, 0.5, 1e9])
def test_the_weight_of_the_first_stage(first_weight: float) -> None:
    """Scores are sums in units of the list; with a large weight, the order is the first stage's."""
    first = blend()
    reranker, alone = over(first, first_weight=first_weight), over(first)
    ids, scores = reranker.recommend(USERS, TRAIN, N=12)
    if not first_weight:
        expected = alone.recommend(USERS, TRAIN, N=12)
        np.testing.assert_array_equal(ids, expected.ids)
        np.testing.assert_array_equal(scores, expected.scores)
        return
    for row, user in enumerate(USERS):
        tables = [
            dict(zip(answer.ids, module.in_list(answer.scores[None])[0], strict=True))
            for answer in (alone.recommend(user, TRAIN, N=12), first.recommend(user, TRAIN, N=12))
        ]
        expected = [tables[0][item] + first_weight * tables[1][item] for item in ids[row]]
        np.testing.assert_allclose(scores[row], expected, rtol=1e-5, atol=1e-5)
    if first_weight > 1e6:
        np.testing.assert_array_equal(ids, first.recommend(USERS, TRAIN, N=12).ids)


@pytest.mark.parametrize("first_weight", [0.0, 0.5])
def test_an_explanation_adds_up_to_the_score_of_the_list(first_weight: float) -> None:
    reranker = over(blend(), first_weight=first_weight)
    for rows in (None, TRAIN):
        ids, scores = reranker.recommend("u3", rows, N=3, recalculate_user=rows is not None)
        for item, score in zip(ids, scores, strict=True):
            why = reranker.explain("u3", rows, item, N=99)
            total = sum(part for _, part in why.contributions) + why.baseline
            np.testing.assert_allclose([why.score, total], score, rtol=1e-6)
            assert {"part_2_rank", "score_in_list"} <= {name for name, _ in why.contributions}


def test_it_is_saved_updated_and_fitted_again(tmp_path: Path) -> None:
    reranker = over(blend(), first_weight=0.5)
    reranker.save(tmp_path / "model")
    loaded = Reranker.load(tmp_path / "model")
    assert loaded.first_weight == 0.5
    for one, other in zip(loaded.recommend(USERS), reranker.recommend(USERS), strict=True):
        np.testing.assert_array_equal(one, other)
    again = mfrank.refit(loaded, TRAIN + SPLIT.valid)
    assert again.recommend("u3", N=5).ids.shape == (5,)
    loaded.partial_fit(mfrank.Interactions.from_arrays(["new", "new"], ["i1", "i2"]))
    assert loaded.recommend("new", N=5).ids.shape == (5,)


def test_trees_of_other_parts_are_refused() -> None:
    reranker, other = over(blend()), blend(*PARTS["factors alone"])
    with refuses(ValueError, "model", remedy="fit again"):
        reranker.over(other)
    reranker.model = other
    with refuses(ValueError, "model", remedy="fit again"):
        reranker.recommend(USERS)
    with refuses(ValueError, "first_weight"):
        small(other, first_weight=-0.1)
