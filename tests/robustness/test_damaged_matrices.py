"""Every door for sparse matrices refuses those whose arrays do not fit, and no process dies of one.

scipy's own check passes some of these; its routines then crash on them, so the doors are tried in a
process of their own.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from children import PATHS
from fits import als

import mfrank
from mfrank.arrays import checked, checked_rows
from mfrank.data import Ids
from mfrank.pagerank import RandomWalk
from tests.support.errors import refuses

SIZE = 12  # users and items


def whole(format: str = "csr") -> Any:
    kept = np.random.default_rng(0).random((SIZE, SIZE)) < 0.5
    return sp.csr_array(kept.astype(np.float32)).asformat(format)


def _set(part: str, place: Any, value: Any) -> Callable[[Any], None]:
    def damage(matrix: Any) -> None:
        getattr(matrix, part)[place] = value

    return damage


def _cut(part: str) -> Callable[[Any], None]:
    return lambda matrix: setattr(matrix, part, getattr(matrix, part)[:-1])


def _rise_and_fall(matrix: Any) -> None:
    """A row that has more entries than there are, and then none: scipy's check passes it."""
    matrix.indptr[1] = 2**31 - 1


def _empty_but_rising(matrix: Any) -> None:
    matrix.data, matrix.indices = matrix.data[:0], matrix.indices[:0]
    matrix.indptr[:] = 0
    matrix.indptr[1] = 2**31 - 1


def _in_halves(matrix: Any) -> None:
    """Rows that are no whole numbers: scipy makes none such, but whoever sets them may."""
    matrix.coords = matrix.coords[0].astype(float), matrix.coords[1]


def _long_row(matrix: Any) -> None:
    matrix.data[0] = list(matrix.data[0]) + [1.0] * 100_000


DAMAGE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "rises and comes back": ("csr", _rise_and_fall),
    "rises without entries": ("csr", _empty_but_rising),
    "falls": ("csr", _set("indptr", 5, 0)),
    "begins below 0": ("csr", _set("indptr", 0, -5)),
    "ends beyond": ("csr", _set("indptr", -1, 10**6)),
    "column beyond": ("csr", _set("indices", 3, 10**8)),
    "column below 0": ("csr", _set("indices", 3, -(10**8))),
    "too few columns": ("csr", _cut("indices")),
    "too few values": ("csr", _cut("data")),
    "too few offsets": ("csr", _cut("indptr")),
    "columns: rises and comes back": ("csc", _rise_and_fall),
    "columns: row beyond": ("csc", _set("indices", 3, 10**8)),
    "columns: too few values": ("csc", _cut("data")),
    "blocks: rises and comes back": ("bsr", _rise_and_fall),
    "blocks: too few": ("bsr", _cut("data")),
    "triples: row beyond": ("coo", lambda m: m.coords[0].__setitem__(0, 10**8)),
    "triples: row just beyond": ("coo", lambda m: m.coords[0].__setitem__(0, SIZE)),
    "triples: column below 0": ("coo", lambda m: m.coords[1].__setitem__(0, -1)),
    "triples: rows that are no whole numbers": ("coo", _in_halves),
    "triples: too few values": ("coo", _cut("data")),
    "lists: too many values": ("lil", _long_row),
    "diagonals: too few offsets": ("dia", _cut("offsets")),
}


def damaged(kind: str) -> Any:
    format, damage = DAMAGE[kind]
    matrix = whole(format)
    damage(matrix)
    return matrix


def _fitted() -> mfrank.ALS:
    return als().fit(whole())


def _walk() -> mfrank.SupervisedPageRank:
    model = mfrank.SupervisedPageRank(method=None)
    timed = mfrank.Interactions.from_arrays(*whole().nonzero(), None, np.arange(whole().nnz))
    return model.fit(timed)


EVERYONE = range(SIZE)
SOME = [3, 4]
DOORS: dict[str, Callable[[Any], Any]] = {
    "Interactions": lambda m: mfrank.Interactions(m, ids := Ids.numbered(SIZE), ids),
    "Interactions.of": mfrank.Interactions.of,
    "ALS.fit": lambda m: als().fit(m),
    "Descent.fit": lambda m: mfrank.Descent(factors=4, iterations=1).fit(m),
    "EarlyStopping": lambda m: als().fit(whole(), stopping=mfrank.EarlyStopping(m)),
    "recommend all": lambda m: _fitted().recommend(EVERYONE, m),
    "recommend some": lambda m: _fitted().recommend([*SOME, 0], m),
    "filter_items": lambda m: _fitted().recommend(EVERYONE, whole(), filter_items=m),
    "filter_items, some": lambda m: _fitted().recommend([0, 1, 2], whole(), filter_items=m),
    "items": lambda m: _fitted().recommend(EVERYONE, whole(), items=m),
    "recommend_users": lambda m: _fitted().recommend_users(EVERYONE, m),
    "users": lambda m: _fitted().recommend_users(EVERYONE, users=m),
    "similar_items": lambda m: _fitted().similar_items(EVERYONE, filter_items=m),
    "recalculate_user": lambda m: _fitted().recalculate_user(EVERYONE, m),
    "recalculate_item": lambda m: _fitted().recalculate_item(EVERYONE, m),
    "partial_fit_users": lambda m: _fitted().partial_fit_users(EVERYONE, m),
    "explain": lambda m: _fitted().explain(0, m, 1),
    "evaluate test": lambda m: mfrank.evaluate(_fitted(), m, train=whole()),
    "evaluate train": lambda m: mfrank.evaluate(_fitted(), whole(), train=m),
    "compare": lambda m: mfrank.compare(m, whole(), models={"one": als()}, peak_memory=False),
    "walk.recommend": lambda m: _walk().recommend(EVERYONE, m, recalculate_user=True),
    "ItemKNN.fit": lambda m: mfrank.ItemKNN().fit(m),
    "ItemKNN.recommend": lambda m: (
        mfrank.ItemKNN().fit(whole()).recommend(EVERYONE, m, recalculate_user=True)
    ),
    "RandomWalk": RandomWalk.of,
}


def _try_all() -> None:
    """Print each door and damage before it is tried: the last line is what the process died of."""
    for door, kind in itertools.product(DOORS, DAMAGE):
        print(f"{door}: {kind}", flush=True)
        try:
            DOORS[door](damaged(kind))
        except (ValueError, TypeError):
            continue
        # Rows that are asked for may be sound where others are not.
        assert door in ("recommend some", "filter_items, some", "explain")


def test_no_door_lets_a_damaged_matrix_in() -> None:
    tried = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(PATHS)},
        capture_output=True,
        text=True,
    )
    last = tried.stdout.splitlines()[-1:]
    assert (tried.returncode, tried.stderr) == (0, ""), last
    assert len(tried.stdout.splitlines()) == len(DOORS) * len(DAMAGE)


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_damaged_is_named(kind: str) -> None:
    for door in (checked, checked_rows):
        with pytest.raises(ValueError, match=r"^the matrix( is damaged|\.)"):
            door(damaged(kind), "the matrix")


@pytest.mark.parametrize("door", [checked, lambda m, name: checked_rows(m, name, np.arange(1))])
def test_what_is_no_matrix_is_refused_by_name(door: Callable[[Any, str], Any]) -> None:
    with refuses(TypeError, "m"):
        door([[1.0]], "m")
    with refuses(TypeError, "m"):
        door(np.eye(3), "m")
    with refuses(ValueError, "m"):
        door(sp.coo_array(np.ones(3)), "m")


def test_blocks_may_be_of_any_shape() -> None:
    matrix = sp.csr_array(np.arange(24.0).reshape(4, 6)).tobsr((2, 3))
    np.testing.assert_array_equal(checked(matrix, "m").toarray(), matrix.toarray())
    matrix.indices[-1] = 2
    with refuses(ValueError, "m"):
        checked(matrix, "m")


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_sound_matrices_of_any_format_pass(format: str, make: Any) -> None:
    matrix = make(whole()).asformat(format)
    before = matrix.toarray()
    for rows in (None, np.array([7, 2, 2, 11]), np.arange(0)):
        found = checked_rows(matrix, "m", rows)
        expected = before if rows is None else before[rows]
        np.testing.assert_array_equal(found.toarray(), expected)
    np.testing.assert_array_equal(checked(matrix, "m").toarray(), before)
    np.testing.assert_array_equal(matrix.toarray(), before)


if __name__ == "__main__":
    _try_all()
