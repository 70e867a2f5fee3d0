"""A saved Reranker: what is in its folder, its versions, and what is damage."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import PATHS
from fits import als
from rerankers import CATBOOST, N_ITEMS, N_USERS, random_split, small

import mfrank
from mfrank.models import Reranker
from mfrank.store import FactorStore
from tests.support.errors import refuses

SPLIT = random_split()


@pytest.fixture(scope="module")
def reranker() -> Reranker:
    pytest.importorskip("catboost", reason=CATBOOST)
    rng = np.random.default_rng(0)
    features = rng.random((N_USERS, 2))
    features[3] = np.nan
    tables = {"user_features": features, "item_features": rng.random((N_ITEMS, 1))}
    return small(als().fit(SPLIT.train)).fit(SPLIT.train, SPLIT.valid, **tables)


@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_loaded_answers_as_what_was_saved(
    tmp_path: Path, reranker: Reranker, mmap: bool
) -> None:
    users = SPLIT.train.user_ids.labels
    for with_seen in (True, False):
        folder = reranker.save(tmp_path / str(with_seen), with_seen=with_seen)
        loaded: Any = mfrank.load(folder, mmap=mmap, verify=True)
        assert type(loaded) is Reranker
        assert type(loaded.model) is mfrank.ALS
        assert loaded.found == reranker.found
        assert (loaded.seen is not None) == with_seen
        assert loaded._described() == reranker._described()
        filters = {} if with_seen else {"user_items": SPLIT.train}
        for one, other in zip(
            loaded.recommend(users, **filters), reranker.recommend(users), strict=True
        ):
            np.testing.assert_array_equal(one, other)
        assert not [file for file in folder.rglob("*") if file.suffix in (".pkl", ".pickle")]


def test_versions_are_kept_and_taken_back(tmp_path: Path, reranker: Reranker) -> None:
    folder, other = tmp_path / "m", reranker.over(als(random_state=5).fit(SPLIT.train))
    reranker.save(folder)
    other.save(folder, keep=2)
    lists = [each.recommend("u1").scores.tolist() for each in (reranker, other)]
    assert [mfrank.load(folder, version=n).recommend("u1").scores.tolist() for n in (1, 0)] == lists
    mfrank.roll_back(folder)
    assert mfrank.load(folder).recommend("u1").scores.tolist() == lists[0]


def test_a_saved_first_stage_is_no_reranker(tmp_path: Path, reranker: Reranker) -> None:
    reranker.model.save(tmp_path / "model")
    with refuses(ValueError, place="model", remedy=r"mfrank\.load"):
        Reranker.load(tmp_path / "model")


def stage_with(**changed: Any) -> Callable[[FactorStore], FactorStore]:
    """The store with other facts of its second stage."""

    def made(store: FactorStore) -> FactorStore:
        options = dict(store.fitter["options"])
        options["second_stage"] = {**options["second_stage"], **changed}
        return replace(store, fitter={"name": "Reranker", "options": options})

    return made


def arrays_with(**changed: Any) -> Callable[[FactorStore], FactorStore]:
    return lambda store: replace(store, extras={**store.extras, **changed})


def without_the_stage(store: FactorStore) -> FactorStore:
    return replace(store, fitter={"name": "Reranker", "options": {}})


@pytest.mark.parametrize(
    "damage",
    [
        without_the_stage,
        stage_with(options={"depth": -3}),
        stage_with(options={"death": 3}),
        stage_with(options=[]),
        stage_with(found=3),
        stage_with(found={"items_lost": 3}),
        stage_with(over="Blend"),
        stage_with(over=7),
        stage_with(sha256="0" * 64),
        arrays_with(trees=np.zeros(9)),
        arrays_with(trees=np.zeros((3, 3), np.uint8)),
        arrays_with(trees=np.zeros(9, np.uint8)),
        arrays_with(trees_user_features=np.zeros((3, 1), np.float32)),
        arrays_with(trees_item_features=np.zeros((N_ITEMS, 2), np.float32)),
    ],
)
def test_other_contents_are_damage(
    tmp_path: Path, reranker: Reranker, damage: Callable[[FactorStore], FactorStore]
) -> None:
    damage(reranker.store).save(tmp_path / "two")
    for load in (mfrank.load, Reranker.load):
        with refuses(ValueError, None, remedy=r"restore it|fit it again") as raised:
            load(tmp_path / "two")
        assert str(tmp_path / "two") in str(raised.value)


@pytest.mark.parametrize("mmap", [False, True])
def test_damaged_trees_never_come_to_catboost(
    tmp_path: Path, reranker: Reranker, mmap: bool
) -> None:
    """Which may crash on them: so a process of its own loads them."""
    (cbm,) = reranker.save(tmp_path / "m").rglob("*trees.npy")
    load = f"""
import sys
sys.path[:0] = {PATHS!r}
from pathlib import Path
import numpy as np
import mfrank
cbm, rng, refused = Path({str(cbm)!r}), np.random.default_rng(0), 0
whole = np.frombuffer(cbm.read_bytes(), np.uint8)
for _ in range(60):
    damaged = whole.copy()
    damaged[rng.integers(128, len(whole), rng.integers(1, 9))] ^= np.uint8(1 << rng.integers(8))
    cbm.write_bytes(damaged.tobytes())
    try:
        mfrank.load({str(tmp_path / "m")!r}, mmap={mmap})
    except ValueError as error:
        refused += "checksum" in str(error)
cbm.write_bytes(whole.tobytes())
mfrank.load({str(tmp_path / "m")!r}, mmap={mmap})
print(refused)
"""
    ran = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "60\n"), ran.stderr


def test_a_store_of_trees_is_a_saved_model(reranker: Reranker) -> None:
    file = io.BytesIO()
    reranker.store.save(file)
    file.seek(0)
    assert type(mfrank.load(file)) is Reranker
