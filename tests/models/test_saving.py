"""What is saved is what is loaded, and what is loaded is checked."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, labeled, same_factors
from problems import toy

import mfrank
from mfrank.cli.main import main
from mfrank.data import Judged
from mfrank.models import from_implicit
from mfrank.retrieval import pack
from mfrank.store import FactorStore
from tests.support.errors import refuses


@pytest.mark.parametrize("data", [toy(values="dislikes"), labeled()], ids=["numbered", "labeled"])
@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_loaded_model_answers_as_the_saved_one(
    tmp_path: Path, data: Any, mmap: bool, as_text: bool
) -> None:
    objective = mfrank.WRMF(alpha=3.5, confidence="1+alpha*r")
    model = als(objective, random_state=7, n_threads=2).fit(data)
    path = tmp_path / "model"
    folder = str(path) if as_text else path
    assert model.save(folder) == path
    for loaded in (mfrank.load(folder, mmap=mmap), mfrank.ALS.load(folder, mmap=mmap, verify=True)):
        assert isinstance(loaded, mfrank.ALS)
        assert loaded.get_params() == model.get_params()
        assert same_factors(loaded, model)
        everyone = range(9)
        for a, b in zip(
            loaded.recommend(everyone, by_row=True),
            model.recommend(everyone, by_row=True),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)
        assert loaded.store.history == model.store.history
        rows = toy()
        np.testing.assert_array_equal(
            loaded.recalculate_user(everyone, rows, by_row=True),
            model.recalculate_user(everyone, rows, by_row=True),
        )


def test_seen_items_may_be_left_out(tmp_path: Path) -> None:
    model = als().fit(toy())
    model.save(tmp_path / "bare", with_seen=False)
    loaded = mfrank.load(tmp_path / "bare")
    with refuses(ValueError, "user_items"):
        loaded.recommend(0)
    ids, _ = loaded.recommend(0, toy())
    np.testing.assert_array_equal(ids, model.recommend(0)[0])
    everything, _ = loaded.recommend(0, N=7, filter_already_liked_items=False)
    assert sorted(everything) == [-1, 0, 1, 3, 4, 5, 6]  # nobody has item 2


def test_a_loaded_model_can_be_refitted_grown_and_saved_over_itself(tmp_path: Path) -> None:
    als().fit(toy()).save(tmp_path / "m")
    model: Any = mfrank.load(tmp_path / "m", mmap=True)
    model.partial_fit_users([9], sp.csr_array([[1, 1, 0, 0, 0, 0, 0]]))
    model.save(tmp_path / "m")
    again = mfrank.load(tmp_path / "m")
    assert again.user_factors.shape == (10, 4)
    assert not {0, 1} & set(again.recommend(9, N=5)[0].tolist())
    assert same_factors(model.fit(toy()), als().fit(toy()))


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("weighted", [mfrank.WRMF(alpha=2.0), mfrank.IALS(weighted=True), None])
def test_values_are_saved_with_what_reads_them(tmp_path: Path, weighted: Any, mmap: bool) -> None:
    """So a saved model explains and is updated as the fitted one; others have the pattern alone."""
    part: Any = als(weighted or mfrank.RG2())
    new = mfrank.Interactions.from_arrays([1, 2], [3, 0], [2.0, 7.0])
    for made in (part, mfrank.Blend([part, mfrank.EASE()])):
        model = made.fit(3 * toy())
        folder = tmp_path / type(model).__name__
        model.save(folder)
        loaded: Any = mfrank.load(folder, mmap=mmap)
        assert (loaded.seen.matrix.dtype == bool) == (weighted is None)
        assert loaded.explain(0, None, 3) == model.explain(0, None, 3)
        for one in (model, loaded):
            one.partial_fit(new)
        assert same_factors(loaded, model)


@pytest.mark.parametrize(
    ("harmed", "told"),
    [
        (lambda known: np.where(known == known[0], np.nan, known), "finite"),
        (lambda known: known[:-1], "one for each entry"),
        (lambda known: known.astype(int), "floating-point"),
    ],
)
def test_damaged_values_are_found(tmp_path: Path, harmed: Any, told: str) -> None:
    model: Any = als(mfrank.WRMF()).fit(toy())
    store = pack(model.store, model.seen, with_values=True)
    extras = {**store.extras, "seen_values": harmed(store.extras["seen_values"])}
    dataclasses.replace(store, extras=extras).save(tmp_path / "m")
    with pytest.raises(ValueError, match=rf"seen items .* damaged: .*{told}"):
        mfrank.load(tmp_path / "m")


def test_a_model_that_was_saved_without_values_needs_them(tmp_path: Path) -> None:
    """Marks in place of values would give WRMF a wrong answer."""
    model: Any = als(mfrank.WRMF(alpha=2.0)).fit(toy())
    pack(model.store, model.seen).save(tmp_path / "m")
    loaded: Any = mfrank.load(tmp_path / "m")
    for call in (lambda: loaded.explain(0, None, 3), lambda: loaded.partial_fit(toy())):
        with refuses(ValueError, "user_items"):
            call()
    assert loaded.explain(0, toy(), 3) == model.explain(0, None, 3)
    loaded.partial_fit(toy(), user_items=toy())
    model.partial_fit(toy())
    assert same_factors(loaded, model)


@pytest.mark.parametrize("mmap", [False, True])
def test_a_changed_number_is_found_by_whoever_verifies(tmp_path: Path, mmap: bool) -> None:
    model = als().fit(toy())
    model.save(tmp_path)
    (file,) = tmp_path.rglob("item_factors.npy")
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    for load in (mfrank.load, mfrank.ALS.load, FactorStore.load):
        assert (load(tmp_path, mmap=mmap).item_factors != model.item_factors).sum() == 1
        with refuses(ValueError, place="item_factors.npy", remedy="restore it"):
            load(tmp_path, mmap=mmap, verify=True)


def test_foreign_and_damaged_stores_are_refused(tmp_path: Path) -> None:
    store = als().fit(toy()).store
    foreign = FactorStore(
        store.user_factors, store.item_factors, store.user_ids, store.item_ids, counts=store.counts
    )
    foreign.save(tmp_path / "foreign")
    with refuses(ValueError, place="foreign", remedy=r"mfrank\.load loads any model"):
        mfrank.ALS.load(tmp_path / "foreign")
    served = mfrank.load(tmp_path / "foreign")
    assert type(served) is mfrank.Recommender
    with pytest.raises(FileNotFoundError):
        mfrank.load(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("not a model")
    with refuses(ValueError, place="other"):
        mfrank.load(tmp_path / "other")
    with refuses(ValueError, place="other", remedy="pass a new or an empty folder"):
        als().fit(toy()).save(tmp_path / "other")


@pytest.mark.parametrize(
    "options",
    [
        {"factors": -3},
        {"objective": {"name": "os.system", "options": {}}},
        {"objective": {"name": "ALS", "options": {}}},
        {"objective": {"name": "RG2", "options": {"alpha": "much"}}},
        {"from_the_future": 1},
        {"objective": 5},
    ],
)
def test_options_in_a_file_are_checked_as_any_others(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    model = als().fit(toy())
    fitter = model.store.fitter
    changed = {"name": "ALS", "options": {**fitter["options"], **options}}
    vars(model.store)["fitter"] = changed
    model.store.save(tmp_path / "m")
    with refuses(ValueError, None, place="the options saved with the model"):
        mfrank.load(tmp_path / "m")


def test_seen_items_in_a_file_are_checked(tmp_path: Path) -> None:
    model = als().fit(toy())
    model.save(tmp_path / "good")
    store = FactorStore.load(tmp_path / "good")
    extras = dict(store.extras)
    extras["seen_indices"] = extras["seen_indices"] + 100
    vars(store)["extras"] = extras
    store.save(tmp_path / "bad")
    with refuses(ValueError, "seen", remedy="restore it"):
        mfrank.load(tmp_path / "bad")


def test_a_backend_that_is_not_here_does_not_stop_a_model_from_loading(tmp_path: Path) -> None:
    model = als().fit(toy())
    elsewhere = {**model.store.fitter["options"], "backend": "abacus"}
    vars(model.store)["fitter"] = {"name": "ALS", "options": elsewhere}
    model.save(tmp_path / "m")
    assert mfrank.load(tmp_path / "m").backend == "auto"


def test_a_generator_as_seed_does_not_hinder_saving(tmp_path: Path) -> None:
    model = als(random_state=np.random.default_rng(0)).fit(toy())
    model.save(tmp_path / "m")
    loaded: Any = mfrank.load(tmp_path / "m")
    assert loaded.random_state is None
    assert same_factors(loaded, model)


def test_models_are_copied_and_pickled_whole() -> None:
    model = als(mfrank.WRMF()).fit(labeled())
    model.recalculate_user("u0", labeled())  # fold-in keeps what rows share
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert same_factors(copied, model)
        assert copied.explain("u0", None, "i2") == model.explain("u0", None, "i2")


def test_nothing_can_be_asked_before_a_fit(tmp_path: Path) -> None:
    model = als()
    asks: list[Any] = [
        lambda: model.user_factors,
        lambda: model.item_ids,
        lambda: model.recommend(0),
        lambda: model.similar_items(0),
        lambda: model.similar_users(0),
        lambda: model.recommend_users(0),
        lambda: model.score([0], [0]),
        lambda: model.recalculate_user(0, toy()),
        lambda: model.recommend_from_items([0]),
        lambda: model.partial_fit_items([0], toy().T),
        lambda: model.explain(0, None, 0),
        lambda: model.save(tmp_path / "m"),
    ]
    for ask in asks:
        with pytest.raises(mfrank.NotFittedError, match=r"ALS is not fitted; call fit\(\)"):
            ask()
    assert not hasattr(model, "user_factors")


def test_pickles_leave_out_what_is_made_again() -> None:
    """However much was asked of a model and its data, pickles hold their fields alone."""
    data = labeled()
    model = als(random_state=7).fit(data)
    user, item = data.user_ids.raw([0]).tolist(), data.item_ids.raw([0]).tolist()
    lists = model.recommend(user), model.similar_items(item), model.recommend_users(item)
    model.recommend(user, data, recalculate_user=True)
    again, data_again = pickle.loads(pickle.dumps((model, data)))
    for asked, copied in (
        (model.store, again.store),
        (model.store.item_ids, again.store.item_ids),
        (model.seen, again.seen),
        (data, data_again),
    ):
        fields = {field.name for field in dataclasses.fields(asked)}
        names = fields & vars(asked).keys()  # others have the default of their class
        assert vars(asked).keys() > names
        assert vars(copied).keys() == names
    assert data._views
    assert not data_again._views
    assert not again.item_factors.flags.writeable
    for one, other in zip(lists, (again.recommend(user), again.similar_items(item)), strict=False):
        np.testing.assert_array_equal(one[0], other[0])


def damaged(model: Any, **changes: Any) -> Any:
    """The model with its interactions' arrays changed, as whoever shares them may do."""
    matrix = model.seen.matrix
    arrays = {"indptr": matrix.indptr.copy(), "indices": matrix.indices.copy()}
    for name, (place, value) in changes.items():
        arrays[name][place] = value
    seen = sp.csr_array(matrix)
    seen.indptr, seen.indices = arrays["indptr"], arrays["indices"]
    model._hold(model.store, seen)
    return model


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": (slice(None), 0)}, "must end at"),
        ({"indptr": (1, 2**31 - 1)}, "must not fall"),
        ({"indices": (0, 7)}, "must lie in 0..6, got 7"),
        ({"indices": (0, -1)}, "must lie in 0..6, got -1"),
        ({"indices": (slice(0, 2), 1)}, "must ascend within each row"),
    ],
)
def test_interactions_changed_since_the_fit_do_not_replace_a_good_model(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    model = als().fit(toy())
    model.save(tmp_path / "m")
    before = mfrank.load(tmp_path / "m").recommend(range(9))
    with refuses(ValueError, "with_seen", remedy="fit anew"):
        damaged(model, **changes).save(tmp_path / "m")
    for a, b in zip(mfrank.load(tmp_path / "m").recommend(range(9)), before, strict=True):
        np.testing.assert_array_equal(a, b)
    model.save(tmp_path / "m", with_seen=False)
    assert same_factors(mfrank.load(tmp_path / "m"), model)


def test_what_no_one_could_load_is_not_saved(tmp_path: Path) -> None:
    @dataclasses.dataclass(frozen=True)
    class Own(mfrank.IALS):
        """An objective that no other process knows."""

    als().fit(toy()).save(tmp_path / "m")
    model = als(Own()).fit(toy())
    with refuses(ValueError, "store.save", remedy=r"store\.save saves its factors"):
        model.save(tmp_path / "m")
    assert isinstance(mfrank.load(tmp_path / "m").objective, mfrank.IALS)  # type: ignore[attr-defined]
    model.store.save(tmp_path / "m")
    assert FactorStore.load(tmp_path / "m").fitter["options"]["objective"]["name"].endswith(".Own")


def overwritten(folder: Path, name: str, values: Any) -> Path:
    """The folder with an array of the same size in place of one of its files."""
    (path,) = folder.glob(f"data-*/{name}.npy")
    assert np.load(path).shape == np.shape(values)
    np.save(path, np.asarray(values, np.load(path).dtype))
    return folder


def test_a_map_is_not_read_before_it_is_asked(tmp_path: Path) -> None:
    model = als().fit(toy())
    model.save(tmp_path / "m")
    overwritten(tmp_path / "m", "user_factors", np.full((9, 4), np.nan))
    mapped = mfrank.load(tmp_path / "m", mmap=True)
    assert np.isnan(mapped.user_factors).all()
    with refuses(ValueError, "user_factors", remedy="if these are fitted"):
        mfrank.load(tmp_path / "m")
    mfrank.ALS.fit(model, toy()).save(tmp_path / "good")
    with refuses(ValueError, "user_factors"):
        mapped.save(tmp_path / "good")
    assert same_factors(mfrank.load(tmp_path / "good"), model)


@pytest.mark.parametrize("value", [7, -1, 2**31 - 1, -(2**31)])
def test_columns_of_a_map_are_checked_before_anyone_follows_them(
    tmp_path: Path, value: int
) -> None:
    """Routines of scipy's would read and write wherever such a column points."""
    als(mfrank.RG2()).fit(toy()).save(tmp_path / "m")
    good = np.load(next(tmp_path.glob("m/data-*/extras.seen_indices.npy")))
    overwritten(tmp_path / "m", "extras.seen_indices", np.where(good == 6, value, good))
    with refuses(ValueError, "seen", remedy="restore it"):
        mfrank.load(tmp_path / "m")
    for ask in (
        lambda model: model.recommend(range(9)),
        lambda model: model.recommend_users(range(7)),
        lambda model: model.partial_fit_users([0], toy()),
        lambda model: model.partial_fit_items([0], sp.csr_array(toy().T)),
        lambda model: model.save(tmp_path / "other"),
    ):
        with pytest.raises(ValueError, match=r"seen.* must"):
            ask(mfrank.load(tmp_path / "m", mmap=True))
    assert mfrank.load(tmp_path / "m", mmap=True).recommend(0, toy())[0].shape == (10,)
    overwritten(tmp_path / "m", "extras.seen_indices", good)
    assert mfrank.load(tmp_path / "m", mmap=True).recommend_users(0)[0].shape == (10,)


@pytest.mark.parametrize("load", [mfrank.load, mfrank.ALS.load])
def test_factors_are_mapped_only_if_asked(tmp_path: Path, load: Any) -> None:
    als().fit(toy()).save(tmp_path / "m")
    for options, is_map in (({}, False), ({"mmap": False}, False), ({"mmap": True}, True)):
        owner = load(tmp_path / "m", **options).item_factors
        while owner.base is not None and not isinstance(owner, np.memmap):
            owner = owner.base
        assert isinstance(owner, np.memmap) == is_map


@pytest.mark.parametrize("part", ["indptr", "indices"])
def test_what_was_seen_has_the_dtypes_that_the_kernels_read(tmp_path: Path, part: str) -> None:
    als().fit(toy()).save(tmp_path / "m")
    store = mfrank.FactorStore.load(tmp_path / "m")
    name = f"seen_{part}"
    other = store.extras[name].astype(np.int32 if part == "indptr" else np.int64)
    with refuses(ValueError, place="the seen items saved with the model", remedy="restore it"):
        mfrank.Recommender.of(dataclasses.replace(store, extras={**store.extras, name: other}))


@pytest.mark.parametrize("mmap", [False, True])
def test_offsets_are_checked_of_a_map_too(tmp_path: Path, mmap: bool) -> None:
    als().fit(toy()).save(tmp_path / "m")
    good = np.load(next(tmp_path.glob("m/data-*/extras.seen_indptr.npy")))
    for place, value in ((0, 1), (1, 2**62), (4, -1), (-1, 3)):
        bad = good.copy()
        bad[place] = value
        overwritten(tmp_path / "m", "extras.seen_indptr", bad)
        with refuses(ValueError, "seen", remedy="restore it"):
            mfrank.load(tmp_path / "m", mmap=mmap)


def test_a_model_of_implicit_s_can_be_loaded_and_folds_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    factors = {"user_factors": rng.random((9, 4)), "item_factors": rng.random((7, 4))}
    np.savez(tmp_path / "theirs.npz", **factors)
    store = from_implicit(tmp_path / "theirs.npz")
    mfrank.Recommender.of(store).save(tmp_path / "m")
    loaded: Any = mfrank.load(tmp_path / "m")
    assert isinstance(loaded, mfrank.ALS)
    assert loaded.recalculate_user(0, toy()).shape == (4,)


def save_model(folder: Path) -> None:
    als().fit(toy()).save(folder)


def save_interactions(folder: Path) -> None:
    mfrank.Interactions.of(toy()).to_folder(folder)


def save_lists(folder: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    als().fit(toy()).recommend_all(folder, N=3)


def save_linear_ranker(folder: Path) -> None:
    judged = Judged([[1.0], [0.0], [0.5]], [1, 0, 1], [7, 7, 7])
    mfrank.LinearRanker(iterations=1).fit(judged).save(folder)


SAVED: dict[str, tuple[Any, Any]] = {
    "mfrank.load": (save_model, mfrank.load),
    "mfrank.LinearRanker.load": (save_linear_ranker, mfrank.LinearRanker.load),
    "mfrank.Interactions.open": (save_interactions, mfrank.Interactions.open),
    "pandas.read_parquet": (save_lists, None),
}
"""What reads a folder, how it is written, and the function; the last is not of mfrank."""

MODELS = {
    "mfrank.load": mfrank.load,
    "mfrank.ALS.load": mfrank.ALS.load,
    "mfrank.FactorStore.load": FactorStore.load,
}
READERS = MODELS | {name: load for name, (_, load) in SAVED.items() if load}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("right", SAVED)
def test_what_reads_a_folder_is_named_by_what_does_not(
    tmp_path: Path, right: str, reader: str
) -> None:
    SAVED[right][0](tmp_path / "saved")
    if right == reader or {right, reader} <= MODELS.keys():
        READERS[reader](tmp_path / "saved")
        return
    with refuses(ValueError, remedy=f"{right} reads it"):
        READERS[reader](tmp_path / "saved")


@pytest.mark.parametrize("command", ["info --model", "serve", "recommend --user 1 --model"])
def test_a_command_names_what_reads_a_folder_that_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    right = "mfrank.LinearRanker.load"
    SAVED[right][0](tmp_path / "saved")
    assert main([*command.split(), str(tmp_path / "saved")]) == 2
    assert f"{right} reads it" in capsys.readouterr().err


def test_a_file_to_which_a_model_was_saved_is_to_be_opened(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    with file.open("wb") as opened:
        als().fit(toy()).save(opened)
    with refuses(ValueError, place="model.bin", remedy=re.escape(f"open({str(file)!r}, 'rb')")):
        mfrank.load(file)
    with file.open("rb") as opened:
        assert isinstance(mfrank.load(opened), mfrank.ALS)
