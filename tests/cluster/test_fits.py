"""A fit whose half-steps run elsewhere, in blocks, has the bits of one that does not."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import Shuffled
from problems import OBJECTIVES

import mfrank
from mfrank.backends.sharded import blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_FEWEST_ENTRIES", 300)


def digest(model: mfrank.ALS) -> str:
    store = model.store
    text = hashlib.sha256(store.user_factors.tobytes() + store.item_factors.tobytes())
    for epoch in store.history:
        text.update(repr(epoch["objective"]).encode())
    return text.hexdigest()


def made(objective: Any, **options: Any) -> mfrank.ALS:
    how = {"factors": 12, "iterations": 3, "random_state": 0, "track_objective": True, **options}
    return mfrank.ALS(objective, **how)


DATA = mfrank.synthetic(300, 150, 6000, random_state=0)


@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_bits(name: str, solver: str) -> None:
    plain = made(OBJECTIVES[name], solver=solver).fit(DATA)
    for n in (1, 7):
        engine = Shuffled(n, seed=n)
        there = made(OBJECTIVES[name], solver=solver).fit(DATA, cluster=engine)
        assert digest(there) == digest(plain)
