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
    for name, message in (
        ("file", "is a file; pass the folder"),
        ("empty", r"does not hold 'mfrank\.reranker': no 'second' in it"),
        ("model", r"mfrank\.load"),
    ):
        with pytest.raises(ValueError, match=message):
            Reranker.load(tmp_path / name)
    with pytest.raises(ValueError, match="it is a file; name a folder"):
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
    with pytest.raises(ValueError, match="checksum"):
        Reranker.load(folder, verify=True)


@pytest.mark.parametrize(
    ("metadata", "arrays", "message"),
    [
        ({"more": 1}, {}, "unknown keys: 'more'"),
        ({"options": []}, {}, "options and found must be JSON objects"),
        ({"found": 3}, {}, "options and found must be JSON objects"),
        ({"first": "elsewhere"}, {}, "as its first stage"),
        ({"first": "first-0123456789abcdef"}, {}, "first-0123456789abcdef is missing"),
        ({}, {"more": np.zeros(2)}, "unknown keys: 'more'"),
        ({}, {"cbm": np.zeros(9)}, "trees must be a 1-D array of uint8"),
        ({}, {"cbm": np.zeros((3, 3), np.uint8)}, "trees must be a 1-D array of uint8"),
        ({}, {"cbm": np.zeros(9, np.uint8)}, "CatBoost cannot read the trees"),
        ({}, {"user_features": np.zeros((3, 1), np.float32)}, "must have a row for each"),
    ],
)
def test_other_contents_are_damage(
    tmp_path: Path,
    reranker: Reranker,
    metadata: dict[str, Any],
    arrays: dict[str, Any],
    message: str,
) -> None:
    folder = reranker.save(tmp_path / "two")
    whole = read(folder / "second", saving.FORMAT)
    changed = replace(
        whole, arrays={**whole.arrays, **arrays}, metadata={**whole.metadata, **metadata}
    )
    write(folder / "second", changed, saving.FORMAT)
    with pytest.raises(ValueError, match=message):
        Reranker.load(folder)


def test_damage_of_the_first_stage_is_told_as_it_is(tmp_path: Path, reranker: Reranker) -> None:
    folder = reranker.save(tmp_path / "two")
    (next(folder.glob("first-*")) / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match=r"manifest\.json"):
        Reranker.load(folder)
