"""ALS as an estimator: what it fits, from where it starts, when it stops, what it saves."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, labelled, same_factors
from problems import OBJECTIVES, toy

import mfrank
from mfrank import models
from mfrank.factors import FactorStore
from mfrank.starts import first_factors
from mfrank.steps import Step

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]

# --- what can be fitted


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.float64, bool])
def test_every_sparse_form_gives_the_same_fit(make: Any, form: str, dtype: Any) -> None:
    expected = als().fit(toy(values="ones"))
    model = als()
    assert model.fit(make(toy(values="ones")).astype(dtype).asformat(form)) is model
    assert same_factors(model, expected)


def test_wide_indices_duplicates_zeros_and_disorder_do_not_matter() -> None:
    matrix = toy()
    wide = sp.csr_array(matrix)
    wide.indptr, wide.indices = wide.indptr.astype(np.int64), wide.indices.astype(np.int64)
    coo = matrix.tocoo()
    half = np.concatenate([coo.data / 2, coo.data / 2, [0.0]])
    rows, columns = (np.concatenate([c, c, [4]]) for c in coo.coords)
    order = np.random.default_rng(0).permutation(len(half))
    messy = sp.coo_array((half[order], (rows[order], columns[order])), shape=matrix.shape)
    expected = als(mfrank.WRMF(alpha=2)).fit(matrix)
    for other in (wide, messy):
        assert same_factors(als(mfrank.WRMF(alpha=2)).fit(other), expected)


def test_a_data_frame_speaks_its_own_ids() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame(
        {"user": ["ann", "bob", "ann", "cy"], "item": [30, 10, 20, 10], "value": [1.0, 2, 1, 1]}
    )
    model = als(factors=2).fit(frame)
    ids, _ = model.recommend("ann", N=3)
    assert ids.tolist() == [10, None, None]
    assert sorted(model.recommend("bob", N=2)[0].tolist()) == [20, 30]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.ones((3, 3)), "convert a dense array with scipy.sparse.csr_array"),
        ([[1, 2]], "expected Interactions, a scipy sparse matrix"),
        (sp.csr_array([[np.nan, 1.0]]), "finite"),
        (sp.csr_array([[np.inf, 1.0]]), "finite"),
        (sp.csr_array([[-1.0, 1.0]]), "dislikes"),
        (sp.csr_array([[1j, 1.0]]), "real"),
    ],
)
def test_data_that_cannot_be_fitted_leave_the_model_as_it_was(data: Any, message: str) -> None:
    model = als(factors=2).fit(toy())
    before = copy.copy(model)
    with pytest.raises((TypeError, ValueError), match=message):
        model.fit(data)
    assert same_factors(model, before)


def test_what_is_fitted_is_left_alone() -> None:
    matrix = toy(values="dislikes")
    copied = matrix.copy()
    als(mfrank.WRMF()).fit(matrix)
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(matrix, part), getattr(copied, part))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_falls_and_is_recorded(name: str) -> None:
    model = als(OBJECTIVES[name], iterations=5, track_objective=True, dtype="float64").fit(toy())
    values: list[Any] = [record["objective"] for record in model.store.history]
    assert len(values) == 5
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(values))
    assert [record["epoch"] for record in model.store.history] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("dtype", ["float32", "float64", np.float32, np.dtype("f8"), float])
def test_factors_have_the_dtype_asked_for(dtype: Any) -> None:
    model = als(dtype=dtype).fit(toy())
    assert model.user_factors.dtype == model.item_factors.dtype == np.dtype(dtype)
    assert model.recommend(0)[1].dtype == np.dtype(dtype)


# --- options


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("objective", mfrank.RG2, TypeError),  # the class, not an instance
        ("objective", 64, TypeError),  # implicit's first argument is factors
        ("objective", None, TypeError),
        ("factors", 0, ValueError),
        ("factors", 2.0, TypeError),
        ("factors", True, TypeError),
        ("iterations", 0, ValueError),
        ("iterations", "many", TypeError),
        ("solver", "lu", ValueError),
        ("solver", None, ValueError),
        ("cg_steps", 0, ValueError),
        ("dtype", "float16", ValueError),
        ("dtype", "no dtype", ValueError),
        ("dtype", int, ValueError),
        ("dtype", None, ValueError),
        ("random_state", -1, ValueError),
        ("random_state", np.random.RandomState(0), TypeError),
        ("n_threads", -1, ValueError),
        ("n_threads", 1.5, TypeError),
        ("backend", "abacus", ValueError),
    ],
)
def test_bad_options_are_refused_by_name(option: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=option):
        mfrank.ALS(**{option: value})
    model = als()
    setattr(model, option, value)  # what was set behind its back is found by fit
    with pytest.raises(error, match=option):
        model.fit(toy())


def test_a_seed_fixes_the_bits_and_zero_is_a_seed() -> None:
    first, again = als(random_state=0).fit(toy()), als(random_state=0).fit(toy())
    assert same_factors(first, again)
    assert not same_factors(first, als(random_state=1).fit(toy()))
    assert same_factors(first, als(random_state=np.random.default_rng(0)).fit(toy()))
    assert not same_factors(als(random_state=None).fit(toy()), als(random_state=None).fit(toy()))


@pytest.mark.parametrize("name", ["rgx", "wrmf", "ials"])
@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg"])
def test_threads_do_not_change_the_bits(name: str, solver: str) -> None:
    matrix = toy(300, 90, density=0.1)
    one, *others = (
        als(OBJECTIVES[name], solver=solver, n_threads=n).fit(matrix) for n in (1, 2, 3)
    )
    assert all(same_factors(one, other) for other in others)


def test_refitting_with_another_shape_starts_afresh() -> None:
    model = als().fit(toy())
    for shape in ((4, 3), (12, 11), (9, 7)):
        model.fit(toy(*shape))
        assert same_factors(model, als().fit(toy(*shape)))


# --- callbacks and interruption


def test_the_callback_is_told_of_every_epoch_and_may_stop() -> None:
    calls = []

    def callback(epoch: int, seconds: float, objective: float | None) -> bool:
        calls.append((epoch, seconds, objective))
        assert same_factors(model, als(iterations=epoch + 1).fit(toy()))
        return epoch == 2

    model = als(iterations=10, track_objective=True)
    model.fit(toy(), callback=callback)
    assert [epoch for epoch, _, _ in calls] == [0, 1, 2]
    assert all(seconds >= 0 for _, seconds, _ in calls)
    assert [value for *_, value in calls] == [r["objective"] for r in model.store.history]
    assert same_factors(model, als(iterations=3).fit(toy()))


def test_without_tracking_the_callback_gets_no_objective() -> None:
    values = []
    als(iterations=2).fit(toy(), callback=lambda *call: values.append(call[2]))
    assert values == [None, None]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_fit_leaves_the_last_complete_epoch(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = models.als

    def interrupted(*arguments: Any, **options: Any) -> Any:
        for step in engine(*arguments, **options):
            if step.epoch == 3:
                raise error
            yield step

    monkeypatch.setattr(models, "als", interrupted)
    model = als(iterations=5)
    with pytest.raises(error):
        model.fit(toy())
    monkeypatch.undo()
    assert same_factors(model, als(iterations=2).fit(toy()))
    assert [record["epoch"] for record in model.store.history] == [1, 2]
    assert model.recommend(0)[0].shape == (10,)


def test_a_fit_that_diverges_keeps_the_epoch_before(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = models.als

    def diverging(*arguments: Any, **options: Any) -> Any:
        for step in engine(*arguments, **options):
            factors = step.user_factors * (np.nan if step.epoch == 2 else 1)
            yield Step(step.epoch, step.seconds, step.objective, factors, step.item_factors)

    monkeypatch.setattr(models, "als", diverging)
    model = als()
    with pytest.raises(ValueError, match="diverged"):
        model.fit(toy())
    monkeypatch.undo()
    assert same_factors(model, als(iterations=1).fit(toy()))


def test_a_callback_must_be_a_function() -> None:
    with pytest.raises(TypeError, match="callback"):
        als().fit(toy(), callback=5)  # type: ignore[arg-type]


# --- warm start


def test_a_warm_start_goes_on_where_the_other_stopped() -> None:
    whole = als(iterations=5).fit(toy())
    half = als(iterations=2).fit(toy())
    for start in (half, half.store):
        assert same_factors(als(iterations=3).fit(toy(), start=start), whole)
    half.set_params(iterations=3).fit(toy(), start=half)
    assert same_factors(half, whole)


def test_a_warm_start_matches_labels_in_any_order_and_number() -> None:
    start = als(dtype="float64").fit(labelled())
    users, items = ["new", "u5", "u0", "u3"], ["i6", "also new", "i1"]
    values = sp.csr_array(np.arange(12.0).reshape(4, 3) % 5)
    data = mfrank.Interactions.from_sparse(values, user_ids=users, item_ids=items)
    fresh_users, fresh_items = first_factors(data, 4, "float64", 3, None)
    warm_users, warm_items = first_factors(data, 4, "float64", 3, start.store)
    expected = start.user_factors[[5, 0, 3]]
    np.testing.assert_array_equal(warm_users, np.vstack([fresh_users[:1], expected]))
    np.testing.assert_array_equal(
        warm_items, np.vstack([start.item_factors[6], fresh_items[1], start.item_factors[1]])
    )


def test_a_warm_start_may_add_numbered_rows_but_not_lose_them() -> None:
    small, large = als().fit(toy()), als().fit(toy(12, 8))
    model = als()
    model.fit(toy(12, 8), start=small)
    assert model.user_factors.shape == (12, 4)
    with pytest.raises(ValueError, match="start has 12 users, the data only 9"):
        als().fit(toy(), start=large)


def test_a_warm_start_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="start has 4 factors, this model 5"):
        als(factors=5).fit(toy(), start=als().fit(toy()))
    with pytest.raises(ValueError, match="start knows no user and no item"):
        als().fit(labelled(), start=als().fit(toy()))
    with pytest.raises(TypeError, match="start must be a fitted model"):
        als().fit(toy(), start=toy())  # type: ignore[arg-type]
    with pytest.raises(mfrank.NotFittedError, match="call fit"):
        als().fit(toy(), start=als())


# --- save and load


@pytest.mark.parametrize("data", [toy(values="dislikes"), labelled()], ids=["numbered", "labelled"])
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
    with pytest.raises(ValueError, match=r"user_items is needed.*filter_already_liked_items=False"):
        loaded.recommend(0)
    ids, _ = loaded.recommend(0, toy())
    np.testing.assert_array_equal(ids, model.recommend(0)[0])
    everything, _ = loaded.recommend(0, N=7, filter_already_liked_items=False)
    assert sorted(everything) == list(range(7))


def test_a_loaded_model_can_be_refitted_grown_and_saved_over_itself(tmp_path: Path) -> None:
    als().fit(toy()).save(tmp_path / "m")
    model: Any = mfrank.load(tmp_path / "m", mmap=True)
    model.partial_fit_users([9], sp.csr_array([[1, 1, 0, 0, 0, 0, 0]]))
    model.save(tmp_path / "m")
    again = mfrank.load(tmp_path / "m")
    assert again.user_factors.shape == (10, 4)
    assert not {0, 1} & set(again.recommend(9, N=5)[0].tolist())
    assert same_factors(model.fit(toy()), als().fit(toy()))


def test_values_are_not_saved_and_so_not_explained(tmp_path: Path) -> None:
    """Marks in place of values would give WRMF a wrong answer; objectives without values none."""
    matrix = toy()
    for objective in (mfrank.WRMF(alpha=2.0), mfrank.RG2()):
        als(objective).fit(matrix).save(tmp_path / "m")
        loaded: Any = mfrank.load(tmp_path / "m")
        if objective.uses_values:
            with pytest.raises(ValueError, match="user_items is needed"):
                loaded.explain(0, None, 3)
        else:
            assert loaded.explain(0, None, 3) == loaded.explain(0, matrix, 3)


def test_foreign_and_damaged_stores_are_refused(tmp_path: Path) -> None:
    store = als().fit(toy()).store
    foreign = FactorStore(
        store.user_factors, store.item_factors, store.user_ids, store.item_ids, counts=store.counts
    )
    foreign.save(tmp_path / "foreign")
    with pytest.raises(ValueError, match=r"fitted by unknown, not ALS; mfrank\.load takes any"):
        mfrank.ALS.load(tmp_path / "foreign")
    served = mfrank.load(tmp_path / "foreign")
    assert type(served) is mfrank.Recommender
    with pytest.raises(FileNotFoundError):
        mfrank.load(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("not a model")
    with pytest.raises(ValueError, match="other"):
        mfrank.load(tmp_path / "other")
    with pytest.raises(ValueError, match="notes"):
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
    model.save(tmp_path / "m")
    with pytest.raises(ValueError, match="options saved with the model are damaged"):
        mfrank.load(tmp_path / "m")


def test_seen_items_in_a_file_are_checked(tmp_path: Path) -> None:
    model = als().fit(toy())
    model.save(tmp_path / "good")
    store = FactorStore.load(tmp_path / "good")
    extras = dict(store.extras)
    extras["seen_indices"] = extras["seen_indices"] + 100
    vars(store)["extras"] = extras
    store.save(tmp_path / "bad")
    with pytest.raises(ValueError, match="damaged"):
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
    model = als(mfrank.WRMF()).fit(labelled())
    model.recalculate_user("u0", labelled())  # fold-in keeps what rows share
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
