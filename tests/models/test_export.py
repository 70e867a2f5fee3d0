"""Exports give other programs the lists of the model, and what they can hold comes back."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from stores import same, store, stores

import mfrank
from mfrank.cli.main import main
from mfrank.data import Ids
from mfrank.models import with_bias_columns
from tests.support.errors import refuses

DATA = mfrank.synthetic(60, 40, 500, random_state=0)


def fitted() -> mfrank.ALS:
    return mfrank.ALS(factors=6, iterations=2, random_state=0).fit(DATA)


@pytest.fixture
def runtime() -> Any:
    pytest.importorskip("onnx", reason="the package onnx is optional")
    return pytest.importorskip("onnxruntime", reason="the package onnxruntime is optional")


@pytest.fixture
def parquet() -> Any:
    return pytest.importorskip("pyarrow.parquet", reason="the package pyarrow is optional")


@settings(max_examples=30, deadline=None)
@given(saved=stores())
def test_parquet_gives_back_the_same_store(
    tmp_path_factory: pytest.TempPathFactory, saved: mfrank.FactorStore
) -> None:
    pytest.importorskip("pyarrow", reason="the package pyarrow is optional")
    folder = tmp_path_factory.mktemp("p")
    if not _is_text(saved):
        with pytest.raises(ValueError, match="cannot be written as UTF-8"):
            mfrank.to_parquet(saved, folder)
        return
    mfrank.to_parquet(saved, folder)
    assert same(mfrank.from_parquet(folder), replace(saved, extras={}))


def _is_text(saved: mfrank.FactorStore) -> bool:
    """Whether ids are without surrogates, which only Python takes for text."""
    labels = [*saved.user_ids.labels, *saved.item_ids.labels]
    return not any("\ud800" <= mark <= "\udfff" for label in map(str, labels) for mark in label)


def test_parquet_is_a_table_that_others_read(tmp_path: Path, parquet: Any) -> None:
    saved = store()
    mfrank.to_parquet(saved, tmp_path)
    table = parquet.read_table(tmp_path / "items.parquet").to_pydict()
    assert table["id"] == saved.item_ids.labels.tolist()
    np.testing.assert_array_equal(table["factors"], saved.item_factors)
    np.testing.assert_array_equal(table["bias"], saved.item_biases)


def test_parquet_of_something_else_is_refused(tmp_path: Path, parquet: Any) -> None:
    mfrank.to_parquet(store(), tmp_path / "a")
    mfrank.to_parquet(fitted().store, tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        mfrank.from_parquet(tmp_path / "c")
    users = tmp_path / "a" / "users.parquet"
    whole = users.read_bytes()
    users.write_bytes((tmp_path / "b" / "users.parquet").read_bytes())
    with refuses(ValueError, place="a", remedy="export the store again"):
        mfrank.from_parquet(tmp_path / "a")
    users.write_bytes((tmp_path / "b" / "items.parquet").read_bytes())
    with refuses(ValueError, place="users.parquet", remedy="export the store again"):
        mfrank.from_parquet(tmp_path / "a")
    users.write_bytes(whole[:50])
    with refuses(ValueError, place="users.parquet", remedy="export the store again"):
        mfrank.from_parquet(tmp_path / "a")
    parquet.write_table(parquet.read_table(tmp_path / "b" / "users.parquet").select(["id"]), users)
    with refuses(ValueError, place="users.parquet", remedy="export the store again"):
        mfrank.from_parquet(tmp_path / "a")


def test_parquet_of_two_stores_is_told_by_their_factors(tmp_path: Path, parquet: Any) -> None:
    """Also where the numbers are the same, and only the table they are in differs."""
    numbers = np.arange(18.0).reshape(9, 2)
    pairs = [(numbers[:4], numbers[4:]), (numbers[:5], numbers[5:]), (numbers[:4], numbers[4:] + 1)]
    for n, (users, items) in enumerate(pairs):
        mfrank.to_parquet(mfrank.FactorStore(users, items), tmp_path / "deep" / str(n))
    for n in (1, 2):
        (tmp_path / "deep" / str(n) / "users.parquet").replace(tmp_path / "deep/0/users.parquet")
        with refuses(ValueError, place="0", remedy="export the store again"):
            mfrank.from_parquet(tmp_path / "deep" / "0")


def test_a_parquet_file_must_have_the_header_of_this_format(tmp_path: Path, parquet: Any) -> None:
    path = mfrank.to_parquet(store(), tmp_path) / "users.parquet"
    table = parquet.read_table(path)
    header = json.loads(table.schema.metadata[b"mfrank"])
    for changes, fault in [
        ({"version": 99}, {"place": "users.parquet", "remedy": "upgrade mfrank"}),
        ({"format": "other"}, {"place": "users.parquet"}),
        ({"more": 1}, {"place": "users.parquet", "remedy": "restore it"}),
        ({"metadata": {}}, {"remedy": "restore it"}),
        (
            {"metadata": header["metadata"] | {"versions": 3}},
            {"argument": "versions", "remedy": "export the store again"},
        ),
    ]:
        told = {b"mfrank": json.dumps(header | changes).encode()}
        parquet.write_table(table.replace_schema_metadata(told), path)
        with refuses(ValueError, **fault):
            mfrank.from_parquet(tmp_path)
    parquet.write_table(table.replace_schema_metadata(None), path)
    with refuses(ValueError, place="users.parquet"):
        mfrank.from_parquet(tmp_path)


@pytest.mark.parametrize("export", [mfrank.to_onnx, mfrank.to_parquet])
def test_ids_that_are_no_typed_column_are_refused(
    tmp_path: Path, runtime: Any, export: Any
) -> None:
    pytest.importorskip("pyarrow", reason="the package pyarrow is optional")
    for labels, fault in [
        ([1, "a", 3], {"argument": "item_ids", "remedy": "convert all to text"}),
        (["a", "b\ud800", "c"], {"argument": "item_ids"}),
        ([(1, 2), (1, 3), (2, 3)], {"remedy": "use str or int"}),
    ]:
        ids = np.empty(3, object)
        ids[:] = labels
        with refuses(ValueError, **fault):
            export(store(item_ids=Ids.of(ids)), tmp_path / "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("named", [False, True])
def test_onnx_makes_the_lists_of_the_model(
    tmp_path: Path, runtime: Any, dtype: str, named: bool
) -> None:
    model = mfrank.ALS(factors=6, iterations=2, random_state=0, dtype=dtype).fit(DATA)
    changes: dict[str, Any] = {"item_biases": np.linspace(-1, 1, 40)}
    if named:
        changes["item_ids"] = Ids.of([f"ì {n}" for n in range(40)])
    made = mfrank.Recommender.of(replace(model.store, **changes))
    session = runtime.InferenceSession(mfrank.to_onnx(made.store, tmp_path / "m.onnx"))
    users, seen = np.arange(0, 60, 7), DATA.user_items.toarray() > 0
    ids, scores, all_scores = session.run(
        ["ids", "scores", "all_scores"],
        {"users": users, "n": np.array([5]), "filtered": seen[users]},
    )
    expected = made.recommend(users, DATA.user_items, N=5, by_row=True)
    assert ids.tolist() == made.item_ids.raw(expected.ids).tolist()
    np.testing.assert_allclose(scores, expected.scores, rtol=1e-5, atol=1e-6)
    pairs = made.score(np.repeat(users, 40), np.tile(np.arange(40), len(users)), by_row=True)
    np.testing.assert_allclose(all_scores.ravel(), pairs, rtol=1e-5, atol=1e-6)


def test_onnx_marks_places_that_nothing_is_left_for(tmp_path: Path, runtime: Any) -> None:
    session = runtime.InferenceSession(mfrank.to_onnx(store(), tmp_path / "m.onnx"))
    filtered = np.array([[True, False, True]])
    (scores,) = session.run(
        ["scores"], {"users": np.arange(4), "n": np.array([3]), "filtered": filtered}
    )
    assert np.isfinite(scores[:, 0]).all()
    assert np.isneginf(scores[:, 1:]).all()


def test_an_onnx_file_says_what_runs_it(tmp_path: Path, runtime: Any) -> None:
    """Versions of 2022, which every runtime since then reads, and the docstring's table."""
    import onnx

    path = mfrank.to_onnx(store(), tmp_path / "m.onnx")
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 8
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 17)]
    assert (model.producer_name, model.producer_version) == ("mfrank", mfrank.__version__)
    session = runtime.InferenceSession(path)
    assert {given.name: (given.type, given.shape) for given in session.get_inputs()} == {
        "users": ("tensor(int64)", ["users"]),
        "n": ("tensor(int64)", [1]),
        "filtered": ("tensor(bool)", ["lists", 3]),
    }
    assert {made.name: made.shape for made in session.get_outputs()} == {
        "ids": ["users", "n"],
        "scores": ["users", "n"],
        "all_scores": ["users", 3],
    }


def test_onnx_refuses_what_it_cannot_hold(
    tmp_path: Path, runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refuses(TypeError, "store"):
        mfrank.to_onnx(fitted(), tmp_path / "m")
    with refuses(ValueError, "store"):
        mfrank.to_onnx(mfrank.FactorStore(np.ones((2, 1)), np.ones((0, 1))), tmp_path / "m")
    monkeypatch.setattr("mfrank.models.onnx_graph._MOST_BYTES", 10)
    with refuses(ValueError, remedy="use to_parquet or to_safetensors"):
        mfrank.to_onnx(store(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("package", "export", "extra"),
    [
        ("faiss", mfrank.to_faiss, "faiss"),
        ("onnx", mfrank.to_onnx, "onnx"),
        ("pyarrow", mfrank.to_parquet, "parquet"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    package: str, export: Any, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install mfrank\[{extra}\]"):
        export(store(), tmp_path / "x")


def test_the_command_line_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Any, parquet: Any
) -> None:
    pytest.importorskip("faiss", reason="the package faiss is optional")
    monkeypatch.chdir(tmp_path)
    model = fitted()
    model.save("model")
    for to, path in (("faiss", "f"), ("onnx", "m.onnx"), ("parquet", "p")):
        assert main(["export", "--model", "model", "--to", to, path]) == 0
    back = mfrank.from_faiss("f/users.faiss", "f/items.faiss")
    np.testing.assert_array_equal(back.user_factors, model.user_factors)
    assert same(mfrank.from_parquet("p"), model.store)
    runtime.InferenceSession("m.onnx")
    assert main(["export", "--model", "model", "--to", "parquet", "m.onnx"]) == 2
    assert main(["export", "--model", "model", "--to", "onnx", "none/m.onnx"]) == 2


# --- whatever goes out ranks as the model does, or is refused


def _fits() -> dict[str, mfrank.Recommender]:
    als = fitted()
    item_models = {
        "EASE": mfrank.EASE(5.0).fit(DATA),
        "ItemFilter": mfrank.ItemFilter(neighbors=7).fit(DATA),
        "ItemKNN": mfrank.ItemKNN().fit(mfrank.bm25_weight(DATA)),
    }
    ease, kNN = item_models["EASE"].store, item_models["ItemKNN"].store
    return {
        "ALS": als,
        "ALS with biases": mfrank.ALS(factors=4, biases=True, random_state=0).fit(DATA),
        "Descent": mfrank.Descent(factors=4, iterations=2, random_state=0).fit(DATA),
        "Popularity": mfrank.Popularity().fit(DATA),
        **item_models,
        "blend": mfrank.Recommender.of(mfrank.blend(als.store, als.store, 0.5)),
        "blend with items": mfrank.ItemBlend.of(
            mfrank.blend(mfrank.blend(als.store, ease, 0.3), kNN, 0.1)
        ),
        "walk": mfrank.SupervisedPageRank(random_state=0).fit(DATA_WITH_TIMES),
    }


DATA_WITH_TIMES = mfrank.Interactions.from_arrays(
    DATA.entry_users,
    DATA.user_items.indices,
    timestamps=np.random.default_rng(0).permutation(DATA.nnz) * 1000,
    shape=DATA.user_items.shape,
)
FITS = _fits()
USERS = np.arange(60)


def by_onnx(model: mfrank.Recommender, folder: Path) -> Any:
    pytest.importorskip("onnx", reason="the package onnx is optional")
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is optional")
    session = runtime.InferenceSession(mfrank.to_onnx(model.store, folder / "m.onnx"))
    given = {"users": USERS, "n": np.array([8]), "filtered": np.zeros((1, 40), bool)}
    ids, scores = session.run(["ids", "scores"], given)
    return np.where(np.isneginf(scores), -1, ids)


def by_faiss(model: mfrank.Recommender, folder: Path) -> Any:
    pytest.importorskip("faiss", reason="the package faiss is optional")
    users, items = (mfrank.to_faiss(model.store, folder / side, side) for side in ("user", "item"))
    return lists_of(mfrank.Recommender.of(mfrank.from_faiss(users, items)))


def by_faiss_lists(model: mfrank.Recommender, folder: Path) -> Any:
    faiss = pytest.importorskip("faiss", reason="the package faiss is optional")
    vectors = with_bias_columns(model.store)[1]
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors, dtype=np.float32))
    found = mfrank.FaissLists(model, index).recommend(USERS, 8, False)
    return found.ids


def by_parquet(model: mfrank.Recommender, folder: Path) -> Any:
    pytest.importorskip("pyarrow", reason="the package pyarrow is optional")
    return lists_of(
        mfrank.Recommender.of(mfrank.from_parquet(mfrank.to_parquet(model.store, folder)))
    )


def by_safetensors(model: mfrank.Recommender, folder: Path) -> Any:
    pytest.importorskip("safetensors", reason="the package safetensors is optional")
    path = mfrank.to_safetensors(model.store, folder / "m.safetensors")
    store = mfrank.from_safetensors(path)
    return lists_of(mfrank.load(store.save(folder / "model")))


def by_implicit(model: mfrank.Recommender, folder: Path) -> Any:
    path = mfrank.to_implicit(model.store, folder / "m.npz")
    return lists_of(mfrank.Recommender.of(mfrank.from_implicit(path)))


def by_bare_store(model: mfrank.Recommender, folder: Path) -> Any:
    return lists_of(mfrank.Recommender.of(model.store))


def by_load_as_recommender(model: mfrank.Recommender, folder: Path) -> Any:
    return lists_of(mfrank.Recommender.load(model.save(folder / "model")))


def by_load(model: mfrank.Recommender, folder: Path) -> Any:
    return lists_of(mfrank.load(model.save(folder / "model")))


def by_blend_with_nothing(model: mfrank.Recommender, folder: Path) -> Any:
    nothing = replace(
        FITS["ALS"].store, user_factors=np.zeros((60, 1), "f"), item_factors=np.zeros((40, 1), "f")
    )
    both = mfrank.blend(nothing, model.store, 1.0)
    if both.fitter["name"] == "ItemBlend":
        return lists_of(mfrank.ItemBlend.of(both))
    return lists_of(mfrank.Recommender.of(both))


WAYS_OUT = [
    *(by_onnx, by_faiss, by_faiss_lists, by_parquet, by_safetensors, by_implicit),
    *(by_bare_store, by_load_as_recommender, by_load, by_blend_with_nothing),
]
RANK_BY_MORE = ["EASE", "ItemFilter", "ItemKNN", "blend with items", "walk"]
HOLD_ALL = {
    name: [by_safetensors, by_load, *([] if name == "walk" else [by_onnx, by_blend_with_nothing])]
    for name in RANK_BY_MORE
}


def lists_of(model: mfrank.Recommender) -> Any:
    return model.recommend(USERS, N=8, filter_already_liked_items=False, by_row=True).ids


@pytest.mark.parametrize("way_out", WAYS_OUT, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", FITS)
def test_every_way_out_gives_the_lists_of_the_model_or_an_error(
    name: str, way_out: Any, tmp_path: Path
) -> None:
    model = FITS[name]
    if name in RANK_BY_MORE and way_out not in HOLD_ALL[name]:
        with pytest.raises(ValueError, match=r"ranks by|no products of factors|both of weights"):
            way_out(model, tmp_path)
        return
    found = way_out(model, tmp_path)
    scores = np.array(
        [model.score(np.full(40, user), np.arange(40), by_row=True) for user in USERS]
    )
    expected = lists_of(model)
    np.testing.assert_array_equal(found < 0, expected < 0)
    # As good an item in each place: equal scores may be in another order after rounding.
    np.testing.assert_allclose(
        *(np.where(ids < 0, 0, np.take_along_axis(scores, ids, 1)) for ids in (found, expected)),
        rtol=1e-5,
        atol=1e-6 * np.abs(scores).max(),
    )
    for row in found.tolist():
        listed = [each for each in row if each >= 0]
        assert len(set(listed)) == len(listed) > 0


SPARSE = sp.csr_array(np.random.default_rng(3).random((12, 15)) < 0.3, dtype=np.float32).tolil()
SPARSE[[0, 5]], SPARSE[:, [2, 7]] = 0, 0  # users without likes, items of nobody
SPARSE = SPARSE.tocsr()


_SPARSE_FITS: dict[str, Callable[[], Any]] = {
    "IALS": lambda: mfrank.ALS(mfrank.IALS(), factors=3, random_state=0).fit(SPARSE),
    "RG2": lambda: mfrank.ALS(factors=3, random_state=0).fit(SPARSE),
    "biases": lambda: mfrank.ALS(factors=3, random_state=0, biases=True).fit(SPARSE),
    "EASE": lambda: mfrank.EASE(1.0).fit(SPARSE),
    "ItemFilter": lambda: mfrank.ItemFilter().fit(SPARSE),
    "ItemKNN": lambda: mfrank.ItemKNN(neighbors=3).fit(SPARSE),
    "popularity": lambda: mfrank.Popularity().fit(SPARSE),
}


@pytest.mark.parametrize("name", RANK_BY_MORE)
def test_a_bare_store_is_not_evaluated_by_a_part_of_the_model(name: str) -> None:
    with refuses(ValueError, "store", remedy="pass the model itself"):
        mfrank.evaluate(FITS[name].store, DATA, train=DATA.take(np.arange(DATA.nnz) % 2 == 0))


@pytest.mark.parametrize("to", ["faiss", "parquet", "onnx", "safetensors"])
def test_the_command_line_refuses_what_would_rank_otherwise(
    to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FITS["walk"].save(tmp_path / "model")
    code = main(["export", "--model", str(tmp_path / "model"), "--to", to, str(tmp_path / "out")])
    assert code == (0 if to == "safetensors" else 2)
    if code:
        assert "recommend" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [*_SPARSE_FITS])
def test_nobody_and_unmet_items_are_in_no_list_of_an_export(name: str, tmp_path: Path) -> None:
    """Users without likes would have the first ids, at score 0."""
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is optional")
    model = _SPARSE_FITS[name]()
    expected, listed = model.recommend(np.arange(12), N=9)
    assert (expected[[0, 5]] == -1).all() == (name not in ("biases", "popularity"))
    filtered = SPARSE.toarray() > 0
    session = runtime.InferenceSession(mfrank.to_onnx(model.store, tmp_path / "m.onnx"))
    given = {"users": np.arange(12), "n": np.array([9]), "filtered": filtered}
    ids, scores = session.run(["ids", "scores"], given)
    np.testing.assert_array_equal(np.where(np.isneginf(scores), -1, ids), expected)
    if name in ("IALS", "RG2", "biases"):
        pytest.importorskip("faiss", reason="the package faiss is optional")
        lists = mfrank.FaissLists(model, mfrank.to_faiss(model.store, tmp_path / "items"))
        found = lists.recommend(np.arange(12), N=9)
        np.testing.assert_array_equal(found.ids == -1, expected == -1)
        np.testing.assert_allclose(found.scores, listed, rtol=1e-4, atol=1e-6)  # some are tied
        assert found.exact.all()


def test_onnx_adds_up_weights_of_users_with_few_items_and_with_none(
    tmp_path: Path, runtime: Any
) -> None:
    likes = np.zeros((5, 6))
    likes[0, 1] = likes[2, :4] = likes[3, 2:] = 1
    model = mfrank.EASE(1.0).fit(sp.csr_array(likes))
    session = runtime.InferenceSession(mfrank.to_onnx(model.store, tmp_path / "m.onnx"))
    batches = [[1], [4, 2, 1, 0, 0, 3], [2]]
    if tuple(map(int, runtime.__version__.split(".")[:2])) >= (1, 31):  # see to_onnx
        batches.append([])
    for users in batches:
        given = {
            "users": np.array(users, dtype=np.int64),
            "n": np.array([6]),
            "filtered": np.zeros((1, 6), bool),
        }
        (scores,) = session.run(["all_scores"], given)
        np.testing.assert_allclose(scores, likes[users] @ model.similarity.toarray(), atol=1e-12)
