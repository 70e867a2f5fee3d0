"""Options that are set after a fit count from the next one: no answer mixes two sets of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rerankers import fitted

import mfrank

DATA = mfrank.synthetic(40, 30, 400, names=True, random_state=0)
TODAY = mfrank.synthetic(45, 32, 60, names=True, random_state=1)
SOMEBODY = DATA.user_ids.labels[:3]
THEIRS = DATA.item_ids.labels[:2]


def als(**options: Any) -> mfrank.ALS:
    return mfrank.ALS(**{"factors": 4, "iterations": 2, "random_state": 0, **options}).fit(DATA)


def updated(model: Any) -> Any:
    model.partial_fit(TODAY)
    return model.user_factors, model.item_factors


def users_updated(model: Any) -> Any:
    return model.partial_fit_users(SOMEBODY, DATA).user_factors


def items_updated(model: Any) -> Any:
    return model.partial_fit_items(THEIRS, DATA).item_factors


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "recommend": lambda model: model.recommend(SOMEBODY).scores,
    "fold in": lambda model: model.recommend(SOMEBODY, DATA, recalculate_user=True).scores,
    "new user": lambda model: model.recommend_from_items(THEIRS).scores,
    "user": lambda model: model.recalculate_user(SOMEBODY, DATA),
    "item": lambda model: model.recalculate_item(THEIRS, DATA),
    "explain": lambda model: model.explain(SOMEBODY[0], None, THEIRS[0]).score,
    "update": updated,
    "users": users_updated,
    "items": items_updated,
}
CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"objective": mfrank.WRMF(alpha=30)}),
    ({}, {"objective": mfrank.IALS(regularization=3)}),
    ({}, {"factors": 7}),
    ({}, {"biases": True}),
    ({"biases": True}, {"biases": False}),
    ({"objective": mfrank.WRMF(alpha=30)}, {"objective": mfrank.RG2()}),
    ({"objective": mfrank.WRMF(alpha=30)}, {"objective__alpha": 1.0}),
]


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return all(map(equal, one, other))
    return np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("name", list(ANSWERS))
@pytest.mark.parametrize(("options", "changed"), CHANGES)
def test_an_option_set_after_the_fit_changes_no_answer_and_no_update(
    name: str, options: dict[str, Any], changed: dict[str, Any]
) -> None:
    answered = ANSWERS[name]
    model = als(**options).set_params(**changed)
    assert equal(answered(model), answered(als(**options)))


@pytest.mark.parametrize("changed", [change for _, change in CHANGES[:4]])
def test_a_saved_model_answers_as_the_one_that_saved_it_and_the_next_fit_reads_the_options(
    changed: dict[str, Any], tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = als().set_params(**changed)
    with caplog.at_level(logging.WARNING, "mfrank"):
        model.save(tmp_path / "model")
    assert [next(iter(changed)) in line for line in caplog.messages] == [True]
    loaded = mfrank.load(tmp_path / "model")
    assert equal(ANSWERS["new user"](loaded), ANSWERS["new user"](model))
    assert equal(model.fit(DATA).item_factors, als(**changed).item_factors)


def test_each_door_tells_once_what_was_set_and_prints_it(caplog: pytest.LogCaptureFixture) -> None:
    model = als()
    model.objective = mfrank.IALS()
    assert "with other objective" in repr(model)
    ones: dict[str, Callable[[], Any]] = {
        "partial_fit": lambda: model.partial_fit(DATA.take(np.arange(DATA.nnz) < 5)),
        "partial_fit_users": lambda: model.partial_fit_users(SOMEBODY, DATA),
        "partial_fit_items": lambda: model.partial_fit_items(THEIRS, DATA),
        "recommend_from_items": lambda: model.recommend_from_items(THEIRS),
    }
    for name, call in ones.items():
        caplog.clear()
        call()
        told = [line for line in caplog.messages if "objective=IALS" in line]
        assert len(told) == 1, name


@pytest.mark.parametrize("option", ["n_threads", "backend", "random_state"])
def test_how_to_compute_counts_at_once_and_is_no_news(
    option: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = als().set_params(**{option: {"backend": "reference"}.get(option, 1)})
    caplog.clear()
    model.recommend_from_items(THEIRS)
    model.partial_fit_users(SOMEBODY, DATA)
    assert not caplog.messages
    assert "with other" not in repr(model)


def test_a_walk_goes_on_with_the_options_of_its_fit(tmp_path: Any) -> None:
    def walk() -> mfrank.SupervisedPageRank:
        return mfrank.SupervisedPageRank(random_state=0).fit(timed)

    times = np.arange(DATA.nnz)
    user, item = DATA.entry_users, DATA.user_items.indices
    timed = mfrank.Interactions.from_arrays(user, item, timestamps=times)
    model = walk().set_params(alpha=0.2, recent=1, tolerance=0.1)
    for options in ({}, {"user_items": timed, "recalculate_user": True}):
        expected = walk().recommend([0, 1, 2], **options)
        assert equal(tuple(model.recommend([0, 1, 2], **options)), tuple(expected))
        model.save(tmp_path / "walk", overwrite=True)
        loaded = mfrank.load(tmp_path / "walk")
        assert equal(tuple(loaded.recommend([0, 1, 2], **options)), tuple(expected))
    first = model.item_ids.raw([0])[0]
    assert model.explain(0, None, first).score == walk().explain(0, None, first).score


def test_a_reranker_goes_on_with_the_candidates_of_its_fit(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reranker, split = fitted(candidates=6)
    users = split.train.user_ids.labels[:5]
    before = reranker.recommend(users, N=6).to_dicts()
    reranker.set_params(candidates=12, depth=2)
    assert reranker.recommend(users, N=6).to_dicts() == before
    assert "with other candidates, depth" in repr(reranker)
    first = reranker.model.recommend(users, N=7)
    assert reranker.recommend(users, N=7).ids[:, 6].tolist() == first.ids[:, 6].tolist()
    with caplog.at_level(logging.WARNING, "mfrank"):
        reranker.save(tmp_path / "reranker")
    assert "candidates=12, depth=2" in caplog.text
    loaded = mfrank.load(tmp_path / "reranker")
    assert loaded.recommend(users, N=6).to_dicts() == before
    reranker.fit(split.train, split.valid)
    assert reranker.recommend(users[0], N=12).ids.shape == (12,)
