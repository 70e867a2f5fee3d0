"""Losses of one's own: fitted, saved, and loaded by their import path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import run
from loss_lists import derivative, whole_lists
from own_hinge import OwnHinge

import mfrank
from mfrank.losses import Loss, Sizes

DATA = mfrank.synthetic(60, 40, 900, random_state=0)


def made(loss: Loss) -> mfrank.Descent:
    return mfrank.Descent(loss, factors=6, iterations=3, random_state=0).fit(DATA)


def test_its_gradients_are_derivatives() -> None:
    lists, positives, negatives = whole_lists()
    loss = OwnHinge(0.7)

    def value(positives: Any, negatives: Any) -> float:
        return float(loss.gradients(lists, positives, negatives, {}).loss.sum())

    found = loss.gradients(lists, positives, negatives, loss.memory(Sizes(1, 1, 1)))
    np.testing.assert_allclose(
        found.positives, derivative(lambda h: value(h, negatives), positives), atol=1e-6
    )
    np.testing.assert_allclose(
        found.negatives, derivative(lambda h: value(positives, h), negatives), atol=1e-6
    )


def test_it_is_fitted_saved_and_loaded(tmp_path: Path) -> None:
    model = made(OwnHinge(margin=0.5))
    losses = [record["objective"] for record in model.store.history]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model")
    assert isinstance(loaded, mfrank.Descent)
    assert loaded.loss == OwnHinge(margin=0.5)
    np.testing.assert_array_equal(loaded.recommend(range(5))[0], model.recommend(range(5))[0])
    again = loaded.fit(DATA)  # on from the options that were saved
    np.testing.assert_array_equal(again.user_factors, model.user_factors)


def test_another_process_finds_it_by_its_path(tmp_path: Path) -> None:
    made(OwnHinge(margin=0.25)).save(tmp_path / "model")
    told = run(f"import mfrank; print(mfrank.load({str(tmp_path / 'model')!r}).loss)")
    assert told.stdout == "OwnHinge(margin=0.25)\n", told.stderr


def rewritten(folder: Path, path: str) -> Path:
    made(OwnHinge()).save(folder)
    manifest = folder / "manifest.json"
    text = manifest.read_text()
    assert "own_hinge:OwnHinge" in text
    manifest.write_text(text.replace("own_hinge:OwnHinge", path))
    json.loads(manifest.read_text())
    return folder


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("no_such_module:OwnHinge", "cannot be imported"),
        ("own_hinge:Nothing", "cannot be imported"),
        (":OwnHinge", "cannot be imported"),
        ("os:system", "must be a dataclass derived from Loss"),
        ("pathlib:Path", "must be a dataclass derived from Loss"),
        ("mfrank.losses:Loss", "must be a dataclass derived from Loss"),
    ],
)
def test_what_cannot_be_found_is_told_and_the_factors_are_there(
    tmp_path: Path, path: str, told: str
) -> None:
    folder = rewritten(tmp_path / "model", path)
    with pytest.raises(ValueError, match=told):
        mfrank.load(folder)
    assert mfrank.FactorStore.load(folder).factors == 6


def test_a_class_without_its_decorator_is_told_before_the_fit() -> None:
    class Bare(Loss):
        def gradients(self, lists: Any, positives: Any, negatives: Any, memory: Any) -> Any:
            raise AssertionError

    with pytest.raises(TypeError, match=r"put @dataclass\(frozen=True\) above class Bare"):
        mfrank.Descent(Bare())


def test_one_made_within_a_function_fits_and_save_tells_that_load_could_not(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Inner(OwnHinge):
        pass

    model = made(Inner())
    with pytest.raises(ValueError, match="at the top of a module"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    model.store.save(tmp_path / "factors")
