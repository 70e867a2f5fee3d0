"""Checkpoints of descents: what goes on has the bits of what was never interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.descent import Optimizer
from mfrank.losses import Loss
from mfrank.store import is_mapped

DATA = mfrank.synthetic(120, 60, 2000, random_state=0)


def made(loss: Loss | None = None, **options: Any) -> mfrank.Descent:
    settings = {"factors": 6, "iterations": 4, "batch_size": 32, "negatives": 20, "random_state": 0}
    return mfrank.Descent(loss or mfrank.SONG(), **(settings | options))  # type: ignore[arg-type]


RULES: list[Optimizer] = [
    mfrank.Adam(0.02),
    mfrank.Adagrad(),
    mfrank.SGD(0.5, momentum=0.5),
    mfrank.Langevin(0.1, 0.1, 1e4),
]
MEMORIES = [
    mfrank.SONG(),
    mfrank.KSONG(k=5, theoretical=True),
    mfrank.SOLC(),
    mfrank.SOPRC(order_statistics=3),
    mfrank.StochasticRank(last_noise=0.2, annealing_batches=9),
    mfrank.UIB(),
    mfrank.ListMLE(),
    mfrank.SML(),
]


class Interrupted(Exception):
    pass


def interrupt(epoch: int) -> Any:
    def after(done: int, seconds: float, objective: float | None) -> None:
        if done == epoch:
            raise Interrupted

    return after


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("loss", MEMORIES, ids=lambda loss: type(loss).__name__)
def test_an_interrupted_fit_goes_on_to_the_same_bits(
    loss: Loss, rule: Optimizer, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "optimizer": rule,
        "item_biases": True,
        "schedule": mfrank.CosineDecay(),
        "temperature": 0.5,
    }
    whole = made(loss, **options).fit(DATA)
    folder = tmp_path / "state"
    with pytest.raises(Interrupted):
        made(loss, **options).fit(DATA, checkpoint=folder, callback=interrupt(1))
    again = made(loss, **options).fit(DATA, checkpoint=folder)
    for name in ("user_factors", "item_factors", "item_biases"):
        np.testing.assert_array_equal(getattr(again.store, name), getattr(whole.store, name))
    assert [r["epoch"] for r in again.store.history] == [1, 2, 3, 4]
    assert [r["objective"] for r in again.store.history] == [
        r["objective"] for r in whole.store.history
    ]


def test_a_complete_checkpoint_gives_the_model_back_and_takes_more_epochs(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = made(random_state=None).fit(DATA, checkpoint=folder)
    same = made(random_state=None).fit(DATA, checkpoint=folder)
    np.testing.assert_array_equal(same.item_factors, first.item_factors)
    ids, _ = same.recommend(DATA.user_ids.raw([0]))
    assert ids.shape == (1, 10)
    assert not same.store.extras  # the state is the checkpoint's, no part of the model
    assert not is_mapped(same.item_factors)  # whoever removes the folder keeps the model
    longer = made(random_state=None, iterations=6).fit(DATA, checkpoint=folder)
    assert len(longer.store.history) == 6
    assert longer.store.history[:4] == first.store.history


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    made(iterations=1).fit(DATA, checkpoint=folder)
    with pytest.raises(ValueError, match="fit with another loss, weight_decay; name another"):
        made(mfrank.BPR(), weight_decay=0.1).fit(DATA, checkpoint=folder)
    other = mfrank.synthetic(120, 60, 2000, random_state=1)
    with pytest.raises(ValueError, match="fit to other interactions"):
        made().fit(other, checkpoint=folder)
    mfrank.ALS(factors=6, iterations=1).fit(DATA).save(tmp_path / "model")
    with pytest.raises(ValueError, match="holds a saved model"):
        made().fit(DATA, checkpoint=tmp_path / "model")


def test_two_fits_hardly_ever_have_one_seed(tmp_path: Path) -> None:
    """It is drawn from 2^63 numbers; a checkpoint has it, whatever ``random_state`` was."""
    likes = mfrank.synthetic(4, 5, 8, random_state=0)
    seeds = []
    for random_state in (0, 1, 2, None):
        folder = tmp_path / f"{random_state}"
        made(iterations=1, random_state=random_state).fit(likes, checkpoint=folder)
        seeds += mfrank.FactorStore.load(folder).extras["checkpoint_seed"].tolist()
    assert len(set(seeds)) == 4
    assert max(seeds) > 2**50
