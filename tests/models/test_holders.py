"""Whatever holds rows of a model answers as one made anew after the model changed, or refuses."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mfrank
from mfrank.retrieval import Recommender
from tests.support.errors import refuses

DATA = mfrank.synthetic(40, 30, 500, names=True, random_state=0)
USERS, ITEMS = DATA.user_ids.labels.tolist(), DATA.item_ids.labels.tolist()
ASKED = USERS[10:14]
OTHER = mfrank.synthetic(40, 30, 450, names=True, random_state=1)
CELLS = mfrank.Interactions.from_arrays(USERS[20:23] * 2, ITEMS[5:8] + ITEMS[9:12])
SPLIT = mfrank.by_ratio(DATA, train=0.7, valid=0.3, test=0.0, random_state=0)

CHANGES: dict[str, Callable[[mfrank.ALS], Any]] = {
    "remove a user": lambda model: model.remove(users=USERS[3]),
    "remove an item": lambda model: model.remove(items=ITEMS[3]),
    "one leaves and one comes": lambda model: model.remove(
        users=USERS[3], items=ITEMS[3]
    ).partial_fit(mfrank.Interactions.from_arrays(["new"], ["new"])),
    "partial_fit": lambda model: model.partial_fit(CELLS),
    "partial_fit_users": lambda model: model.partial_fit_users(ASKED[:1], DATA),
    "partial_fit_users otherwise": lambda model: model.partial_fit_users(USERS[20:21], CELLS),
    "partial_fit_items": lambda model: model.partial_fit_items(ITEMS[5:6], CELLS),
    "a longer fit": lambda model: model.set_params(iterations=4).fit(DATA),
    "a fit to other data": lambda model: model.fit(OTHER),
    "another width": lambda model: model.set_params(factors=3).fit(DATA),
}


def als() -> mfrank.ALS:
    return mfrank.ALS(mfrank.IALS(), 4, 2, random_state=0, n_threads=1)


@pytest.fixture(scope="module")
def fitted() -> mfrank.ALS:
    return als().fit(SPLIT.train)


class Holder(NamedTuple):
    """How something is made of a model, and asked; some refuse to answer for a changed one."""

    make: Callable[[mfrank.ALS, Path], Any]
    ask: Callable[[Any], Any]


def lists(answer: Any) -> list[Any]:
    return [np.asarray(part).tolist() for part in answer]


def faiss_lists(kind: str) -> Holder:
    def make(model: mfrank.ALS, folder: Path) -> Any:
        pytest.importorskip("faiss", reason="the extra faiss is not installed")
        file = folder / f"{model.store.n_items}-{len(list(folder.iterdir()))}.faiss"
        return mfrank.FaissLists(model, mfrank.to_faiss(model.store, file, factory=kind))

    return Holder(make, lambda held: lists(held.recommend(ASKED, N=5)))


def steered(**levers: Any) -> Holder:
    def ask(held: Any) -> Any:
        model, steer = held
        return lists(model.recommend(ASKED, N=5, steer=steer, on_unknown="skip"))

    return Holder(lambda model, _: (model, mfrank.Steering(**levers)), ask)


def reranker(**features: Any) -> Holder:
    def make(model: mfrank.ALS, _: Path) -> Any:
        pytest.importorskip("catboost", reason="the extra rerank is not installed")
        made = mfrank.Reranker(
            mfrank.Recommender.of(FIRST.store), 8, "QueryRMSE", 3, random_state=0, n_threads=1
        )
        made.model = FIRST
        made.fit(SPLIT.train, SPLIT.valid, **features)
        return made.over(model)

    return Holder(make, lambda held: lists(held.recommend(ASKED, N=4)))


FIRST = als().fit(SPLIT.train)


class Explains:
    """Explains one user's items, by weights that were solved once."""

    def __init__(self, model: mfrank.ALS, weights: Callable[[Any], Any]) -> None:
        self.model = model
        self.weights = weights(model.explain(ASKED[0], None, ITEMS[8]).user_weights)

    def ask(self) -> Any:
        found = self.model.explain(ASKED[0], None, ITEMS[9], user_weights=self.weights)
        return found.score, found.contributions, found.baseline


def http(path: str) -> Holder:
    def make(model: mfrank.ALS, _: Path) -> Any:
        pytest.importorskip("fastapi", reason="the extra serve is not installed")
        from starlette.testclient import TestClient

        from mfrank import serving

        return TestClient(serving.app(model))

    return Holder(make, lambda client: client.get(path).json())


def pages(path: str) -> Holder:
    def make(model: mfrank.ALS, _: Path) -> Any:
        pytest.importorskip("jinja2", reason="the extra pages is not installed")
        from starlette.testclient import TestClient

        from mfrank.pages import app

        return TestClient(app({"m": model}, DATA, allow_hosts=["testserver"]))

    def ask(client: Any) -> Any:
        answer = client.get(path, params={"format": "json"}).json()
        return {name: value for name, value in answer.items() if "second" not in name}

    return Holder(make, ask)


HOLDERS: dict[str, Holder] = {
    **{f"faiss {kind}": faiss_lists(kind) for kind in ("Flat", "HNSW8", "IVF2,Flat", "SQ8")},
    "boosts": steered(boosts={ITEMS[6]: 2.0, ITEMS[3]: 1.0}),
    "popularity": steered(popularity_penalty=0.7),
    "diversity": steered(diversity=0.5),
    "caps": steered(categories={item: item[:1] for item in ITEMS}, at_most=2),
    "reranker": reranker(),
    "reranker with features": reranker(item_features=np.arange(30.0)[:, None]),
    "explanation": Holder(lambda m, _: Explains(m, lambda w: w), Explains.ask),
    "pickled explanation": Holder(
        lambda m, _: Explains(m, lambda w: pickle.loads(pickle.dumps(w))), Explains.ask
    ),
    "recommend": Holder(lambda m, _: m, lambda m: [lists(m.recommend(ASKED, N=5))] * 2),
    "similar_items": Holder(lambda m, _: m, lambda m: lists(m.similar_items(ITEMS[6:9], N=5))),
    "similar_users": Holder(lambda m, _: m, lambda m: lists(m.similar_users(ASKED, N=5))),
    "fold-in": Holder(lambda m, _: m, lambda m: lists(m.recommend_from_items(ITEMS[6:9], N=5))),
    "evaluation": Holder(
        lambda m, _: m,
        lambda m: mfrank.evaluate(m, CELLS, metrics="ndcg@5")["ndcg@5"].per_user.tolist(),
    ),
    "a quick list": http(f"/recommend/{ASKED[0]}?n=5"),
    "a list": http(f"/recommend/{ASKED[0]}?n=5&include_seen=true"),
    "similar over http": http(f"/similar/{ITEMS[6]}?n=5"),
    "a user's page": pages(f"/user/{ASKED[0]}"),
    "an item's page": pages(f"/item/{ITEMS[6]}"),
    "the model's page": pages("/model/0"),
    "the page of its quality": pages("/quality/0"),
    "the map": pages("/map"),
}


def answer(ask: Callable[[], Any]) -> Any:
    """The answer, or that there is none."""
    try:
        return json.loads(json.dumps(ask(), default=str))
    except ValueError as error:
        return error


FEW = ("one leaves and one comes", "partial_fit", "a fit to other data")
"""Changes for holders that take long to make: sites, rerankers."""


def is_slow(name: str) -> bool:
    return any(word in name for word in ("page", "map", "list", "http", "reranker"))


@pytest.mark.parametrize(
    ("name", "change"),
    [(name, change) for name in HOLDERS for change in (FEW if is_slow(name) else CHANGES)],
)
def test_a_holder_knows_that_its_model_changed(
    name: str, change: str, fitted: mfrank.ALS, tmp_path: Path
) -> None:
    model, holder = copy.deepcopy(fitted), HOLDERS[name]
    held = holder.make(model, tmp_path)
    before = [answer(lambda: holder.ask(held)) for _ in range(3)]
    assert before[0] == before[-1]  # that of the caches
    assert not isinstance(before[0], Exception)
    CHANGES[change](model)
    found = [answer(lambda: holder.ask(held)) for _ in range(3)][-1]
    if not isinstance(found, Exception):
        assert found == answer(lambda: holder.ask(holder.make(model, tmp_path)))


def test_a_file_of_other_items_is_no_index_of_a_model(fitted: mfrank.ALS, tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="the extra faiss is not installed")
    for kind in ("Flat", "HNSW8", "IVF2,Flat", "SQ8", "PQ2x4"):
        model = copy.deepcopy(fitted)
        file = mfrank.to_faiss(model.store, tmp_path / "items", factory=kind)
        assert mfrank.FaissLists(model, file).recommend(ASKED, N=3).ids.shape == (4, 3)
        assert mfrank.FaissLists(model, faiss.read_index(str(file))).index.ntotal == 30
        CHANGES["one leaves and one comes"](model)
        with refuses(ValueError, "index", remedy="to_faiss"):
            mfrank.FaissLists(model, file)


def test_lists_of_all_users_are_of_one_model(
    fitted: mfrank.ALS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread changes it while files are written; then the folder is of another model."""
    from mfrank.retrieval import all_lists

    monkeypatch.setattr(all_lists, "_PLACES_AT_ONCE", 30)
    expected = tmp_path / "expected"
    fitted.recommend_all(expected, N=3, format="csv")
    model, recommend, calls = copy.deepcopy(fitted), Recommender.recommend, list[int]()

    def slowly(self: Any, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            CHANGES["partial_fit"](model)
            model.remove(users=USERS[3])
        return recommend(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Recommender, "recommend", slowly)
        model.recommend_all(tmp_path / "lists", N=3, format="csv")
    files = sorted(path.name for path in expected.glob("part-*"))
    assert len(files) > 2
    for file in files:
        assert (tmp_path / "lists" / file).read_bytes() == (expected / file).read_bytes()
    with refuses(ValueError, place="lists", remedy=r"other|another"):
        model.recommend_all(tmp_path / "lists", N=3, format="csv")


def test_an_evaluation_is_of_one_model(fitted: mfrank.ALS, monkeypatch: pytest.MonkeyPatch) -> None:
    model, recommend, calls = copy.deepcopy(fitted), Recommender.recommend, list[int]()

    def slowly(self: Any, *args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            model.remove(users=USERS[3], items=ITEMS[3])
        return recommend(self, *args, **options)

    how: dict[str, Any] = {"metrics": "ndcg@5", "batch_size": 7}
    how["steer"] = mfrank.Steering(diversity=0.2)
    expected = mfrank.evaluate(fitted, SPLIT.valid, **how)
    monkeypatch.setattr(Recommender, "recommend", slowly)
    assert mfrank.evaluate(model, SPLIT.valid, **how)["ndcg@5"].value == expected["ndcg@5"].value
