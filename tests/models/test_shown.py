"""Models tell in a line what they are and whether they are fitted, and in a notebook all of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rerankers
from fits import als, labeled
from hypothesis import given
from hypothesis import strategies as st
from pages import page
from problems import toy
from stores import store

import mfrank
from mfrank import ALS, RG2, Descent, Judged, LinearRanker, Recommender, Reranker
from mfrank.models import Parameters

EVIL = "<script>alert('&')</script>"

DOCUMENTS = Judged([[1.0, 5], [0, 4], [2, 5], [1, 1]], relevance=[1, 0, 2, 0], queries=[1, 1, 2, 2])
SESSIONS = mfrank.Interactions.from_arrays(
    [0, 0, 0, 1, 1, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2, 3, 0, 1], timestamps=[1, 2, 3, 1, 2, 3, 4, 1, 2]
)

MODELS: dict[str, Callable[[], Any]] = {
    "ALS": lambda: als(track_objective=True),
    "Descent": lambda: Descent(factors=3, iterations=2, random_state=0),
    "LinearRanker": lambda: LinearRanker(iterations=2, random_state=0),
    "SupervisedPageRank": lambda: mfrank.SupervisedPageRank(random_state=0),
    "EASE": mfrank.EASE,
    "ItemFilter": mfrank.ItemFilter,
    "ItemKNN": mfrank.ItemKNN,
    "Popularity": mfrank.Popularity,
    "Reranker": lambda: rerankers.small(als()),
    "Recommender": Recommender,
}
CLASSES = [
    ALS,
    Descent,
    LinearRanker,
    mfrank.EASE,
    mfrank.ItemFilter,
    mfrank.ItemKNN,
    mfrank.Popularity,
    mfrank.SupervisedPageRank,
    Reranker,
]


def fitted(name: str) -> Any:
    if name == "Reranker":
        return rerankers.fitted()[0]
    if name == "Recommender":
        return Recommender.of(store())
    data = {"LinearRanker": DOCUMENTS, "SupervisedPageRank": SESSIONS}.get(name, toy())
    return MODELS[name]().fit(data)


# --- in a line


def test_only_options_that_differ_from_their_defaults_are_printed() -> None:
    assert repr(ALS()) == f"ALS(objective={RG2()!r}, not fitted)"
    assert repr(ALS(factors=64, backend="auto")) == repr(ALS())
    assert repr(ALS(mfrank.IALS(), factors=8, n_threads=2)) == (
        f"ALS(objective={mfrank.IALS()!r}, factors=8, n_threads=2, not fitted)"
    )
    assert (
        repr(LinearRanker(scale=False)) == "LinearRanker(loss=ListNet(), scale=False, not fitted)"
    )


def test_a_backend_tells_nothing_of_what_a_model_is() -> None:
    assert repr(mfrank.Popularity()) == "Popularity(not fitted)"
    assert repr(mfrank.Popularity(backend="cpu")) == "Popularity(backend='cpu', not fitted)"


def test_the_fit_is_told() -> None:
    model = ALS(factors=2, iterations=1).fit(mfrank.synthetic(1200, 100, 4000, random_state=0))
    expected = "factors=2, iterations=1, fitted to 1,200 users x 100 items)"
    assert repr(model).endswith(expected)
    assert repr(fitted("LinearRanker")).endswith("fitted to 2 features)")
    assert repr(fitted("SupervisedPageRank")).endswith("fitted to 3 users x 4 items)")


def test_a_fitted_reranker_tells_both_stages() -> None:
    model, _ = rerankers.fitted()
    assert repr(model).startswith(f"Reranker(model={model.model!r}, candidates=12, ")
    assert repr(model).endswith(f"fitted to {model.found.users_trained_on} users)")
    assert "fitted to 60 users x 30 items" in page(model).cell("model")


def test_a_recommender_prints_its_store() -> None:
    assert repr(Recommender()) == "Recommender(not fitted)"
    assert repr(Recommender.of(store())) == f"Recommender(of {store()!r})"


@pytest.mark.parametrize("kind", CLASSES)
def test_each_option_alone_is_printed(kind: type[Any]) -> None:
    needed = {"model": als()} if kind is Reranker else {}
    first, *others = (f for f in fields(kind) if f.init)
    plain = kind(**needed)
    told = "" if first.name == "backend" else f"{first.name}={getattr(plain, first.name)!r}, "
    assert repr(plain) == f"{kind.__name__}({told}not fitted)"
    for option in others:
        changed = kind(**needed)
        setattr(changed, option.name, "something else")
        expected = f"{kind.__name__}({told}{option.name}='something else', not fitted)"
        assert repr(changed) == expected


@given(st.data())
def test_models_that_differ_in_an_option_print_differently(data: st.DataObject) -> None:
    choices: dict[str, list[Any]] = {
        "objective": [RG2(), RG2(alpha=0.5), mfrank.IALS()],
        "factors": [64, 8],
        "solver": ["auto", "cg"],
        "cg_tolerance": [None, 0.1],
        "dtype": ["float32", "float64"],
        "random_state": [None, 0, 1],
        "track_objective": [False, True],
    }
    one, other = (
        {name: data.draw(st.sampled_from(values)) for name, values in choices.items()}
        for _ in range(2)
    )
    assert (repr(ALS(**one)) == repr(ALS(**other))) == (one == other)


def test_dtypes_are_printed_by_name() -> None:
    assert repr(ALS(dtype=np.float32)) == repr(ALS(dtype=np.dtype("f4"))) == repr(ALS())
    assert ", dtype='float64', " in repr(ALS(dtype=np.float64))


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


ODD: list[Any] = [
    Unprintable(),
    np.eye(3),
    np.array([]),
    [np.nan],
    dict,
    np.dtype([("a", "f4")]),
    "two\nlines",
    None,
    np.random.default_rng(0),
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_model_prints_on_one_line_whatever_it_is_set_to(kind: type[Any], value: Any) -> None:
    made = kind.__new__(kind)
    for option in fields(kind):
        if option.init:
            setattr(made, option.name, value)
    assert "\n" not in repr(made)
    page(made)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_half_made_model_prints(kind: type[Any]) -> None:
    text = repr(kind.__new__(kind))
    assert text.endswith("not fitted)")
    assert ("model=<not set>" in text) == (kind is Reranker)


def test_a_reranker_of_itself_prints() -> None:
    model = rerankers.small(als())
    model.model = model  # type: ignore[assignment]
    assert repr(model).startswith("Reranker(model=..., ")
    page(model)


def test_options_without_a_default_or_with_one_that_is_made_print() -> None:
    @dataclass(eq=False, repr=False)
    class Listed(Parameters):
        needed: int
        made: list[int] = field(default_factory=list)

    assert repr(Listed(1)) == "Listed(needed=1, not fitted)"
    assert repr(Listed(1, [2])) == "Listed(needed=1, made=[2], not fitted)"
    assert page(Listed(1)).rows[1:] == [["needed", "1", ""], ["made", "[]", "[]"]]


@pytest.mark.parametrize("name", MODELS)
def test_copies_and_pickles_print_alike(name: str) -> None:
    for model in (MODELS[name](), fitted(name)):
        again = pickle.loads(pickle.dumps(model))
        assert repr(again) == repr(model)
        assert again._repr_html_() == model._repr_html_()


@pytest.mark.parametrize("name", ["ALS", "Descent", "LinearRanker", "SupervisedPageRank"])
def test_a_loaded_model_prints_as_the_saved_one(tmp_path: Path, name: str) -> None:
    model = fitted(name)
    model.save(tmp_path / "model")
    assert repr(type(model).load(tmp_path / "model")) == repr(model)


# --- in a notebook


@pytest.mark.parametrize("name", MODELS)
def test_a_notebook_shows_a_model_before_and_after_its_fit(name: str) -> None:
    before, after = MODELS[name](), fitted(name)
    assert "not fitted" in "".join(page(before).texts)
    assert "not fitted" not in "".join(page(after).texts)
    assert "\n" not in repr(after)


def test_all_options_are_shown_beside_their_defaults() -> None:
    model = als(track_objective=True).fit(toy())
    shown = page(model)
    assert shown.rows[0] == ["option", "value", "default"]
    assert [row[0] for row in shown.rows[1 : 1 + len(fields(ALS))]] == [f.name for f in fields(ALS)]
    assert shown.cell("factors") == "4"
    assert shown.cell("factors", 2) == "64"
    assert shown.cell("solver") == shown.cell("solver", 2) == "'auto'"
    assert shown.cell("fitted to") == "9 users x 7 items"
    assert shown.cell("epochs") == "3"
    assert float(shown.cell("seconds")) >= 0
    objective = model.store.history[-1]["objective"]
    assert float(shown.cell("last objective")) == pytest.approx(objective, rel=1e-5)


def test_an_objective_that_is_not_tracked_is_not_shown() -> None:
    assert "last objective" not in "".join(page(als().fit(toy())).texts)


def test_options_are_escaped() -> None:
    model = rerankers.small(als(), loss=EVIL)
    assert EVIL in repr(model)
    assert page(model).cell("loss") == repr(EVIL)
    assert "<script" not in model._repr_html_()


def test_a_recommender_shows_its_store() -> None:
    made = store(fitter={"name": EVIL, "options": {}})
    shown = page(Recommender.of(made))
    assert shown.texts[0] == "Recommender of"
    assert shown.rows == page(made).rows
    assert shown.cell("fitted by") == EVIL


def test_a_fit_to_labeled_data_does_not_print_its_ids() -> None:
    assert "u0" not in repr(als().fit(labeled()))
