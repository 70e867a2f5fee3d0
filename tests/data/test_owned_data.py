"""What a model keeps is its own: what it was fitted to may change afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als
from problems import toy

import mfrank

MODELS = {
    "ALS": lambda: als(mfrank.WRMF()),
    "Descent": lambda: mfrank.Descent(factors=4, iterations=1, random_state=0),
    "float64": lambda: als(dtype="float64"),
}


def given(form: str) -> Any:
    matrix = sp.csr_matrix(toy())
    return mfrank.Interactions.of(matrix) if form == "Interactions" else matrix.astype(form)


def spoil(data: Any) -> None:
    """Empty a matrix, in its arrays and as an object."""
    matrix = data.user_items if isinstance(data, mfrank.Interactions) else data
    for part in ("data", "indices", "indptr"):
        if getattr(matrix, part).flags.writeable:
            getattr(matrix, part)[...] = 0
        setattr(matrix, part, getattr(matrix, part)[:1])


def answers(model: Any) -> list[Any]:
    listed = [*model.recommend(range(9), N=7), *model.recommend_users(range(7), N=9)]
    if isinstance(model, mfrank.ALS):
        explained = model.explain(0, None, 6)
        listed += [np.array([explained.score, explained.baseline])]
    return listed


@pytest.mark.parametrize("form", ["float32", "float64", "int8", "Interactions"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_answers_as_before_when_its_data_change(
    name: str, form: str, tmp_path: Path
) -> None:
    wanted = answers(MODELS[name]().fit(given(form)))
    data = given(form)
    model = MODELS[name]().fit(data)
    spoil(data)
    for one, other in zip(answers(model), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    loaded = mfrank.load(model.save(tmp_path / "model"))
    for one, other in zip(loaded.recommend(range(9), N=7), wanted, strict=False):
        np.testing.assert_array_equal(one, other)


def test_zeros_written_and_dropped_after_a_fit_change_nothing(tmp_path: Path) -> None:
    matrix = sp.csr_matrix(toy(), dtype=np.float32)
    model = als().fit(matrix)
    wanted = model.recommend(range(9), N=7)[0]
    model.save(tmp_path / "model")
    matrix.data[...] = 0
    matrix.eliminate_zeros()
    model.save(tmp_path / "model")
    for one in (model, mfrank.load(tmp_path / "model")):
        np.testing.assert_array_equal(one.recommend(range(9), N=7)[0], wanted)
