"""ALS as an estimator: what it fits, with which options, and when it stops."""

from __future__ import annotations

import copy
from collections import defaultdict
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als, same_factors
from hostile import nested
from problems import OBJECTIVES, gradient, stated_loss, toy

import mfrank
from mfrank.models import LinearRanker
from mfrank.models import als as models
from mfrank.pagerank import GFN
from mfrank.store import Step
from tests.support.errors import refuses

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
    assert ids.tolist() == [10, -1, -1]
    assert sorted(model.recommend("bob", N=2)[0].tolist()) == [20, 30]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (np.ones((3, 3)), {"remedy": "convert a dense array"}),
        ([[1, 2]], {"remedy": r"make them with Interactions\.from_arrays"}),
        (sp.csr_array([[np.nan, 1.0]]), {"argument": "values", "remedy": "drop or replace"}),
        (sp.csr_array([[np.inf, 1.0]]), {"argument": "values", "remedy": "drop or replace"}),
        (sp.csr_array([[-1.0, 1.0]]), {"argument": "user_items", "remedy": "Drop them"}),
        (sp.csr_array([[1j, 1.0]]), {"argument": "values"}),
    ],
)
def test_data_that_cannot_be_fitted_leave_the_model_as_it_was(
    data: Any, fault: dict[str, str]
) -> None:
    model = als(factors=2).fit(toy())
    before = copy.copy(model)
    with refuses((TypeError, ValueError), **fault):
        model.fit(data)
    assert same_factors(model, before)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 4)])
@pytest.mark.parametrize(
    "fitter", ["ALS", "Descent", "ItemKNN", "Popularity", "SupervisedPageRank"]
)
def test_of_nothing_there_is_nothing_to_learn(fitter: str, shape: tuple[int, int]) -> None:
    estimator = getattr(mfrank, fitter)()
    data = mfrank.Interactions.from_arrays([], [], timestamps=[], shape=shape)
    with refuses(ValueError, None, remedy="check how it was created|drops the others"):
        estimator.fit(data)
    with pytest.raises(mfrank.NotFittedError):
        estimator.recommend(0)


def test_dislikes_alone_are_nothing_to_fit_to() -> None:
    disliked = sp.csr_array([[-1.0, 0], [0, -2]])
    with refuses(ValueError, "user_items"):
        als(mfrank.WRMF()).fit(disliked)


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


@pytest.mark.parametrize(
    ("solver", "name"),
    [*(("cg", name) for name in ("wrmf", "ials", "rg2", "rgx")), ("auto", "ials"), ("auto", "rg2")],
)
def test_a_long_fit_ends_where_the_objective_is_level(solver: str, name: str) -> None:
    """No step is spared on the way. With "auto" rows are long enough to be iterated on."""
    matrix, factors = (toy(), 4) if solver == "cg" else (toy(70, 60, density=0.9), 48)
    how: dict[str, Any] = {"solver": solver, "cg_steps": 1, "dtype": "float64", "n_threads": 1}
    model = als(OBJECTIVES[name], factors=factors, iterations=800, **how).fit(matrix)
    loss = stated_loss(OBJECTIVES[name], matrix.toarray())
    p, q = model.user_factors, model.item_factors
    for side, along in ((p, lambda x: loss(x, q)), (q, lambda x: loss(p, x))):
        # The loss is quadratic in either side: wide differences are exact.
        slope, at_zero = (gradient(along, at, h=0.1) for at in (side, np.zeros_like(side)))
        assert np.linalg.norm(slope) <= 1e-8 * np.linalg.norm(at_zero)


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
        ("cg_tolerance", 1, TypeError),
        ("cg_tolerance", 0.0, ValueError),
        ("cg_tolerance", "small", TypeError),
        ("dtype", "float16", ValueError),
        ("dtype", "no dtype", ValueError),
        ("dtype", int, ValueError),
        ("dtype", None, ValueError),
        ("gather_dtype", "float32", ValueError),
        ("dtype", nested(), ValueError),
        ("gather_dtype", nested(), ValueError),
        ("random_state", -1, ValueError),
        ("random_state", np.random.RandomState(0), TypeError),
        ("n_threads", -1, ValueError),
        ("n_threads", 1.5, TypeError),
        ("backend", "abacus", ValueError),
    ],
)
def test_bad_options_are_refused_by_name(option: str, value: Any, error: type[Exception]) -> None:
    with refuses(error, option):
        mfrank.ALS(**{option: value})
    model = als()
    setattr(model, option, value)  # what was set behind its back is found by fit
    with refuses(error, option):
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


@pytest.mark.parametrize(
    "model",
    [als(), als(biases=True), mfrank.Descent(mfrank.BPR(), factors=4, iterations=3)],
    ids=["ALS", "with biases", "Descent"],
)
def test_the_seconds_of_epochs_are_those_that_passed(model: Any) -> None:
    began = perf_counter()
    seconds = [record["seconds"] for record in model.fit(toy()).store.history]
    assert len(seconds) == 3
    assert min(seconds) > 0
    assert sum(seconds) <= perf_counter() - began


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
    with refuses(ValueError, "user_factors", remedy="diverged"):
        model.fit(toy())
    monkeypatch.undo()
    assert same_factors(model, als(iterations=1).fit(toy()))


DATED = mfrank.synthetic(20, 10, 80, random_state=0)
JUDGED = mfrank.data.Judged(np.eye(6)[:, :3], np.arange(6) % 3, np.arange(6) // 3)
FITS: dict[str, tuple[Any, Any]] = {
    **{name: (getattr(mfrank, name)(), toy()) for name in ("EASE", "ItemFilter", "ItemKNN")},
    "ALS": (als(), toy()),
    "Descent": (mfrank.Descent(mfrank.BPR(), factors=4, iterations=3), toy()),
    "Popularity": (mfrank.Popularity(), toy()),
    "Blend": (mfrank.Blend([als(), mfrank.EASE()]), toy()),
    "SupervisedPageRank": (
        mfrank.SupervisedPageRank(GFN(iterations=2, random_state=0), random_state=0),
        DATED,
    ),
    "LinearRanker": (LinearRanker(iterations=2, random_state=0), JUDGED),
}


@pytest.mark.parametrize("name", FITS)
def test_a_callback_gets_as_many_arguments_as_it_takes(name: str) -> None:
    """With one of three parameters, nothing has changed; any other number is refused at once."""
    model, data = FITS[name]
    calls: dict[str, list[Any]] = defaultdict(list)
    for callback in (
        lambda epoch, seconds, objective: calls["three"].append(epoch),
        lambda epoch, *_: calls["some"].append(epoch),
        lambda epoch, seconds, objective, valid: calls["four"].append((epoch, valid)),
        lambda *call: calls["all"].append((call[0], *call[3:])),
    ):
        model.fit(data, callback=callback)
    assert calls["three"] == calls["some"] == list(range(len(calls["three"]))) != []
    assert calls["four"] == calls["all"] == [(epoch, None) for epoch in calls["three"]]
    for other in (lambda: None, lambda epoch, seconds: None, lambda a, b, c, d, e: None, 5):
        with refuses(TypeError, "callback"):
            model.fit(data, callback=other)
