"""Whatever is thrown at a model: a clear refusal, or finite factors and lists in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKEND
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import mfrank
from mfrank.als import QuadraticObjective
from tests.support.errors import refuses

pytestmark = pytest.mark.filterwarnings("ignore:WRMF takes values as confidences")

patient = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

SIZES = st.one_of(st.integers(0, 3), st.integers(0, 25))
WEIGHT = st.sampled_from([0.0, 1e-12, 1e-3, 0.1, 1.0, 40.0, 1e4])
RIDGE = st.sampled_from([0.0, 1e-10, 1e-4, 0.01, 1.0, 1e5])
POWER = st.sampled_from([0.0, 0.5, 1.0, 2.0])


@st.composite
def matrices(draw: st.DrawFn, dislikes: bool) -> sp.csr_array:
    """Any shape, also without rows or columns; values tiny and huge; any dtype and format."""
    shape = draw(SIZES), draw(SIZES)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    density = draw(st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    dense = (rng.random(shape) < density).astype(np.float64)
    scale = draw(st.sampled_from(["ones", "counts", "tiny", "huge", "mixed"]))
    if scale == "counts":
        dense *= rng.integers(1, 100, size=shape)
    elif scale != "ones":
        low, high = {"tiny": (-30, -3), "huge": (3, 6), "mixed": (-30, 6)}[scale]
        dense *= 10.0 ** rng.uniform(low, high, size=shape)
    if dislikes and draw(st.booleans()):
        dense *= rng.choice([1.0, -1.0], size=shape)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return sp.csr_array(dense.astype(dtype))


@st.composite
def objectives(draw: st.DrawFn) -> QuadraticObjective:
    """Every objective, with parameters at and near the ends of their ranges."""
    ridge: dict[str, Any] = {"regularization": draw(RIDGE), "nu": draw(POWER)}
    kind = draw(st.sampled_from(["WRMF", "IALS", "EALS", "RG2", "RGX", "RGXPrinted", "RG2Sampled"]))
    if kind == "WRMF":
        confidence: Any = draw(st.sampled_from(["alpha*r", "1+alpha*r"]))
        return mfrank.WRMF(alpha=draw(WEIGHT), confidence=confidence, **ridge)
    if kind == "IALS":
        return mfrank.IALS(alpha0=draw(WEIGHT), **ridge)
    if kind == "EALS":
        return mfrank.EALS(c0=draw(WEIGHT), exponent=draw(POWER), **ridge)
    if kind == "RG2Sampled":
        return mfrank.RG2Sampled(negatives=draw(st.integers(0, 3)), **ridge)
    own: Any = draw(st.sampled_from(["own", "authors"]))
    if kind == "RGXPrinted":
        beta = draw(st.sampled_from([0.0, 0.3, 0.99]))
        return mfrank.RGXPrinted(alpha=draw(WEIGHT), beta=beta, ridge=own, **ridge)
    make = mfrank.RG2 if kind == "RG2" else mfrank.RGX
    return make(alpha=draw(WEIGHT), ridge=own, **ridge)


@st.composite
def estimators(draw: st.DrawFn) -> mfrank.ALS:
    """Factors from 1 to more than there are rows; every solver, dtype and number of threads."""
    solver = draw(st.sampled_from(["auto", "cholesky", "cg"]))
    steps = st.fixed_dictionaries({"cg_steps": st.integers(1, 5)})
    tolerance = st.fixed_dictionaries({"cg_tolerance": st.sampled_from([None, 1e-12, 1e-4, 0.5])})
    return mfrank.ALS(
        draw(objectives()),
        factors=draw(st.integers(1, 20)),
        iterations=draw(st.integers(1, 4)),
        solver=solver,
        **({} if solver == "cholesky" else draw(steps | tolerance)),
        dtype=draw(st.sampled_from(["float32", "float64"])),
        random_state=draw(st.integers(0, 100)),
        n_threads=draw(st.integers(0, 3)),
        backend=BACKEND,
        track_objective=draw(st.booleans()),
    )


def fitted(data: st.DataObject) -> tuple[mfrank.ALS, sp.csr_array]:
    """A fitted model and its matrix."""
    model = data.draw(estimators(), label="model")
    matrix = data.draw(matrices(model.objective.accepts_dislikes), label="matrix")
    if not (matrix.data > 0).any():
        with refuses(ValueError, "user_items"):
            model.fit(matrix)
        reject()
    if isinstance(model.objective, mfrank.RG2Sampled) and matrix.shape[1] <= 3:
        model.set_params(objective=mfrank.RG2Sampled(negatives=0))
    return model.fit(matrix), matrix


def unknown_rows(model: mfrank.ALS, matrix: sp.csr_array) -> tuple[set[int], set[int]]:
    """Users and items without interactions, or without factors: they are in no list."""
    sides = (1, model.user_factors), (0, model.item_factors)
    return tuple(  # type: ignore[return-value]
        set(np.flatnonzero(((matrix != 0).sum(axis) == 0) | ~factors.any(1)).tolist())
        for axis, factors in sides
    )


def check_lists(ids: Any, scores: Any, banned: Any, n_items: int, silent: Any = ()) -> None:
    """Sorted, without repeats, nothing banned, padded at the end only; the silent have none."""
    for row, (listed, values, ban) in enumerate(zip(ids, scores, banned, strict=True)):
        n = int((listed >= 0).sum())
        assert (listed[:n] >= 0).all()
        assert (listed < n_items).all()
        assert (listed[n:] == -1).all()
        assert np.isnan(values[n:]).all()
        assert np.isfinite(values[:n]).all()
        assert (np.diff(values[:n]) <= 0).all()
        assert len(set(listed[:n].tolist())) == n
        assert not set(listed[:n].tolist()) & ban
        assert n == (0 if row in silent else min(len(listed), n_items - len(ban)))
        ties = np.diff(values[:n]) == 0
        assert (np.diff(listed[:n])[ties] > 0).all()


@patient
@given(data=st.data())
def test_a_fit_ends_in_finite_factors_and_lists_that_keep_the_contract(data: st.DataObject) -> None:
    model, matrix = fitted(data)
    users, items = matrix.shape
    for factors, rows in ((model.user_factors, users), (model.item_factors, items)):
        assert factors.shape == (rows, model.factors)
        assert factors.dtype == model.dtype
        assert np.isfinite(factors).all()
    n = data.draw(st.integers(1, 30), label="N")
    kept = matrix.copy()
    kept.eliminate_zeros()
    seen = [set(kept[[u]].indices.tolist()) for u in range(users)]
    no_users, no_items = unknown_rows(model, kept)
    silent = set(np.flatnonzero(~model.user_factors.any(1)).tolist())
    check_lists(*model.recommend(range(users), N=n), [s | no_items for s in seen], items, silent)
    filters = [
        set(data.draw(st.sets(st.integers(0, items - 1)))) if items else set() for _ in range(users)
    ]
    lists = model.recommend(range(users), kept, N=n, filter_items=[sorted(f) for f in filters])
    banned = [s | f | no_items for s, f in zip(seen, filters, strict=True)]
    check_lists(*lists, banned, items, silent)
    holders = [set(kept[:, [i]].tocoo().coords[0].tolist()) for i in range(items)]
    found = model.recommend_users(range(items), N=n)
    check_lists(*found, [held | no_users for held in holders], users, no_items)


def test_rgx_without_any_ridge_leaves_the_sum_of_the_items_free() -> None:
    """The loss is then flat along it: any value will do, as long as it is one."""
    for matrix in (sp.csr_array([[1.0, 0.0]]), sp.csr_array(np.eye(3, 4))):
        objective = mfrank.RGX(alpha=0.0, regularization=0.0)
        for factors in (1, 2, 5):
            model = mfrank.ALS(objective, factors=factors, random_state=0, backend=BACKEND)
            model.fit(matrix)
            assert np.isfinite(model.user_factors).all()
            assert np.isfinite(model.item_factors).all()


@patient
@given(data=st.data())
def test_similar_rows_fold_in_and_explanations_stay_finite(data: st.DataObject) -> None:
    model, matrix = fitted(data)
    users, items = matrix.shape
    unknown = unknown_rows(model, matrix)
    both = (users, model.similar_users), (items, model.similar_items)
    for (rows, ask), unmet in zip(both, unknown, strict=True):
        ids, scores = ask(range(rows), N=5)
        np.testing.assert_array_equal(ids[:, 0], np.arange(rows))
        banned = [{row} | unmet for row in range(rows)]
        check_lists(ids[:, 1:], scores[:, 1:], banned, rows, unmet)
        assert (np.nan_to_num(np.abs(scores)) <= 1 + 1e-5).all()
    folded = model.recalculate_user(range(users), matrix)
    assert np.isfinite(folded).all()
    assert np.isfinite(model.recalculate_item(range(items), sp.csr_array(matrix.T))).all()
    if users and items:
        explanation = model.explain(0, None, items - 1, N=100)
        assert np.isfinite(explanation.score)
        assert np.isfinite(explanation.baseline)
        assert all(np.isfinite(part) for _, part in explanation.contributions)
        model.partial_fit_users([users], matrix[[0]]).partial_fit_items(
            [items], sp.csr_array((1, users + 1))
        )
        assert np.isfinite(model.user_factors).all()
        assert np.isfinite(model.item_factors).all()


# --- options that are none


def refusal(call: Callable[..., object], **arguments: Any) -> str | None:
    """The message a call is refused with, None if it is not."""
    try:
        call(**arguments)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.builds(object),
    st.just(1j),
    st.just(np.array([1, 2])),
)


@settings(max_examples=150, deadline=None)
@given(
    option=st.sampled_from(
        [
            "objective",
            "factors",
            "iterations",
            "solver",
            "cg_steps",
            "cg_tolerance",
            "dtype",
            "gather_dtype",
            "random_state",
            "n_threads",
            "backend",
        ]
    ),
    value=JUNK,
)
def test_an_option_is_taken_or_refused_by_name(option: str, value: Any) -> None:
    said = refusal(mfrank.ALS, **{option: value})
    assert said is None or option in said


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(
        [
            mfrank.WRMF,
            mfrank.IALS,
            mfrank.EALS,
            mfrank.RG2,
            mfrank.RGX,
            mfrank.RGXPrinted,
            mfrank.RG2Sampled,
        ]
    ),
    data=st.data(),
)
def test_a_parameter_is_taken_or_refused_by_name(kind: Any, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(kind.__dataclass_fields__)))
    value = data.draw(st.one_of(st.floats(), st.integers(-5, 5)))
    said = refusal(kind, **{name: value})
    assert said is None or name in said


@settings(max_examples=200, deadline=None)
@given(
    call=st.sampled_from(
        [
            ("recommend", "userid"),
            ("recommend", "user_items"),
            ("recommend", "N"),
            ("recommend", "filter_items"),
            ("recommend", "items"),
            ("recommend", "n_threads"),
            ("recommend", "on_unknown"),
            ("recommend_users", "itemid"),
            ("recommend_users", "item_users"),
            ("recommend_users", "users"),
            ("similar_items", "itemid"),
            ("similar_items", "items"),
            ("similar_users", "userid"),
            ("recommend_from_items", "itemids"),
            ("recommend_from_items", "values"),
            ("explain", "userid"),
            ("explain", "itemid"),
            ("explain", "user_weights"),
            ("score", "on_unknown"),
            ("recalculate_user", "userid"),
            ("recalculate_user", "user_items"),
            ("partial_fit_users", "userids"),
            ("partial_fit_items", "itemids"),
            ("score", "userid"),
            ("score", "itemid"),
            ("fit", "callback"),
            ("fit", "start"),
        ]
    ),
    value=JUNK,
    labeled=st.booleans(),
)
def test_an_argument_is_taken_or_refused_by_name(
    call: tuple[str, str], value: Any, labeled: bool
) -> None:
    method, argument = call
    matrix = sp.csr_array(np.eye(4, 3) + np.eye(4, 3, 1))
    names = {"user_ids": list("abcd"), "item_ids": list("xyz")} if labeled else {}
    data = mfrank.Interactions.from_sparse(matrix, **names)
    model = mfrank.ALS(mfrank.IALS(), factors=2, iterations=1, backend=BACKEND).fit(data)
    user, item = ("a", "x") if labeled else (0, 0)
    needed: dict[str, dict[str, Any]] = {
        "recommend": {"userid": user},
        "recommend_users": {"itemid": item},
        "similar_items": {"itemid": item},
        "similar_users": {"userid": user},
        "recommend_from_items": {"itemids": [item]},
        "explain": {"userid": user, "user_items": None, "itemid": item},
        "recalculate_user": {"userid": user, "user_items": matrix},
        "partial_fit_users": {"userids": [user], "user_items": matrix},
        "partial_fit_items": {"itemids": [item], "item_users": matrix.T},
        "score": {"userid": [user], "itemid": [item]},
        "fit": {"user_items": data},
    }
    said = refusal(getattr(model, method), **(needed[method] | {argument: value}))
    named = argument.removesuffix("s"), "users and items", "user_items", "item_users"
    assert said is None or any(name in said for name in named), said
