"""Cells that users know and that have no value: what drops them, and what keeps them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.data import FORMAT, Ids, aligned
from mfrank.files import Contents
from mfrank.files import folder as folders
from tests.support.errors import refuses

Pairs = set[tuple[Any, Any]]


def pairs(data: mfrank.Interactions | None) -> Pairs:
    """The cells by their ids."""
    if data is None:
        return set()
    ids = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    return set(zip(*(each.tolist() for each in ids), strict=True))


def only(data: mfrank.Interactions) -> Pairs:
    return pairs(data.seen_only)


def all_seen(data: mfrank.Interactions) -> Pairs:
    rows = data.seen.tocoo()
    ids = data.user_ids.raw(rows.coords[0]), data.item_ids.raw(rows.coords[1])
    return set(zip(*(each.tolist() for each in ids), strict=True))


def ratings(seed: int = 0, *, timed: bool = True) -> mfrank.Interactions:
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random((20, 15)) < 0.5)
    names = (np.array([f"{k}{n:02}" for n in s]) for k, s in zip("ui", cells.T, strict=True))
    times = rng.integers(0, 60, len(cells)) if timed else None
    return mfrank.Interactions.from_arrays(*names, rng.integers(1, 6, len(cells)), times)


@pytest.mark.parametrize("binary", [False, True])
def test_a_threshold_keeps_what_it_drops_as_seen(binary: bool) -> None:
    raw = ratings()
    data = raw.at_least(4, binary=binary)
    below = raw.take(raw.user_items.data < 4)
    assert only(data) == pairs(below)
    np.testing.assert_array_equal(data.seen_only.timestamps, below.timestamps)
    assert all_seen(data) == pairs(raw)
    assert data.nnz + data.seen_only.nnz == raw.nnz
    assert all_seen(data.at_least(5)) == pairs(raw)
    assert f"{below.nnz} more only seen" in repr(data)
    assert f"<td>{below.nnz}</td>" in data._repr_html_()
    for forgetful in (raw.at_least(4, keep_seen=False), replace(data, seen_only=None)):
        assert forgetful.seen_only is None
        assert forgetful.seen is forgetful.user_items


def test_the_seen_matrix_has_all_cells_and_the_values() -> None:
    data = ratings().at_least(3)
    values = data.seen.toarray()
    np.testing.assert_array_equal(values, data.user_items.toarray())
    assert data.seen.nnz == data.nnz + data.seen_only.nnz
    assert data.seen.has_canonical_format
    assert not data.seen.data.flags.writeable


def test_what_cancels_or_is_too_small_is_seen() -> None:
    users, items = ["a", "a", "a", "b", "b"], ["x", "y", "y", "x", "y"]
    data = mfrank.Interactions.from_arrays(users, items, [0, 1, -1, 1e-60, 2], [1, 2, 3, 4, 5])
    assert pairs(data) == {("b", "y")}
    assert only(data) == {("a", "x"), ("a", "y"), ("b", "x")}
    assert data.seen_only.timestamps.tolist() == [1, 3, 4]


def halved(data: mfrank.Interactions) -> mfrank.Interactions:
    for _ in range(200):
        data = data.weighted(np.where(np.arange(data.nnz) % 3, 1.0, 0.5))
    return data


STEPS: Mapping[str, Callable[[mfrank.Interactions], mfrank.Interactions]] = {
    "weighted to 0": lambda data: data.weighted(np.arange(data.nnz) % 2),
    "halved each day": halved,
    "log_weight": mfrank.log_weight,
    "recency_weight": lambda data: mfrank.recency_weight(data, 1e-2),
    "bm25_weight": mfrank.bm25_weight,
    "pickled": lambda data: pickle.loads(pickle.dumps(data)),
    "added to nothing": lambda data: data + data.take(np.zeros(data.nnz, bool)),
    "added to itself": lambda data: mfrank.Interactions.concat([data, data], duplicates="max"),
    "halves added": lambda data: mfrank.Interactions.concat(
        [data.take(np.arange(data.nnz) % 2 == part) for part in range(2)]
    ),
    "core": lambda data: data.k_core(1),
    "in other rows": lambda data: aligned(
        data,
        Ids.of([f"new{data.n_users}", *data.user_ids.labels[::-1]]),
        Ids.of([*data.item_ids.labels[::-1], f"new{data.n_items}"]),
        "data",
    ),
}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    names=st.lists(st.sampled_from(sorted(STEPS)), max_size=4),
    threshold=st.integers(1, 5),
)
def test_no_step_forgets_what_was_seen(seed: int, names: list[str], threshold: int) -> None:
    raw = ratings(seed)
    data = raw.at_least(threshold)
    for name in names:
        before = data
        data = STEPS[name](data)
        if name == "core":
            kept = set(data.user_ids.labels), set(data.item_ids.labels)
            assert all_seen(data) == {
                (u, i) for u, i in all_seen(before) if u in kept[0] and i in kept[1]
            }
        else:
            assert all_seen(data) == all_seen(before)
        assert not pairs(data) & only(data)
        if data.seen_only is not None:
            assert len(data.seen_only.timestamps) == data.seen_only.nnz


def test_take_is_a_choice_of_ones_own() -> None:
    data = ratings().at_least(4)
    half = data.take(np.arange(data.nnz) % 2 == 0)
    assert only(half) == only(data)
    assert len(all_seen(half)) < len(all_seen(data))


def test_a_value_in_one_part_is_a_value_of_the_whole() -> None:
    old = mfrank.Interactions.from_arrays(["a", "a", "b"], ["x", "y", "z"], [1, 2, 3]).at_least(3)
    new = mfrank.Interactions.from_arrays(["a", "c"], ["x", "y"], [5, 1]).at_least(3)
    both = old + new
    assert pairs(both) == {("b", "z"), ("a", "x")}
    assert only(both) == {("a", "y"), ("c", "y")}


def test_seen_only_must_fit() -> None:
    data = ratings().at_least(4)
    with refuses(ValueError, "seen_only"):
        replace(data, seen_only=ratings().k_core(5))
    with refuses(ValueError, "seen_only"):
        replace(data, seen_only=replace(data.seen_only, timestamps=None))
    with refuses(TypeError, "seen_only"):
        replace(data, seen_only=data.user_items)
    assert replace(data, timestamps=None).seen_only.timestamps is None
    assert data.seen_only.user_ids is data.user_ids


@pytest.mark.parametrize("others", [{"user_ids"}, {"item_ids"}, {"user_ids", "item_ids"}, set()])
def test_what_is_only_seen_has_the_ids_of_the_others_and_nothing_below(others: set[str]) -> None:
    data = ratings().at_least(4)
    own = {name: Ids.numbered(len(getattr(data, name))) for name in others}
    nested = replace(data.seen_only, **own, seen_only=replace(data, **own, seen_only=None))
    given = replace(data, seen_only=nested).seen_only
    assert given.seen_only is None
    assert (given.user_ids, given.item_ids) == (data.user_ids, data.item_ids)
    np.testing.assert_array_equal(given.timestamps, data.seen_only.timestamps)
    assert pairs(given) == only(data)


# splits

UNTIMED: Mapping[str, Callable[..., Any]] = {
    "by_ratio": lambda data, **more: mfrank.by_ratio(data, random_state=0, **more),
    "leave_k_out": lambda data, **more: mfrank.leave_k_out(data, 2, valid_k=1, **more),
}


@pytest.mark.parametrize("how", UNTIMED)
@pytest.mark.parametrize("on_disk", [False, True])
def test_random_splits_leave_it_to_the_training_part(
    tmp_path: Path, how: str, on_disk: bool
) -> None:
    data = ratings().at_least(4)
    split = UNTIMED[how](data, folder=tmp_path / "s" if on_disk else None)
    assert only(split.train) == only(data)
    assert split.valid.seen_only is split.test.seen_only is None
    np.testing.assert_array_equal(split.train.seen_only.timestamps, data.seen_only.timestamps)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_split_by_time_knows_nothing_of_later_times(tmp_path: Path, on_disk: bool) -> None:
    data = ratings().at_least(4)
    split = mfrank.by_time(data, valid=30, test=40, folder=tmp_path / "s" if on_disk else None)
    for part, (begin, end) in zip(
        (split.train, split.valid, split.test), ((0, 30), (30, 40), (40, 60)), strict=True
    ):
        times = data.seen_only.timestamps
        assert only(part) == pairs(data.seen_only.take((times >= begin) & (times < end)))
        assert part.seen_only.timestamps.min() >= begin


@pytest.mark.parametrize("on_disk", [False, True])
def test_leaving_out_the_last_knows_nothing_of_later_times(tmp_path: Path, on_disk: bool) -> None:
    data = ratings(3).at_least(3)
    split = mfrank.leave_last(data, 2, valid_k=1, folder=tmp_path / "s" if on_disk else None)
    first = np.full((3, data.n_users), 10**6)
    for number, part in enumerate((split.train, split.valid, split.test)):
        np.minimum.at(first[number], part.entry_users, part.timestamps)
    there = data.seen_only
    for number, part in enumerate((split.train, split.valid, split.test)):
        begin = first[number] if number else np.full(data.n_users, -1)
        end = first[number + 1 :].min(axis=0) if number < 2 else np.full(data.n_users, 10**6)
        times, users = there.timestamps, there.entry_users
        assert only(part) == pairs(there.take((times >= begin[users]) & (times < end[users])))
    assert only(split.train)
    assert only(split.test)


@pytest.mark.parametrize("on_disk", [False, True])
def test_held_out_users_are_folded_in_with_it(tmp_path: Path, on_disk: bool) -> None:
    data = ratings().at_least(4)
    split = mfrank.held_out_users(data, test=5, folder=tmp_path / "s" if on_disk else None)
    held_out = set(data.user_ids.raw(split.test.users))
    assert only(split.train) == {(u, i) for u, i in only(data) if u not in held_out}
    assert only(split.test.fold_in) == {(u, i) for u, i in only(data) if u in held_out}
    assert split.test.target.seen_only is None


@pytest.mark.parametrize("on_disk", [False, True])
def test_sessions_are_folded_in_with_what_came_before_their_target(
    tmp_path: Path, on_disk: bool
) -> None:
    data = ratings(2).at_least(3)
    split = mfrank.by_session(data, test=0.4, last=2, folder=tmp_path / "s" if on_disk else None)
    target = split.test.target
    since = np.full(data.n_users, 10**6)
    np.minimum.at(since, target.entry_users, target.timestamps)
    there, among = data.seen_only, np.isin(data.seen_only.entry_users, split.test.users)
    early = there.timestamps < since[there.entry_users]
    assert only(split.train) == pairs(there.take(~among))
    assert only(split.test.fold_in) == pairs(there.take(among & early))
    assert only(target) == pairs(there.take(among & ~early))
    assert only(target)


# folders


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("verify", [False, True])
def test_folders_keep_it(tmp_path: Path, timed: bool, verify: bool) -> None:
    data = ratings(timed=timed).at_least(4)
    again = mfrank.Interactions.open(data.to_folder(tmp_path / "f"), verify=verify)
    assert only(again) == only(data)
    assert all_seen(again) == all_seen(data)
    if timed:
        np.testing.assert_array_equal(again.seen_only.timestamps, data.seen_only.timestamps)
    assert version(tmp_path / "f") == 2


def version(folder: Path) -> int:
    return int(json.loads((folder / "manifest.json").read_text())["version"])


def test_folders_without_it_are_those_of_earlier_versions(tmp_path: Path) -> None:
    raw = ratings()
    raw.to_folder(tmp_path / "f")
    assert version(tmp_path / "f") == 1
    raw.at_least(4).to_folder(tmp_path / "f")  # over an earlier one
    raw.to_folder(tmp_path / "f", overwrite=True)  # and back
    assert mfrank.Interactions.open(tmp_path / "f").seen_only is None


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("seen_only.indices", lambda array: array + 100, "seen_only"),
        ("seen_only.indptr", lambda array: array[:-1], "seen_only"),
        ("seen_only.timestamps", lambda array: array[:-1], "one for each cell"),
        ("summed.places", lambda array: array + 10**6, "must ascend among the entries"),
        ("summed.largest", lambda array: array[:-1], "one for each"),
    ],
)
def test_damaged_folders_are_refused(
    tmp_path: Path, name: str, change: Callable[[Any], Any], message: str
) -> None:
    twice = mfrank.Interactions.concat([ratings(), ratings()])
    arrays = dict(folders.read(twice.at_least(5).to_folder(tmp_path / "f"), FORMAT).arrays)
    arrays[name] = change(arrays[name])
    folders.write(tmp_path / "f", Contents(arrays, {}), FORMAT)
    with pytest.raises(ValueError, match=f"damaged: .*{message}"):
        mfrank.Interactions.open(tmp_path / "f")
