"""Options as scikit-learn's parameters, and as JSON and back."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from fits import als, same_factors
from hypothesis import given
from hypothesis import strategies as st
from problems import OBJECTIVES, toy

import mfrank
from mfrank.als import QuadraticObjective
from mfrank.descent import Optimizer, Schedule
from mfrank.models import Parameters, describe, restore
from tests.support.errors import refuses

CLASSES = {
    "ALS": mfrank.ALS,
    **{type(o).__name__: type(o) for o in OBJECTIVES.values()},
}


# --- numbers


def numbers() -> list[tuple[type[Any], str]]:
    """Every numeric option of every public class that is made of options alone."""
    public = (getattr(mfrank, name) for name in mfrank.__all__)
    kinds = [kind for kind in public if isinstance(kind, type) and is_dataclass(kind)]
    return [
        (kind, option.name)
        for kind in kinds
        if not any(option.default is MISSING for option in fields(kind) if option.init)
        for option in fields(kind)
        if type(option.default) in (int, float)
    ]


@pytest.mark.parametrize(("kind", "option"), numbers())
def test_numbers_are_refused_by_name(kind: type[Any], option: str) -> None:
    for value in (-0.5, float("nan"), float("inf"), "1"):
        with refuses((ValueError, TypeError), option):
            kind(**{option: value})


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=[*OBJECTIVES])
def test_a_power_is_none_that_a_float_cannot_hold(objective: Any) -> None:
    names = [f.name for f in fields(objective) if f.name in ("nu", "exponent")]
    for name in names:
        for value in (10.5, 10**30, np.float64(1e30)):
            with refuses(ValueError, name):
                type(objective)(**{name: value})


DATA = toy()


def fit_with(options: Any, **own: Any) -> Any:
    """A fit by which an objective, loss, optimizer or schedule is read; its estimator and bits."""
    if isinstance(options, mfrank.Loss):
        own["loss"] = options
    for base, name in ((Optimizer, "optimizer"), (Schedule, "schedule")):
        if isinstance(options, base):
            own[name] = options
    if isinstance(options, QuadraticObjective):
        own["objective"] = options
    kind = mfrank.ALS if "objective" in own else mfrank.Descent
    model = kind(factors=3, iterations=2, random_state=0, n_threads=1, **own).fit(DATA)
    return model, model.item_factors.tobytes()


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (kind, option)
        for kind, option in numbers()
        if issubclass(kind, mfrank.Loss | Optimizer | Schedule | QuadraticObjective)
    ],
)
def test_numbers_of_numpy_fit_as_those_of_python(kind: type[Any], option: str) -> None:
    others = {mfrank.RG2Sampled: {"negatives": 3}, mfrank.SOPRC: {"order_statistics": 3}}
    few = others.get(kind, {})
    value = few.get(option, getattr(kind(), option))
    forms: list[Any] = [np.float64(value)] if isinstance(value, float) else [np.int64(value)]
    forms += [np.uint8(value)] if isinstance(value, int) else [np.float32(value)]
    for form in forms:
        wanted = fit_with(kind(**few | {option: form.item()}))[1]
        model, found = fit_with(kind(**few | {option: form}))
        assert found == wanted
        told = [own for own in model.get_params(deep=True).values() if isinstance(own, np.generic)]
        assert not told


@pytest.mark.parametrize(
    ("kind", "option"),
    [(kind, option) for kind, option in numbers() if issubclass(kind, Parameters)],
)
def test_estimators_have_the_numbers_of_python(kind: type[Any], option: str) -> None:
    value = getattr(kind(), option)
    form = np.float64(value) if isinstance(value, float) else np.int64(value)
    made = kind(**{option: form})
    assert type(getattr(made, option)) is type(value)
    setattr(made, option, form)
    assert type(getattr(made, option)) is type(value)
    with refuses((TypeError, ValueError), option):
        kind(**{option: np.True_})


# --- parameters


def test_parameters_are_the_fields_and_those_of_the_objective() -> None:
    model = mfrank.ALS(mfrank.WRMF(alpha=7.0), factors=3)
    own = {field.name for field in fields(mfrank.ALS)}
    assert set(model.get_params(deep=False)) == own
    assert set(model.get_params()) == own | {
        "objective__alpha", "objective__regularization", "objective__nu", "objective__confidence"
    }  # fmt: skip
    assert model.get_params()["objective__alpha"] == 7.0
    assert model.get_params()["factors"] == 3


@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_is_got_can_be_set(name: str) -> None:
    model = als(OBJECTIVES[name], factors=3, dtype="float64", solver="cg")
    assert mfrank.ALS().set_params(**model.get_params()).get_params() == model.get_params()
    assert mfrank.ALS(**model.get_params(deep=False)).get_params() == model.get_params()


def test_nested_parameters_belong_to_the_objective_set_with_them() -> None:
    model = als(mfrank.RG2())
    assert model.set_params(objective__alpha=0.5, factors=6) is model
    assert model.objective == mfrank.RG2(alpha=0.5)
    assert model.factors == 6
    for params in (
        {"objective": mfrank.IALS(), "objective__alpha0": 0.4},
        {"objective__alpha0": 0.4, "objective": mfrank.IALS()},
    ):
        assert als(mfrank.RG2()).set_params(**params).objective == mfrank.IALS(alpha0=0.4)
    model.set_params(objective__alpha=0.1, objective__regularization=0.2, objective__nu=0.3)
    assert model.objective == mfrank.RG2(alpha=0.1, regularization=0.2, nu=0.3)


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"factor": 3}, {"place": "factor", "remedy": "it has objective"}),
        ({"objective__beta": 3}, {"place": "objective__beta", "remedy": "it has objective"}),
        ({"factors__width": 3}, {"place": "factors__width", "remedy": "it has objective"}),
        ({"objective__": 3}, {"remedy": "it has objective"}),
        ({"factors": 5, "objective__alpha": -1}, {"argument": "alpha"}),
        ({"objective": mfrank.IALS(), "objective__alpha": 1}, {"remedy": "it has objective"}),
        ({"iterations": 7, "factors": 0}, {"argument": "factors"}),
        ({"objective": None}, {"argument": "objective"}),
    ],
)
def test_bad_parameters_change_nothing(params: dict[str, Any], fault: dict[str, str]) -> None:
    model = als(mfrank.RG2())
    before = model.get_params()
    with refuses((TypeError, ValueError), **fault):
        model.set_params(**params)
    assert model.get_params() == before


def test_options_of_a_fitted_model_can_change_without_its_factors() -> None:
    model, fitted = als().fit(toy()), als().fit(toy())
    model.set_params(iterations=9, n_threads=1)
    assert same_factors(model, fitted)


def test_a_model_prints_as_it_is_made() -> None:
    names = {name: getattr(mfrank, name) for name in mfrank.__all__}
    model = als(mfrank.EALS(c0=3))
    text = repr(model).replace(", not fitted)", ")")
    assert eval(text, names).get_params() == model.get_params()


def test_scikit_learn_clones_estimators() -> None:
    base = pytest.importorskip("sklearn.base", reason="needs scikit-learn")
    model = als(mfrank.WRMF(alpha=3), random_state=5).fit(toy())
    cloned = base.clone(model)
    assert type(cloned) is mfrank.ALS
    assert cloned is not model
    assert cloned.get_params() == model.get_params()
    with pytest.raises(mfrank.NotFittedError):
        cloned.store  # noqa: B018
    assert same_factors(cloned.fit(toy()), model)
    generator = base.clone(als(random_state=np.random.default_rng(0)))
    assert isinstance(generator.random_state, np.random.Generator)


def test_scikit_learn_searches_over_nested_parameters() -> None:
    base = pytest.importorskip("sklearn.base", reason="needs scikit-learn")
    selection = pytest.importorskip("sklearn.model_selection", reason="needs scikit-learn")
    grid = [
        {"objective": [mfrank.WRMF()], "objective__alpha": [1.0, 10.0], "factors": [2, 3]},
        {"objective": [mfrank.RG2(), mfrank.RGX()], "objective__regularization": [0.1]},
    ]
    fitted = {}
    for params in selection.ParameterGrid(grid):
        model = base.clone(als()).set_params(**params).fit(toy())
        fitted[repr(model.objective), model.factors] = model
    assert len(fitted) == 6


# --- JSON


@pytest.mark.parametrize("name", OBJECTIVES)
def test_options_survive_json(name: str) -> None:
    model = als(OBJECTIVES[name], dtype=np.float64, n_threads=2)
    text = json.dumps(describe(model), allow_nan=False)
    restored = restore(json.loads(text), CLASSES)
    assert type(restored) is mfrank.ALS
    assert restored.objective == model.objective
    expected = model.get_params() | {"dtype": "float64"}
    assert restored.get_params() == expected


@given(
    alpha=st.floats(0, 1e300),
    regularization=st.floats(0, 1e300),
    nu=st.floats(0, 10),
)
def test_numbers_survive_json_exactly(alpha: float, regularization: float, nu: float) -> None:
    objective = mfrank.WRMF(alpha=alpha, regularization=regularization, nu=nu)
    text = json.dumps(describe(objective))
    assert restore(json.loads(text), CLASSES) == objective


def test_numbers_of_numpy_become_plain() -> None:
    objective = mfrank.IALS(alpha0=np.float32(0.5), regularization=0.003, nu=np.float64(1))  # type: ignore[arg-type]
    model = als(objective, factors=np.int64(3), dtype=np.dtype("f4"))
    options = json.loads(json.dumps(describe(model)))["options"]
    assert options["factors"] == 3
    assert options["dtype"] == "float32"
    written = {"alpha0": 0.5, "regularization": 0.003, "nu": 1.0, "weighted": False}
    assert options["objective"]["options"] == written


def test_a_generator_is_not_written_down() -> None:
    model = als(random_state=np.random.default_rng(0))
    assert describe(model)["options"]["random_state"] is None


@pytest.mark.parametrize(
    ("description", "fault"),
    [
        ({"name": "Popen", "options": {}}, {"place": "Popen", "remedy": "this version has ALS"}),
        (
            {"name": "RG2", "options": {"beta": 1}},
            {"argument": "RG2", "remedy": "fit again"},
        ),
        ({"name": "RG2", "options": {"alpha": -1}}, {"argument": "RG2"}),
    ],
)
def test_only_known_classes_and_options_are_restored(
    description: dict[str, Any], fault: dict[str, str]
) -> None:
    with refuses(ValueError, **fault):
        restore(description, CLASSES)


@dataclass
class Half(Parameters):
    part: float = 0.5

    def __post_init__(self) -> None:
        if self.part > 1:
            raise ValueError("part must be <= 1")


@dataclass
class Whole(Parameters):
    half: Half
    name: str = "w"


def test_a_new_dataclass_needs_nothing_but_its_fields() -> None:
    whole = Whole(Half())
    assert whole.set_params(half__part=0.7).get_params()["half__part"] == 0.7
    with pytest.raises(ValueError, match="part must be <= 1"):
        whole.set_params(half__part=7)
    assert restore(describe(whole), {"Whole": Whole}, (Half,)) == whole
