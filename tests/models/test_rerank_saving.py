"""The folder of a Reranker: what is in it, what may be missing, and what is damage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fits import als
from rerankers import CATBOOST, N_USERS, random_split, small

from mfrank.files import read, write
from mfrank.models import Reranker
from mfrank.models.reranker import saving
from tests.support.errors import refuses


@pytest.fixture(scope="module")
def reranker() -> Reranker:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    features = np.arange(N_USERS)[:, None]
    return small(als().fit(split.train)).fit(split.train, split.valid, user_features=features)


def test_it_is_saved_where_nothing_is_with_or_without_what_was_seen(
    tmp_path: Path, reranker: Reranker
) -> None:
    for with_seen in (True, False):
        folder = tmp_path / "deep" / str(with_seen)
        assert reranker.save(folder, with_seen=with_seen) == folder
        assert (Reranker.load(folder).seen is not None) == with_seen


def test_what_is_no_folder_of_a_reranker_is_refused_by_name(
    tmp_path: Path, reranker: Reranker
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    reranker.model.save(tmp_path / "model")
    for name, fault in (
        ("file", {"place": "file", "remedy": "pass the folder"}),
        ("empty", {"place": "empty"}),
        ("model", {"place": "model", "remedy": r"mfrank\.load reads"}),
    ):
        with refuses(ValueError, **fault):
            Reranker.load(tmp_path / name)
    with refuses(ValueError, place="file", remedy="name a folder"):
        reranker.save(tmp_path / "file")


def test_features_whose_bytes_changed_are_told_by_verify(
    tmp_path: Path, reranker: Reranker
) -> None:
    folder = reranker.save(tmp_path / "two")
    file = next((folder / "second").glob("data-*/user_features.npy"))
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    assert Reranker.load(folder).found == reranker.found
    with refuses(ValueError, place="user_features.npy", remedy="restore it"):
        Reranker.load(folder, verify=True)


@pytest.mark.parametrize(
    ("metadata", "arrays", "fault"),
    [
        ({"more": 1}, {}, {"place": "two", "remedy": "restore it"}),
        ({"options": []}, {}, {"place": "two", "remedy": "restore it"}),
        ({"found": 3}, {}, {"place": "two", "remedy": "restore it"}),
        ({"first": "elsewhere"}, {}, {"place": "two", "remedy": "restore it"}),
        ({"first": "first-0123456789abcdef"}, {}, {"place": "two", "remedy": "restore it"}),
        ({}, {"more": np.zeros(2)}, {"place": "two", "remedy": "restore it"}),
        ({}, {"cbm": np.zeros(9)}, {"argument": "trees", "remedy": "restore it"}),
        ({}, {"cbm": np.zeros((3, 3), np.uint8)}, {"argument": "trees", "remedy": "restore it"}),
        ({}, {"cbm": np.zeros(9, np.uint8)}, {"place": "two", "remedy": "restore it"}),
        (
            {},
            {"user_features": np.zeros((3, 1), np.float32)},
            {"argument": "user_features", "remedy": "restore it"},
        ),
    ],
)
def test_other_contents_are_damage(
    tmp_path: Path,
    reranker: Reranker,
    metadata: dict[str, Any],
    arrays: dict[str, Any],
    fault: dict[str, str],
) -> None:
    folder = reranker.save(tmp_path / "two")
    whole = read(folder / "second", saving.FORMAT)
    changed = replace(
        whole, arrays={**whole.arrays, **arrays}, metadata={**whole.metadata, **metadata}
    )
    write(folder / "second", changed, saving.FORMAT)
    with refuses(ValueError, **fault):
        Reranker.load(folder)


def test_damage_of_the_first_stage_is_told_as_it_is(tmp_path: Path, reranker: Reranker) -> None:
    folder = reranker.save(tmp_path / "two")
    (next(folder.glob("first-*")) / "manifest.json").write_text("{")
    with refuses(ValueError, place="manifest.json", remedy="restore it"):
        Reranker.load(folder)
