"""Values as weights of cells: what they mean, and the same at every door."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engines import Shuffled
from fits import als
from problems import gradient, stated_loss, toy

import mfrank
from mfrank.cli.main import main
from tests.support.errors import refuses

WEIGHTED = {
    "ials": mfrank.IALS(alpha0=0.2, regularization=0.1, weighted=True),
    "eals": mfrank.EALS(c0=3.0, exponent=0.5, regularization=0.1, weighted=True),
    "rg2": mfrank.RG2(alpha=0.3, regularization=0.1, weighted=True),
    "rgx": mfrank.RGX(alpha=0.3, regularization=0.1, weighted=True),
}
TO_ZERO = ["ials", "eals"]
"""Objectives whose dislikes have the target 0; those of others are pushed below the unknown."""
BOTH = mfrank.Interactions.from_pandas(
    mfrank.Interactions.from_sparse(toy(20, 15, values="dislikes")).to_pandas()
)
SMALL = {"factors": 3, "iterations": 3, "random_state": 0}


def data_of(name: str) -> mfrank.Interactions:
    """Values of both signs."""
    return BOTH


def model(name: str, **options: Any) -> mfrank.ALS:
    return mfrank.ALS(WEIGHTED[name], **SMALL, **options)


def on_disk(name: str, folder: Path) -> mfrank.ALS:
    data_of(name).to_pandas().to_csv(folder / "a.csv", index=False)
    mapped = mfrank.Interactions.ingest([folder / "a.csv"], folder / "data")
    return model(name).fit(mapped)


def on_a_cluster(name: str, _: Path) -> mfrank.ALS:
    return model(name).fit(data_of(name), cluster=Shuffled(2))


def by_command(name: str, folder: Path) -> mfrank.ALS:
    data_of(name).to_pandas().to_csv(folder / "a.csv", index=False)
    own = {"ials": ["--alpha0", "0.2"], "eals": ["--c0", "3", "--exponent", "0.5"]}
    options = own.get(name, ["--alpha", "0.3"])
    how = ["--factors", "3", "--iterations", "3", "--random-state", "0", "--regularization", "0.1"]
    line = ["fit", str(folder / "a.csv"), "--model", str(folder / "m"), "--objective", name]
    assert main([*line, "--weighted", *options, *how]) == 0
    return mfrank.load(folder / "m")


def saved(name: str, folder: Path) -> mfrank.ALS:
    model(name).fit(data_of(name)).save(folder / "m")
    loaded = mfrank.load(folder / "m")
    assert loaded.objective == WEIGHTED[name]
    return loaded


DOORS: dict[str, Callable[[str, Path], mfrank.ALS]] = {
    "disk": on_disk,
    "cluster": on_a_cluster,
    "command": by_command,
    "saved": saved,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", WEIGHTED)
def test_every_door_reads_the_same_weights(name: str, door: str, tmp_path: Path) -> None:
    found, plain = DOORS[door](name, tmp_path), model(name).fit(data_of(name))
    np.testing.assert_array_equal(found.item_factors, plain.item_factors)
    row = data_of(name).user_items[[3]]
    ids, values = BOTH.item_ids.raw(row.indices), row.data
    one, other = (each.recommend_from_items(ids, N=5, values=values) for each in (found, plain))
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.parametrize("name", WEIGHTED)
def test_ones_are_no_weights(name: str) -> None:
    ones = mfrank.Interactions.from_sparse(toy(20, 15, values="ones"))
    plain = replace(WEIGHTED[name], weighted=False)
    np.testing.assert_array_equal(
        model(name).fit(ones).item_factors, mfrank.ALS(plain, **SMALL).fit(ones).item_factors
    )


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_long_fit_ends_at_the_dense_minimum(name: str) -> None:
    dense = data_of(name).user_items.toarray().astype(np.float64)
    fitted = als(WEIGHTED[name], dtype="float64", iterations=500, solver="cholesky").fit(
        data_of(name)
    )
    loss, (p, q) = stated_loss(WEIGHTED[name], dense), (fitted.user_factors, fitted.item_factors)
    for side, along in ((p, lambda x: loss(x, q)), (q, lambda x: loss(p, x))):
        slope, at_zero = (gradient(along, at, h=0.1) for at in (side, np.zeros_like(side)))
        assert np.linalg.norm(slope) <= 1e-7 * np.linalg.norm(at_zero)


@pytest.mark.parametrize("name", TO_ZERO)
def test_a_heavier_dislike_brings_the_score_nearer_to_0(name: str) -> None:
    """Of the user folded in, whatever else they like: 0 is the target of all that is not liked."""
    fitted = model(name).fit(data_of(name))
    scores = []
    for weight in (2, -0.1, -1, -10):
        row = np.zeros((1, BOTH.n_items))
        row[0, :3] = 1, 1, weight
        factors = fitted.recalculate_user([BOTH.user_ids.raw([0])[0]], sp.csr_array(row))
        scores.append(abs(float(factors[0] @ fitted.item_factors[2])))
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)


@pytest.mark.parametrize("name", ["rg2", "rgx"])
def test_a_dislike_scores_below_the_unknown_and_a_heavier_one_lower(name: str) -> None:
    fitted = model(name).fit(data_of(name))
    scores = []
    for weight in (1.0, 0.0, -0.1, -1, -10):
        row = np.zeros((1, BOTH.n_items))
        row[0, :3] = 1, 1, weight
        factors = fitted.recalculate_user([BOTH.user_ids.raw([0])[0]], sp.csr_array(row))
        scores.append(float(factors[0] @ fitted.item_factors[2]))
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)


def test_an_objective_without_weights_names_those_that_have_them() -> None:
    for objective in (mfrank.RG2(), mfrank.RG2Sampled(), mfrank.IALS()):
        with refuses(ValueError, "user_items", remedy=r"IALS\(weighted=True\)"):
            mfrank.ALS(objective, factors=2).fit(BOTH)
