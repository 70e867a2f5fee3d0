"""A store of two arrays: ids are row numbers, and what needs counts tells that there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rerankers
import scipy.sparse as sp
from emulated_gpu import EmulatedGPU
from fits import als
from pages import page
from problems import toy
from served import Producer
from stores import same

import mfrank
from mfrank import FactorStore, Recommender
from mfrank.cli.main import main
from mfrank.data import Counts, Ids
from tests.support.errors import refuses

N_USERS, N_ITEMS, FACTORS = 5, 8, 3


def arrays(dtype: type = np.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    shapes = (N_USERS, FACTORS), (N_ITEMS, FACTORS)
    users, items = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    return users, items


def without_counts() -> mfrank.ALS:
    """A fitted model whose store has lost its counts."""
    model = als().fit(toy())
    model._adopt(replace(model.store, counts=None))
    return model


# --- what is left out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_numbered_where_no_ids_are_given(dtype: type) -> None:
    made = FactorStore(*arrays(dtype))
    assert made.user_ids == Ids.numbered(N_USERS)
    assert made.item_ids == Ids.numbered(N_ITEMS)
    assert made.counts is made.user_biases is made.item_biases is made.item_prior is None
    assert made.fitter == {"name": "unknown", "options": {}}
    assert (made.n_users, made.n_items, made.factors, made.dtype) == (N_USERS, N_ITEMS, 3, dtype)


def test_nested_lists_are_factors_too() -> None:
    made = FactorStore([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]])  # type: ignore[arg-type]
    assert (made.n_users, made.n_items) == (1, 2)


def test_factors_of_other_libraries_are_numbered_too() -> None:
    users, items = arrays()
    made = FactorStore(Producer(users), Producer(items))  # type: ignore[arg-type]
    assert (len(made.user_ids), len(made.item_ids)) == (N_USERS, N_ITEMS)
    assert np.shares_memory(made.user_factors, users)


def test_a_bare_store_may_lie_on_a_gpu(device: EmulatedGPU, tmp_path: Path) -> None:
    made = FactorStore(*map(device.asarray, arrays()))
    assert page(made).cell("where") == "GPU"
    assert repr(made) == repr(made.on_host())
    loaded = FactorStore.load(made.save(tmp_path / "s"))
    assert same(loaded, made.on_host())
    assert page(loaded).cell("where") == "host"


def test_labels_may_be_given_instead_of_ids() -> None:
    users, items = list("abcde"), np.arange(N_ITEMS) * 7
    made = FactorStore(*arrays(), users, items)  # type: ignore[arg-type]
    assert made.user_ids == Ids.of(users)
    assert made.item_ids == Ids.of(items)
    ids, _ = Recommender.of(made).recommend("c", N=3, filter_already_liked_items=False)
    assert set(ids.tolist()) <= set(items.tolist())


def test_one_side_may_have_labels() -> None:
    made = FactorStore(*arrays(), item_ids=list("abcdefgh"))  # type: ignore[arg-type]
    assert made.user_ids == Ids.numbered(N_USERS)
    assert made.item_ids == Ids.of(list("abcdefgh"))


@pytest.mark.parametrize("labels", [None, list("abcdefgh")])
def test_items_are_ranked_by_products(labels: list[str] | None) -> None:
    users, items = arrays()
    model = Recommender.of(FactorStore(users, items, item_ids=labels))  # type: ignore[arg-type]
    ids, scores = model.recommend(np.arange(N_USERS), N=N_ITEMS, filter_already_liked_items=False)
    products = users @ items.T
    order = np.argsort(-products, axis=1)
    assert np.array_equal(ids, order if labels is None else np.array(labels)[order])
    np.testing.assert_allclose(scores, np.take_along_axis(products, order, axis=1))
    with refuses(ValueError, "user_items"):
        model.recommend(0)


def test_a_bare_store_comes_back_as_it_was(tmp_path: Path) -> None:
    for name, made in {
        "numbered": FactorStore(*arrays()),
        "labeled": FactorStore(*arrays(np.float32), list("abcde")),  # type: ignore[arg-type]
    }.items():
        path = made.save(tmp_path / name)
        for mmap in (False, True):
            loaded = FactorStore.load(path, mmap=mmap, verify=True)
            assert loaded.counts is None
            assert same(loaded, made)
        model = mfrank.load(path)
        assert type(model) is Recommender
        assert np.array_equal(model.user_factors, made.user_factors)


def test_a_bare_store_takes_the_place_of_one_with_counts(tmp_path: Path) -> None:
    full = als().fit(toy()).store
    full.save(tmp_path / "s")
    replace(full, counts=None).save(tmp_path / "s")
    assert FactorStore.load(tmp_path / "s").counts is None
    full.save(tmp_path / "s")
    assert same(FactorStore.load(tmp_path / "s"), full)


def test_bare_stores_are_blended() -> None:
    one = FactorStore(*arrays())
    both = mfrank.blend(one, one, 1.0)
    assert both.counts is None
    products = both.user_factors @ both.item_factors.T
    np.testing.assert_allclose(products, 2 * one.user_factors @ one.item_factors.T)


def test_a_bare_store_prints() -> None:
    made = FactorStore(*arrays())
    assert repr(made).startswith("FactorStore(5 users x 8 items, 3 factors, float64, ")
    assert page(made).rows == [
        ["users", "5, like 0, 1, 2"],
        ["items", "8, like 0, 1, 2"],
        ["factors", "3"],
        ["dtype", "float64"],
        ["where", "host"],
        ["fitted by", "unknown"],
    ]
    fitted = page(als(track_objective=True).fit(toy()).store)
    assert [fitted.cell(name) for name in ("fitted by", "epochs")] == ["ALS", "3"]
    assert float(fitted.cell("last objective")) > 0


def test_info_tells_of_a_bare_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    FactorStore(*arrays()).save(tmp_path / "s")
    assert main(["info", "--model", str(tmp_path / "s")]) == 0
    shown = capsys.readouterr().out
    assert "FactorStore(5 users x 8 items" in shown
    assert "5, like 0, 1, 2" in shown
    assert "interactions" not in shown
    assert "history" not in shown


def test_info_tells_of_a_history_without_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FactorStore(*arrays(), history=[{"epoch": 1}]).save(tmp_path / "s")
    assert main(["info", "--model", str(tmp_path / "s")]) == 0
    assert "1 epoch in 0.00 s" in capsys.readouterr().out


# --- what needs counts


def test_counts_that_are_missing_are_told_with_the_remedy() -> None:
    made = FactorStore(*arrays())
    with refuses(ValueError, remedy=r"pass FactorStore\("):
        made.known_counts  # noqa: B018
    counts = Counts(np.arange(N_USERS), np.arange(N_ITEMS))
    kept = replace(made, counts=counts).known_counts
    assert np.array_equal(kept.users, counts.users)
    assert np.array_equal(kept.items, counts.items)


ROW = sp.csr_array(np.ones((1, 7)))
COLUMN = sp.csr_array(np.ones((1, 9)))
NEEDS: dict[str, Callable[[mfrank.ALS], Any]] = {
    "recalculate_user": lambda model: model.recalculate_user(0, ROW),
    "recalculate_item": lambda model: model.recalculate_item(0, COLUMN),
    "recommend": lambda model: model.recommend(0, ROW, recalculate_user=True),
    "recommend_from_items": lambda model: model.recommend_from_items([1, 2]),
    "partial_fit_users": lambda model: model.partial_fit_users([0], ROW),
    "partial_fit_items": lambda model: model.partial_fit_items([0], COLUMN),
    "explain": lambda model: model.explain(0, ROW, 1),
}


@pytest.mark.parametrize("call", NEEDS)
def test_fold_in_tells_that_there_are_no_counts(call: str) -> None:
    model = without_counts()
    before = model.store
    with refuses(ValueError, remedy=r"pass FactorStore\("):
        NEEDS[call](model)
    assert model.store is before
    NEEDS[call](als().fit(toy()))  # which has them


def test_a_loaded_model_without_counts_recommends_and_does_not_fold_in(tmp_path: Path) -> None:
    without_counts().save(tmp_path / "m")
    model = mfrank.load(tmp_path / "m")
    assert isinstance(model, mfrank.ALS)
    assert model.recommend(0, ROW, N=2)[0].shape == (2,)
    with refuses(ValueError, remedy=r"pass FactorStore\("):
        model.recalculate_user(0, ROW)


def test_a_second_stage_tells_that_there_are_no_counts() -> None:
    pytest.importorskip("catboost", reason=rerankers.CATBOOST)
    split = rerankers.random_split(names=False)
    first = als().fit(split.train)
    bare = Recommender.of(replace(first.store, counts=None))
    with refuses(ValueError, remedy=r"pass FactorStore\("):
        rerankers.small(bare).fit(split.train, split.valid)


# --- what is refused

BAD: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"user_ids": list("abcd")}, {"argument": "user_factors"}),
    ({"item_ids": list("abcd")}, {"argument": "item_factors"}),
    ({"user_ids": Ids.numbered(6)}, {"argument": "user_factors"}),
    ({"user_ids": []}, {"argument": "user_factors"}),
    (
        {"user_ids": list("abcda")},
        {"argument": "user_ids", "remedy": r"Ids\.factorize numbers ids"},
    ),
    ({"item_ids": [None] * 8}, {"argument": "item_ids", "remedy": "give them an id"}),
    ({"user_ids": "abcde"}, {"argument": "user_ids", "remedy": "wrap it in a list"}),
    ({"user_ids": 5}, {"argument": "user_ids", "remedy": "wrap it in a list"}),
    ({"user_factors": np.ones(5)}, {"argument": "user_factors"}),
    ({"user_factors": np.float64(5)}, {"argument": "user_factors"}),
    ({"item_factors": 3}, {"argument": "item_factors", "remedy": "cast it first"}),
    ({"item_factors": np.ones((8, 4))}, {"argument": "user_factors"}),
    ({"counts": Counts(np.arange(5), np.arange(7))}, {"argument": "counts.items"}),
]


@pytest.mark.parametrize(("changes", "fault"), BAD)
def test_what_does_not_fit_is_refused_by_its_name(
    changes: dict[str, Any], fault: dict[str, str]
) -> None:
    users, items = arrays()
    with refuses((TypeError, ValueError), **fault):
        FactorStore(**{"user_factors": users, "item_factors": items} | changes)
