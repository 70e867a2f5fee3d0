"""A model knows the threshold of its data, and says where other data are not cut by it."""

from __future__ import annotations

import io
import json
import logging
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.data import Ids, aligned
from mfrank.pagerank import GBN
from mfrank.pages import app
from mfrank.serving.answers import from_items
from tests.support.errors import refuses, unknown

N_USERS, N_ITEMS = 24, 18


def ratings(seed: int = 0) -> mfrank.Interactions:
    """Half of all cells, with ratings 1 to 5 and times; every user and item has a 5."""
    rng = np.random.default_rng(seed)
    there = rng.random((N_USERS, N_ITEMS)) < 0.5
    there[:, 0] = there[0] = True
    cells = np.argwhere(there)
    values = rng.integers(1, 6, len(cells))
    values[(cells[:, 0] == 0) | (cells[:, 1] == 0)] = 5
    users, items = (np.array([f"{k}{n:02}" for n in s]) for k, s in zip("ui", cells.T, strict=True))
    return mfrank.Interactions.from_arrays(users, items, values, rng.integers(0, 60, len(cells)))


RAW = ratings()
CUT = RAW.at_least(4)


STEPS: Mapping[str, Callable[[mfrank.Interactions, Path], mfrank.Interactions]] = {
    "nothing": lambda data, _: data,
    "take": lambda data, _: data.take(np.arange(data.nnz) % 2 == 0),
    "k_core": lambda data, _: data.k_core(2),
    "weighted": lambda data, _: data.weighted(np.full(data.nnz, 0.5)),
    "weighted to 0": lambda data, _: data.weighted(np.arange(data.nnz) % 2),
    "log_weight": lambda data, _: mfrank.log_weight(data),
    "recency_weight": lambda data, _: mfrank.recency_weight(data, 10),
    "all seen forgotten": lambda data, _: replace(data, seen_only=None),
    "pickled": lambda data, _: pickle.loads(pickle.dumps(data)),
    "folder": lambda data, at: mfrank.Interactions.open(data.to_folder(at / "f")),
    "folder, verified": lambda data, at: mfrank.Interactions.open(
        data.to_folder(at / "f"), verify=True
    ),
    "joined": lambda data, _: data + data,
    "by_ratio": lambda data, _: mfrank.by_ratio(data, random_state=0).test,
    "by_ratio on disk": lambda data, at: (
        mfrank.by_ratio(data, random_state=0, folder=at / "s").test
    ),
    "by_time": lambda data, _: mfrank.by_time(data, test=0.3).test,
    "leave_last": lambda data, _: mfrank.leave_last(data, 1).test,
    "leave_k_out": lambda data, _: mfrank.leave_k_out(data, 1, random_state=0).train,
    "held_out_users": lambda data, _: mfrank.held_out_users(data, test=4).test.target,
    "folded in": lambda data, _: mfrank.held_out_users(data, test=4).test.fold_in,
    "by_session": lambda data, _: mfrank.by_session(data, test=0.3, last=1).test.target,
    "other rows": lambda data, _: aligned(
        data, Ids.of(data.user_ids.labels[::-1]), Ids.of(data.item_ids.labels[::-1]), "data"
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", [{}, {"binary": True}, {"keep_seen": False}], ids=str)
def test_no_step_forgets_a_threshold(tmp_path: Path, how: dict[str, Any], step: str) -> None:
    assert RAW.threshold is None
    assert STEPS[step](RAW, tmp_path / "raw").threshold is None
    assert STEPS[step](RAW.at_least(4, **how), tmp_path / "cut").threshold == 4.0


def test_the_highest_threshold_counts() -> None:
    assert RAW.at_least(4).at_least(2).threshold == 4
    assert RAW.at_least(2).at_least(np.float32(4)).threshold == 4
    assert (CUT + RAW).threshold is None
    assert (CUT + RAW.at_least(5)).threshold is None


WEIGHTED: Mapping[str, Callable[[mfrank.Interactions], mfrank.Interactions]] = {
    "log_weight": mfrank.log_weight,
    "bm25_weight": mfrank.bm25_weight,
    "tfidf_weight": mfrank.tfidf_weight,
    "recency_weight": lambda data: mfrank.recency_weight(data, 10),
    "weighted": lambda data: data.weighted(np.full(data.nnz, 0.5)),
    "weighted to 0": lambda data: data.weighted(np.arange(data.nnz) % 2),
    "joined": lambda data: mfrank.log_weight(data) + data,
}


@pytest.mark.parametrize("step", ["nothing", "take", "folder", "pickled", "by_ratio", "other rows"])
@pytest.mark.parametrize("weight", WEIGHTED)
def test_a_threshold_of_weighted_values_is_none_of_other_data(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, weight: str, step: str
) -> None:
    """A file of raw ratings that was cut by it would lose others than the fit did."""
    data = STEPS[step](WEIGHTED[weight](RAW), tmp_path / "raw")
    least = float(np.median(data.user_items.data))
    for keep_seen in (True, False):
        caplog.clear()
        cut = data.at_least(least, keep_seen=keep_seen)
        assert cut.nnz == int((data.user_items.data >= least).sum())
        assert cut.threshold is None
        assert "cuts weighted values" in caplog.messages[-1]
    caplog.clear()
    assert data.at_least(0).threshold == 0  # a weight keeps the sign
    before = STEPS[step](WEIGHTED[weight](CUT), tmp_path / "cut")
    assert not [told for told in caplog.messages if "is weighted by" not in told]
    assert before.threshold == 4
    assert als().fit(cut).threshold is None


@pytest.mark.parametrize("wrong", [float("nan"), "4", [4]])
def test_a_threshold_is_a_number(wrong: Any) -> None:
    with refuses(ValueError, "threshold"):
        replace(CUT, threshold=wrong)
    with refuses(ValueError, "threshold"):
        mfrank.FactorStore([[1.0]], [[1.0]], threshold=wrong)


MODELS: Mapping[str, Callable[[], Any]] = {
    "wrmf": lambda: mfrank.ALS(mfrank.WRMF(), factors=3, iterations=1, random_state=0),
    "ials biases": lambda: mfrank.ALS(factors=3, iterations=1, random_state=0, biases=True),
    "descent": lambda: mfrank.Descent(mfrank.BPR(), factors=3, iterations=1, random_state=0),
    "popularity": mfrank.Popularity,
    "item-knn": mfrank.ItemKNN,
    "ease": mfrank.EASE,
    "item-filter": mfrank.ItemFilter,
    "walk": lambda: mfrank.SupervisedPageRank(method=None),
}


def in_a_file(model: Any, _: Path) -> Any:
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    return mfrank.load(file)


WAYS: Mapping[str, Callable[[Any, Path], Any]] = {
    "fitted": lambda model, _: model,
    "loaded": lambda model, at: mfrank.load(model.save(at / "m")),
    "mapped": lambda model, at: mfrank.load(model.save(at / "m"), mmap=True),
    "without seen": lambda model, at: mfrank.load(model.save(at / "m", with_seen=False)),
    "loaded twice": lambda model, at: mfrank.load(mfrank.load(model.save(at / "m")).save(at / "n")),
    "file": in_a_file,
    "pickled": lambda model, _: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_the_threshold(tmp_path: Path, name: str, way: str) -> None:
    assert WAYS[way](MODELS[name]().fit(CUT), tmp_path).threshold == 4.0
    assert WAYS[way](MODELS[name]().fit(RAW), tmp_path / "raw").threshold is None


def test_what_changes_a_model_keeps_the_threshold(tmp_path: Path) -> None:
    model = MODELS["wrmf"]().fit(CUT)
    model.partial_fit(mfrank.Interactions.from_arrays(["new"], ["i00"], [5.0]))
    model.partial_fit_users(["u01"], CUT)
    model.remove(users=["u03"])
    assert model.threshold == 4
    assert mfrank.load(model.save(tmp_path / "m")).threshold == 4
    walk = MODELS["walk"]().fit(CUT)
    assert mfrank.with_prior(model.store, 0.5, walk.store).threshold == 4


def test_a_blend_and_a_search_keep_the_threshold() -> None:
    cut, raw = (MODELS["wrmf"]().fit(data) for data in (CUT, RAW))
    other = MODELS["descent"]().fit(CUT)
    assert mfrank.blend(cut.store, other.store, 0.5).threshold == 4
    assert mfrank.blend(cut.store, MODELS["ease"]().fit(CUT).store, 0.5).threshold == 4
    assert mfrank.blend(raw.store, other.store, 0.5).threshold is None
    assert mfrank.tune(CUT, trials=2, factors=3, n_threads=1).model.threshold == 4


def test_exports_keep_the_threshold(tmp_path: Path) -> None:
    store = MODELS["wrmf"]().fit(CUT).store
    pytest.importorskip("safetensors", reason="the package safetensors is optional")
    pytest.importorskip("pyarrow", reason="the package pyarrow is optional")
    mfrank.to_safetensors(store, tmp_path / "s.safetensors")
    assert mfrank.from_safetensors(tmp_path / "s.safetensors").threshold == 4
    assert mfrank.from_parquet(mfrank.to_parquet(store, tmp_path / "p")).threshold == 4


def test_folders_without_a_threshold_are_those_of_earlier_versions(tmp_path: Path) -> None:
    before = MODELS["wrmf"]().fit(RAW).save(tmp_path / "raw")
    assert "threshold" not in (before / "manifest.json").read_text()
    assert "threshold" not in (RAW.to_folder(tmp_path / "r") / "manifest.json").read_text()
    after = json.loads(
        (MODELS["wrmf"]().fit(CUT).save(tmp_path / "c") / "manifest.json").read_text()
    )
    assert after["metadata"]["threshold"] == 4
    assert mfrank.load(before).threshold is None


@pytest.mark.parametrize("kind", ["model", "interactions"])
def test_a_damaged_threshold_is_refused(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "f"
    if kind == "model":
        MODELS["wrmf"]().fit(CUT).save(folder)
    else:
        CUT.to_folder(folder)

    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["metadata"]["threshold"] = "four"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with refuses(ValueError, "threshold", remedy="restore it"):
        (mfrank.load if kind == "model" else mfrank.Interactions.open)(folder)


# what is said


SPLIT = mfrank.by_ratio(RAW, train=0.6, valid=0.2, test=0.2, random_state=0)
TRAIN = SPLIT.train.at_least(4)


def als() -> mfrank.ALS:
    return mfrank.ALS(mfrank.WRMF(), factors=2, iterations=1, random_state=0)


def shuffled(data: mfrank.Interactions) -> mfrank.Interactions:
    ids = Ids.of(data.user_ids.labels[::-1]), Ids.of(data.item_ids.labels[::-1])
    return aligned(data, *ids, "data")


def evaluated_function(data: Any) -> Any:
    def recommend(users: Any, user_items: Any, N: int) -> Any:
        return np.tile(np.arange(N), (len(users), 1)), np.ones((len(users), N))

    return mfrank.evaluate(recommend, data, train=TRAIN)


Told = Callable[[Any], Any]

DOORS: Mapping[str, Told] = {
    "evaluate": lambda data: mfrank.evaluate(als().fit(TRAIN), data),
    "evaluate a store": lambda data: mfrank.evaluate(als().fit(TRAIN).store, data, train=TRAIN),
    "evaluate a function": evaluated_function,
    "evaluate without factors": lambda data: mfrank.evaluate(mfrank.ItemKNN().fit(TRAIN), data),
    "evaluate in other rows": lambda data: mfrank.evaluate(als().fit(TRAIN), shuffled(data)),
    "evaluate a raw train": lambda data: mfrank.evaluate(als().fit(TRAIN), data, train=SPLIT.train),
    "compare": lambda data: mfrank.compare(
        TRAIN,
        data,
        models={"als": als(), "popular": mfrank.Popularity()},
        repeats=1,
        peak_memory=False,
    ),
    "early stopping": lambda data: als().fit(TRAIN, stopping=mfrank.EarlyStopping(data)),
    "tune": lambda data: mfrank.tune(TRAIN, valid=data, trials=2, factors=2, n_threads=1),
    "partial_fit": lambda data: als().fit(TRAIN).partial_fit(data),
    "partial_fit, old": lambda data: als().fit(TRAIN).partial_fit(user_items=data),
    "partial_fit_users": lambda data: als().fit(TRAIN).partial_fit_users(["u00", "u01"], data),
    "partial_fit_items": lambda data: als().fit(TRAIN).partial_fit_items(["i00", "i01"], data),
    "labels of a walk": lambda data: mfrank.SupervisedPageRank(GBN(iterations=1), queries=5).fit(
        TRAIN, data
    ),
    "pages": lambda data: app({"als": als().fit(TRAIN)}, data),
}


def said(
    caplog: pytest.LogCaptureFixture,
    act: Callable[[], Any],
    level: int = logging.WARNING,
    text: str = "at_least(4)",
) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "mfrank"):
        act()
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= level and text in record.getMessage()
    ]


@pytest.mark.parametrize("door", DOORS)
def test_values_below_the_threshold_are_told_once(
    caplog: pytest.LogCaptureFixture, door: str
) -> None:
    raw = SPLIT.test
    (told,) = said(caplog, lambda: DOORS[door](raw))
    below = int((raw.user_items.data < 4).sum())
    assert f"{below} values below 4" in told
    assert ".at_least(4)" in told
    assert ".at_least(0)" in told


@pytest.mark.parametrize(
    "meant",
    [
        lambda data: data.at_least(4),
        lambda data: data.at_least(4, binary=True),
        lambda data: data.at_least(0),
        lambda data: data.take(data.user_items.data >= 4),
        lambda data: data.weighted(1 / data.user_items.data),  # ones: there are no values
    ],
    ids=["cut", "cut to ones", "meant", "chosen", "ones"],
)
@pytest.mark.parametrize("door", DOORS)
def test_nothing_is_told_of_what_is_cut_or_meant(
    caplog: pytest.LogCaptureFixture, door: str, meant: Callable[[Any], Any]
) -> None:
    assert not said(caplog, lambda: DOORS[door](meant(SPLIT.test)))


def marks(values: Any) -> mfrank.Interactions:
    users, items = SPLIT.test.user_ids, SPLIT.test.item_ids
    rows, columns = SPLIT.test.entry_users, SPLIT.test.user_items.indices
    given = users.raw(rows), items.raw(columns), values, SPLIT.test.timestamps
    return mfrank.Interactions.from_arrays(*given, user_ids=users, item_ids=items)


@pytest.mark.parametrize("door", DOORS)
def test_values_that_are_all_1_may_be_ratings_or_marks(
    caplog: pytest.LogCaptureFixture, door: str
) -> None:
    ones = marks(np.ones(SPLIT.test.nnz))
    (told,) = said(caplog, lambda: DOORS[door](ones))
    assert "all 1" in told
    assert ".at_least(1) if not" in told
    matrix = mfrank.Interactions.from_sparse(
        ones.user_items, user_ids=ones.user_ids, item_ids=ones.item_ids
    )
    for meant in (ones.at_least(1), marks(None), replace(matrix, timestamps=ones.timestamps)):
        assert not said(caplog, lambda given=meant: DOORS[door](given))


@pytest.mark.parametrize(("threshold", "may_be_below"), [(1, False), (1.5, True), (2, True)])
def test_ones_are_below_a_threshold_above_one_only(
    caplog: pytest.LogCaptureFixture, threshold: float, may_be_below: bool
) -> None:
    rated = mfrank.Interactions.from_arrays([0, 0, 1, 2], [0, 1, 1, 2], [1.0, 2.0, 3.0, 2.0])
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(rated.at_least(threshold))
    new = mfrank.Interactions.from_arrays([1], [2], [1.0])
    caplog.clear()
    model.partial_fit(new)
    assert ("new has values that are all 1" in caplog.text) == may_be_below


def test_weights_are_not_compared_with_a_threshold_of_ratings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rated = mfrank.Interactions.from_arrays([0, 0, 1, 2], [0, 1, 1, 2], [1.0, 4.0, 4.0, 5.0])
    new = mfrank.Interactions.from_arrays([1, 2], [2, 0], [3.0, 2.0])
    model = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(rated.at_least(4))
    assert not said(caplog, lambda: model.partial_fit(mfrank.log_weight(new)))
    assert said(caplog, lambda: model.partial_fit(new))


def in_file(name: str) -> Callable[[Any, Path], mfrank.Interactions]:
    def read(frame: Any, at: Path) -> mfrank.Interactions:
        pytest.importorskip("pyarrow", reason="the package pyarrow is optional")
        path = at / name
        if path.suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False)
        if at.name == "files":
            return mfrank.Interactions.ingest([path], at / "folder")
        return mfrank.Interactions.from_file(path)

    return read


@pytest.mark.parametrize(
    "read",
    [in_file("r.csv"), in_file("r.parquet"), lambda frame, _: mfrank.Interactions.of(frame)],
    ids=["text", "parquet", "frame"],
)
@pytest.mark.parametrize("place", ["file", "files"])
def test_every_door_tells_a_column_of_ones_from_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, read: Any, place: str
) -> None:
    pandas = pytest.importorskip("pandas", reason="the package pandas is optional")
    (at := tmp_path / place).mkdir()
    frame = pandas.DataFrame({"user": ["u00", "u01"], "item": ["i00", "i02"]})
    model = als().fit(CUT.take(np.ones(CUT.nnz, dtype=bool)))
    without = read(frame, at)
    assert not said(caplog, lambda: mfrank.evaluate(model, without))
    (told,) = said(caplog, lambda: mfrank.evaluate(model, read(frame.assign(rating=1), at)))
    assert "all 1" in told
    low = read(pandas.concat([frame, frame]).assign(rating=1), at)
    (told,) = said(caplog, lambda: mfrank.evaluate(model, low))
    assert "2 values below 4" in told


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "bsr", "csr_matrix"])
def test_matrices_are_told_too(caplog: pytest.LogCaptureFixture, form: str) -> None:
    raw = SPLIT.test.user_items
    given = sp.csr_matrix(raw) if form == "csr_matrix" else raw.asformat(form)
    model, below = als().fit(TRAIN), int((raw.data < 4).sum())
    (told,) = said(caplog, lambda: mfrank.evaluate(model, given))
    assert f"{below} values below 4" in told
    stopping = mfrank.EarlyStopping(given)
    assert len(said(caplog, lambda: als().fit(TRAIN, stopping=stopping))) == 1
    assert not said(caplog, lambda: mfrank.evaluate(als().fit(SPLIT.train), given))


def test_a_model_of_raw_data_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model = als().fit(SPLIT.train)
    assert not said(caplog, lambda: mfrank.evaluate(model, SPLIT.test))
    assert not said(caplog, lambda: model.partial_fit(SPLIT.test))


def test_held_out_users_come_cut(caplog: pytest.LogCaptureFixture) -> None:
    parts = mfrank.held_out_users(CUT, test=4)
    assert not said(caplog, lambda: mfrank.evaluate(als().fit(parts.train), parts.test))
    raw = mfrank.held_out_users(RAW, test=4)
    model = als().fit(raw.train.at_least(4))
    assert len(said(caplog, lambda: mfrank.evaluate(model, raw.test))) == 1


def test_weights_of_a_request_are_cut_like_the_data(caplog: pytest.LogCaptureFixture) -> None:
    knn = mfrank.ItemKNN().fit(CUT)
    for model in (als().fit(CUT), knn):
        known = ["i01", "i02", "i03"]
        found = from_items(model, known, N_ITEMS, weights=[5, 1, 4])
        expected = from_items(model, ["i01", "i03"], N_ITEMS, weights=[5, 4], filter_items=["i02"])
        assert found == expected
        assert not {"i01", "i02", "i03"} & {each["id"] for each in found}
        filters = [["i05"]]
        listed = from_items(model, known, N_ITEMS, weights=[5, 1, 4], filter_items=filters)
        assert {each["id"] for each in found} - {each["id"] for each in listed} == {"i05"}
        ones = from_items(model, known, N_ITEMS, weights=[1, 1, 1])
        assert ones == from_items(model, known, N_ITEMS)
        with unknown("nothing"):
            from_items(model, ["i01", "nothing"], 3, weights=[5, 1])
        skipped = from_items(model, ["i01", "x"], 3, weights=[5, 1], on_unknown="skip")
        assert skipped == from_items(model, ["i01"], 3, weights=[5])
    (told,) = said(caplog, lambda: als().fit(CUT).recommend_from_items(known, values=[5, 1, 4]))
    assert "1 value below 4" in told


def test_rows_of_features_do_not_forget_what_is_seen() -> None:
    """New interactions with a table of new items: what was only seen of them was forgotten."""
    pandas = pytest.importorskip("pandas")
    features = pandas.DataFrame({"item": CUT.item_ids.labels, "x": np.arange(CUT.n_items)})
    model = mfrank.ALS(mfrank.WRMF(), factors=2, iterations=1, random_state=0)
    model.fit(CUT, item_features=features)
    new = mfrank.Interactions.from_arrays(["new", "new"], ["i01", "i02"], [5, 1]).at_least(4)
    more = pandas.DataFrame({"item": ["novelty"], "x": [3]})
    model.partial_fit(new, item_features=more)
    assert "i02" not in model.recommend("new", N=N_ITEMS + 1).ids
