"""``mfrank fit --hold-out`` fits twice: for the number of epochs, then to all interactions."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.data import by_ratio, write_table

FIT = ["fit", "train.csv", "--model", "m", "--factors", "4", "--random-state", "3"]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mfrank.Interactions:
    """The interactions of the file train.csv in the current folder."""
    monkeypatch.chdir(tmp_path)
    made = mfrank.synthetic(60, 40, 900, names=True, random_state=2)
    columns = {
        "user": made.user_ids.raw(made.entry_users),
        "item": made.item_ids.raw(made.user_items.indices),
        "rating": 1 + np.arange(made.nnz) % 5,
    }
    write_table(tmp_path / "train.csv", columns)
    return mfrank.Interactions.from_file("train.csv")


def test_the_model_has_the_epochs_that_rank_held_out_interactions_best(
    data: mfrank.Interactions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FIT, "--iterations", "9", "--hold-out", "0.2"]) == 0
    told = capsys.readouterr()
    saved = mfrank.load("m")
    assert isinstance(saved, mfrank.ALS)
    split = by_ratio(data, train=0.8, valid=0.2, test=0.0, random_state=3)
    best = mfrank.ALS(factors=4, iterations=9, random_state=3)
    best.fit(split.train, stopping=mfrank.EarlyStopping(split.valid))
    values: list[Any] = [epoch["valid"] for epoch in best.store.history]
    assert saved.iterations == values.index(max(values)) + 1
    assert f"ranked best after {saved.iterations} epoch" in told.out
    assert f": NDCG@10 {' '.join(f'{value:.4f}' for value in values)}\n" in told.out
    whole = mfrank.ALS(factors=4, iterations=saved.iterations, random_state=3).fit(data)
    np.testing.assert_array_equal(saved.item_factors, whole.item_factors)
    assert told.err.count("does not read values") == 1  # though there are two fits


def test_both_fits_are_given_what_the_line_says(
    data: mfrank.Interactions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of epochs that rank equally well the first is the best, also after one that finds nothing."""
    fits: list[tuple[mfrank.Interactions, dict[str, Any]]] = []
    history = [{"valid": value} for value in (0.0, 0.25, 0.25)]
    real = mfrank.ALS.fit
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.MonkeyPatch.context() as patch:

        def fit(self: Any, data: Any, **given: Any) -> Any:
            fits.append((data, given))
            if len(fits) == 1:
                patch.setattr(mfrank.ALS, "store", SimpleNamespace(history=history))
                return self
            patch.undo()
            return real(self, data)

        patch.setattr(mfrank.ALS, "fit", fit)
        files = ["--user-features", "u.csv", "--item-features", "i.csv", "--cluster", "2"]
        assert main([*FIT, "--hold-out", "0.25", "--checkpoint", "c", *files]) == 0
    assert "ranked best after 2 epochs: NDCG@10 0.0000 0.2500 0.2500\n" in capsys.readouterr().out
    (first, given), (second, more) = fits
    split = by_ratio(data, train=0.75, valid=0.25, test=0.0, random_state=3)
    assert (first.user_items != split.train.user_items).nnz == 0
    assert (given.pop("stopping").valid.user_items != split.valid.user_items).nnz == 0
    assert (second.user_items != data.user_items).nnz == 0
    assert given.pop("checkpoint") is None
    assert given == {
        "show_progress": True,
        "cluster": 2,
        "user_features": "u.csv",
        "item_features": "i.csv",
    }
    assert more == {**given, "checkpoint": "c"}
