"""Test entries that a model was fitted to are told, by every door; honest evaluations are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mfrank
from mfrank.cli.main import main

_DATA = mfrank.synthetic(80, 60, 1500, random_state=0)
_SPLIT = mfrank.by_ratio(_DATA, test=0.2, random_state=0)
_N_TEST = _SPLIT.test.nnz

MODELS: dict[str, Callable[[], Any]] = {
    "ALS": lambda: mfrank.ALS(factors=4, random_state=0),
    "Descent": lambda: mfrank.Descent(factors=4, iterations=1, random_state=0),
    "EASE": mfrank.EASE,
    "Popularity": mfrank.Popularity,
}


@pytest.fixture(autouse=True)
def _noted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "mfrank")


@pytest.mark.parametrize("as_matrix", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_entries_of_the_fit_that_train_lacks_are_counted(
    kind: str, as_matrix: bool, caplog: pytest.LogCaptureFixture
) -> None:
    train: Any = _SPLIT.train.user_items if as_matrix else _SPLIT.train
    mfrank.evaluate(MODELS[kind]().fit(_SPLIT.train), _SPLIT.test, train=train)
    assert "fitted to" not in caplog.text
    mfrank.evaluate(MODELS[kind]().fit(_DATA), _SPLIT.test, train=train)
    assert f"{_N_TEST} of {_N_TEST} test entries are in the data" in caplog.text


def test_only_the_entries_of_the_users_who_are_judged_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = MODELS["ALS"]().fit(_SPLIT.train)
    some = _some(_SPLIT.test, lambda at: at < 7)
    model.partial_fit(some)
    mfrank.evaluate(model, _SPLIT.test, train=_SPLIT.train)
    assert f"7 of {_N_TEST} test entries are in the data" in caplog.text
    caplog.clear()
    others = [user for user, n in enumerate(some.counts.users) if not n]
    mfrank.evaluate(model, _SPLIT.test, train=_SPLIT.train, users=others)
    assert not caplog.text


@pytest.mark.parametrize("as_matrix", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_a_train_that_lacks_much_of_the_fit_is_told(
    kind: str, as_matrix: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What it lacks is ranked, and no test entry."""
    model, train = MODELS[kind]().fit(_SPLIT.train), _SPLIT.train
    for one_in, told in ((2, True), (20, False)):
        caplog.clear()
        part: Any = _some(train, lambda at, every=one_in: at % every > 0)
        mfrank.evaluate(model, _SPLIT.test, train=part.user_items if as_matrix else part)
        assert ("as if they were new" in caplog.text) == told
    caplog.clear()
    mfrank.evaluate(model, _SPLIT.test, train=_DATA.user_items if as_matrix else _DATA)
    mfrank.evaluate(model, _SPLIT.test)
    assert "as if they were new" not in caplog.text


def test_only_what_users_who_are_judged_lack_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    model, n_users = MODELS["EASE"]().fit(_SPLIT.train), _DATA.n_users // 2
    part = _SPLIT.train.take(_SPLIT.train.entry_users < n_users)
    mfrank.evaluate(model, _SPLIT.test, train=part, users=range(n_users))
    assert not caplog.text
    mfrank.evaluate(model, _SPLIT.test, train=part)
    judged = _SPLIT.test.counts.users > 0
    had = _SPLIT.train.counts.users * judged
    assert f"lacks {had[n_users:].sum():,} of the {had.sum():,} entries" in caplog.text


def test_sessions_may_go_on_from_their_last_part(caplog: pytest.LogCaptureFixture) -> None:
    split = mfrank.held_out_users(_DATA, test=0.4, random_state=0)
    seen = _some(split.test.fold_in, lambda at: at % 4 == 0)
    model = MODELS["EASE"]().fit(split.train + split.test.fold_in)
    mfrank.evaluate(model, replace(split.test, fold_in=seen))
    assert not caplog.text


def test_held_out_users_whose_target_was_learned_are_told(caplog: pytest.LogCaptureFixture) -> None:
    split = mfrank.held_out_users(_DATA, test=0.2, random_state=0)
    mfrank.evaluate(MODELS["EASE"]().fit(split.train), split.test)
    assert "fitted to" not in caplog.text
    n = split.test.target.nnz
    mfrank.evaluate(MODELS["EASE"]().fit(_DATA), split.test)
    assert f"{n} of {n} test entries are in the data" in caplog.text


def test_a_test_part_that_lies_in_the_fit_is_told_where_seen_items_are_ranked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = MODELS["ALS"]().fit(_SPLIT.train)
    for honest in (_SPLIT.test, _DATA):  # what users have again is often a part of the test
        mfrank.evaluate(model, honest, filter_already_liked_items=False)
    assert not caplog.text
    mfrank.evaluate(model, _SPLIT.train, filter_already_liked_items=False)
    assert "all test entries are in the data that the model was fitted to" in caplog.text


def test_items_that_return_by_the_callers_word_are_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bought = _some(_DATA, lambda at: at % 3 == 0)
    known = _some(_DATA, lambda at: at % 3 > 0)
    model = MODELS["EASE"]().fit(_DATA).leave_out(known)
    mfrank.evaluate(model, bought)
    mfrank.evaluate(model, bought, train=known)
    models = {"EASE": mfrank.EASE()}
    mfrank.compare(_DATA, bought, models=models, left_out=known, repeats=1, peak_memory=False)
    assert "fitted to" not in caplog.text


def test_entries_that_are_only_seen_are_not_learned(caplog: pytest.LogCaptureFixture) -> None:
    rated = mfrank.Interactions.from_arrays(*_cells(), [at % 5 + 1 for at in range(_DATA.nnz)])
    liked = rated.at_least(4)
    low = _some(rated, lambda at: at % 5 == 0)
    model = mfrank.EASE().fit(liked)
    mfrank.evaluate(model, low.at_least(0), train=liked)
    assert "fitted to" not in caplog.text


def test_the_command_line_tells(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, part in (("all", _DATA), ("train", _SPLIT.train), ("test", _SPLIT.test)):
        part.to_pandas().to_csv(tmp_path / f"{name}.csv", index=False)
    model, test, train = (str(tmp_path / name) for name in ("model", "test.csv", "train.csv"))
    assert main(["fit", str(tmp_path / "all.csv"), "--model", model, "--factors", "4"]) == 0
    capfd.readouterr()
    assert main(["evaluate", "--model", model, "--test", test, "--train", train]) == 0
    assert "and not in --train: it has learned them" in capfd.readouterr().err
    _some(_SPLIT.train, lambda at: at % 2 > 0).to_pandas().to_csv(train, index=False)
    assert main(["evaluate", "--model", model, "--test", test, "--train", train]) == 0
    assert "--train lacks" in capfd.readouterr().err


def test_a_comparison_counts_what_its_training_data_have() -> None:
    models = {"Popularity": mfrank.Popularity()}
    options: dict[str, Any] = {"models": models, "repeats": 1, "peak_memory": False}
    found = mfrank.compare(_SPLIT.train, _DATA, **options)
    assert f"{_SPLIT.train.nnz:,} test entries left out: in the training data too" in str(found)
    assert "left out: in the training data" not in str(mfrank.compare(_SPLIT, **options))


def _cells() -> tuple[Any, Any]:
    rows = _DATA.user_items.tocoo()
    return _DATA.user_ids.labels[rows.row], _DATA.item_ids.labels[rows.col]


def _some(data: mfrank.Interactions, chosen: Callable[[int], bool]) -> mfrank.Interactions:
    return data.take([chosen(at) for at in range(data.nnz)])
