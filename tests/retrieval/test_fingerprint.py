"""Fingerprints tell apart what would give other lists, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank.data import Ids
from mfrank.retrieval import fingerprint

CELLS = [0, 0, 1, 2], [1, 2, 0, 1]


def matrix(values: Any = (1.0, 2.0, 3.0, 4.0), cells: Any = CELLS) -> sp.csr_array:
    return sp.csr_array((values, cells), (3, 3))


def pairs(users: str = "abc", items: str = "xyz", cells: Any = CELLS) -> mfrank.Interactions:
    return mfrank.Interactions.from_sparse(
        matrix(cells=cells), user_ids=list(users), item_ids=list(items)
    )


MOVED = [0, 0, 1, 2], [1, 2, 0, 2]
FILTERS = {
    "a matrix": matrix(),
    "other cells": matrix(cells=MOVED),
    "interactions": pairs(),
    "other users": pairs(users="abd"),
    "other items": pairs(items="xyw"),
    "interactions in other cells": pairs(cells=MOVED),
    "items": ["x", "y"],
    "fewer items": ["x"],
    "items in another order": ["y", "x"],
    "numbers": [1, 2],
    "numbers as text": ["1", "2"],
    "numbers and text": [1, "x"],
    "numbers as text, and text": ["1", "x"],
    "items of each user": [["x"], ["y"]],
    "items of the first user": [["x", "y"], []],
    "items of the second user": [[], ["x", "y"]],
}


def test_every_filter_has_its_own() -> None:
    found = {name: fingerprint.of_filter(given) for name, given in FILTERS.items()}
    assert len(set(found.values())) == len(FILTERS)
    assert fingerprint.of_filter(None) is None
    for name, given in FILTERS.items():
        assert fingerprint.of_filter(given) == found[name]


@pytest.mark.parametrize("with_values", [False, True])
def test_values_count_where_they_are_asked_for(with_values: bool) -> None:
    one, other = (
        fingerprint.of_filter(matrix(values), with_values=with_values)
        for values in ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 5.0])
    )
    assert (one != other) == with_values


def test_the_width_of_numbers_does_not_count() -> None:
    wide = matrix()
    wide.indptr, wide.indices = wide.indptr.astype(np.int64), wide.indices.astype(np.int64)
    assert fingerprint.of_filter(wide) == fingerprint.of_filter(matrix())
    assert fingerprint.of_filter(np.array(["x", "y"])) == fingerprint.of_filter(["x", "y"])


def test_ids_are_told_apart() -> None:
    sides = [Ids.of(each) for each in (["a", "b"], ["a", "c"], ["b", "a"], [1, 2], ["1", "2"])]
    sides += [Ids.numbered(2), Ids.numbered(3)]
    assert len({fingerprint.of_ids(each) for each in sides}) == len(sides)
    one, other = sides[:2]
    assert fingerprint.of_ids(one, other) != fingerprint.of_ids(other, one)
