"""Fits of the reference: numpy's functions, whether or not the extension is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_sums import BUILT, NATIVE

import mfrank
from mfrank.arrays import ext
from mfrank.losses import Loss
from mfrank.models import loss_classes

DATA = mfrank.synthetic(40, 30, 300, random_state=0)
OPTIONS: list[dict[str, Any]] = [
    {"optimizer": mfrank.Langevin()},
    {"optimizer": mfrank.Adagrad(), "shared_negatives": True, "negative_sampling": "popularity"},
    {"optimizer": mfrank.SGD(0.1, 0.5), "negative_sampling": "in-batch", "item_biases": True},
    {"batches": "positives", "scores": "distance"},
    {"positives": None, "negatives": None, "init": "random", "scores": "cosine"},
]


@pytest.fixture
def no_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever asks the extension for something fails the test."""

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("asked the extension")  # no Exception, which a fit could catch

    for name, asked in vars(ext).items():
        if callable(asked):
            monkeypatch.setattr(ext, name, refuse)


def fit(loss: Loss, **options: Any) -> mfrank.Descent:
    small: dict[str, Any] = {"factors": 4, "iterations": 1, "random_state": 0}
    return mfrank.Descent(loss, backend="reference", **(small | options)).fit(DATA)


@BUILT
@pytest.mark.parametrize("name", sorted(loss_classes()))
@pytest.mark.usefixtures("no_extension")
def test_the_reference_runs_numpy_and_nothing_else(name: str) -> None:
    model = fit(loss_classes()[name]())
    assert np.isfinite(model.user_factors).all()


@BUILT
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.usefixtures("no_extension")
def test_the_reference_does_so_whatever_the_options(options: dict[str, Any]) -> None:
    assert np.isfinite(fit(mfrank.BPR(), **options).item_factors).all()


@BUILT
@pytest.mark.usefixtures("no_extension")
def test_a_call_of_the_extension_would_be_seen() -> None:
    with pytest.raises(pytest.fail.Exception, match="asked the extension"):
        NATIVE.normals(0, (3,), np.empty(0))
    with pytest.raises(pytest.fail.Exception, match="asked the extension"):
        mfrank.Descent(mfrank.BPR(), backend="cpu", factors=4, iterations=1).fit(DATA)
