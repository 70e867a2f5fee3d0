"""What a folder of interactions stores, and which contents of one are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfrank import Interactions, by_ratio
from mfrank.data import FORMAT, holds_interactions, interaction_folder
from mfrank.files import Contents
from mfrank.files import folder as folders
from mfrank.store import is_mapped
from tests.support.errors import refuses


def made(**more: Any) -> Interactions:
    return Interactions.from_arrays(
        ["a", "a", "b", "c"], [5, 7, 7, 9], [3, 1, 4, 2], [10, 20, 30, 40], **more
    )


STORED: dict[str, Callable[[], Interactions]] = {
    "plain": made,
    "threshold": lambda: made().at_least(2),
    "weights": lambda: made().weighted([2, 2, 1, 1]),
    "repeats": lambda: Interactions.from_arrays([0, 0, 1], [0, 0, 1]),
    "summed": lambda: made() + made(),
    "float64": lambda: Interactions.from_sparse(made().user_items.astype(np.float64)),
    "numbered": lambda: Interactions.from_arrays([0, 1], [1, 0], shape=(3, 2)),
}


@pytest.mark.parametrize("name", STORED)
def test_all_that_is_known_of_cells_is_stored(tmp_path: Path, name: str) -> None:
    data = STORED[name]()
    again = Interactions.open(data.to_folder(tmp_path / "f"))
    assert again.threshold == data.threshold
    assert again.cells.values_from == data.cells.values_from
    assert again.largest.tolist() == data.largest.tolist()
    assert (again.user_ids, again.item_ids) == (data.user_ids, data.item_ids)
    for one, other in ((again, data), (again.seen_only, data.seen_only)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.user_items != other.user_items).nnz == 0
            assert one.user_items.dtype == other.user_items.dtype
            np.testing.assert_array_equal(one.timestamps, other.timestamps)
    stored = folders.read(tmp_path / "f", FORMAT)
    more = {"threshold": data.threshold, "values_from": data.cells.values_from}
    usual = {"threshold": None, "values_from": "given"}
    assert {key: value for key, value in stored.metadata.items() if key in more} == {
        key: value for key, value in more.items() if value != usual[key]
    }
    assert any(key.startswith("user_ids.") for key in stored.arrays) == (
        data.user_ids.table is not None
    )


def test_a_split_into_folders_keeps_it_too(tmp_path: Path) -> None:
    data = made().at_least(2)
    split = by_ratio(data, random_state=0, folder=tmp_path / "s")
    assert [part.threshold for part in (split.train, split.test)] == [2, 2]
    assert split.train.cells.values_from == "threshold"
    assert split.train.user_ids == data.user_ids
    arrays = folders.read(made().to_folder(tmp_path / "f"), FORMAT).arrays
    interaction_folder.write_arrays(arrays, data.user_ids, data.item_ids, tmp_path / "g")
    opened = Interactions.open(tmp_path / "g")
    assert (opened.threshold, opened.cells.values_from) == (None, "given")
    assert opened.user_ids == data.user_ids


def test_what_a_folder_holds_is_known_before_it_is_opened(tmp_path: Path) -> None:
    made().to_folder(tmp_path / "f")
    assert holds_interactions(tmp_path / "f") is True
    assert holds_interactions(tmp_path / "none") is False
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "notes.txt").write_text("mine")
    assert holds_interactions(tmp_path / "g") is False
    interaction_folder.check_takes(tmp_path / "f")
    interaction_folder.check_takes(tmp_path / "none")
    with refuses(ValueError, place="g", remedy="pass a new or an empty folder"):
        interaction_folder.check_takes(tmp_path / "g")


def test_a_folder_that_others_changed_is_not_replaced(tmp_path: Path) -> None:
    made().to_folder(tmp_path / "f")
    opened = Interactions.open(tmp_path / "f")
    (made() + made()).to_folder(tmp_path / "f", overwrite=True)
    with refuses(ValueError, "overwrite", remedy="overwrite"):
        interaction_folder.write(opened, tmp_path / "f")
    interaction_folder.write(opened, tmp_path / "f", overwrite=True)
    assert Interactions.open(tmp_path / "f").user_items.data.tolist() == [3, 1, 4, 2]


def test_opened_arrays_are_mapped_and_what_was_counted_is_known(tmp_path: Path) -> None:
    opened = Interactions.open(made().at_least(2).to_folder(tmp_path / "f"))
    only = opened.seen_only
    arrays = [opened.user_items.data, opened.item_users.indices, opened.timestamps, only.timestamps]
    assert all(map(is_mapped, arrays))
    assert opened.counts.users.tolist() == [1, 1, 1]
    assert opened.counts.items.tolist() == [1, 1, 1]
    assert not opened.counts.users.flags.writeable


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    def work(arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
        arrays[name] = change(arrays[name])

    return work


def without(name: str) -> Callable[[Any, Any], None]:
    return lambda arrays, metadata: arrays.pop(name)


DAMAGED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "another array": (lambda arrays, _: arrays.update(more=np.zeros(1)), "more"),
    "no values": (without("user_items.values"), "user_items.*values"),
    "no columns": (without("item_users.indices"), "item_users.*indices"),
    "threshold": (
        lambda _, metadata: metadata.update(threshold="3"),
        "threshold must be a number, got '3'",
    ),
    "values_from": (lambda _, metadata: metadata.update(values_from="x"), "values_from is 'x'"),
    "times": (
        changed("timestamps", lambda a: a.astype(float)),
        "timestamps must be int64, one for",
    ),
    "fewer times": (
        changed("timestamps", lambda a: a[1:]),
        "timestamps must be int64, one for each",
    ),
    "values": (
        changed("user_items.values", lambda a: a.astype(int)),
        "user_items must be stored as",
    ),
    "by items": (
        changed("item_users.indptr", lambda a: a.astype(np.int32)),
        "item_users must be stored",
    ),
    "infinite": (
        changed("item_users.values", lambda a: a * np.inf),
        "item_users has values that are",
    ),
    "user ids": (changed("user_ids.offsets", lambda a: a[1:]), "ids stored for 3 rows"),
    "item ids": (
        changed("item_ids.labels", lambda a: a.astype(np.int32)),
        "ids cannot be stored as",
    ),
    "seen times": (
        changed("seen_only.timestamps", lambda a: a.astype(float)),
        "seen_only.timestamps m",
    ),
    "seen columns": (changed("seen_only.indices", lambda a: a + 9), "seen_only"),
    "no seen times": (without("seen_only.timestamps"), "seen_only.*timestamps"),
    "seen more": (lambda a, _: a.update({"seen_only.more": np.zeros(1)}), "seen_only.*more"),
    "summed": (lambda a, _: a.update({"summed.places": np.zeros(1, int)}), "summed.*largest"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_contents_are_refused(tmp_path: Path, name: str) -> None:
    work, message = DAMAGED[name]
    stored = folders.read(made().at_least(2).to_folder(tmp_path / "f"), FORMAT)
    arrays, metadata = dict(stored.arrays), dict(stored.metadata)
    work(arrays, metadata)
    folders.write(tmp_path / "g", Contents(arrays, metadata), FORMAT)
    with pytest.raises(ValueError, match=f"^{tmp_path}/g is damaged: .*{message}"):
        Interactions.open(tmp_path / "g")


def test_both_orders_have_as_many_entries(tmp_path: Path) -> None:
    one, other = made(), made().take([True, True, True, False])
    arrays = {name: dict(folders.read(data.to_folder(tmp_path / name), FORMAT).arrays)
              for name, data in (("f", one), ("g", other))}  # fmt: skip
    mixed = arrays["f"] | {k: v for k, v in arrays["g"].items() if k.startswith("item_users")}
    folders.write(tmp_path / "h", Contents(mixed, {}), FORMAT)
    with refuses(ValueError, place="h", remedy="restore it"):
        Interactions.open(tmp_path / "h")


@pytest.mark.parametrize("places", [[1, 1], [-1], [4], [2, 0]])
def test_places_of_sums_ascend_among_the_entries(tmp_path: Path, places: list[int]) -> None:
    stored = folders.read((made() + made()).to_folder(tmp_path / "f"), FORMAT)
    arrays = dict(stored.arrays)
    arrays["summed.places"] = np.array(places)
    arrays["summed.largest"] = np.ones(len(places), np.float32)
    folders.write(tmp_path / "g", Contents(arrays, dict(stored.metadata)), FORMAT)
    with refuses(ValueError, "summed.places", remedy="restore it"):
        Interactions.open(tmp_path / "g")
    arrays["summed.places"] = np.array([0, 3])
    for largest in (np.ones(3), np.ones(1)):
        folders.write(tmp_path / "h", Contents(arrays | {"summed.largest": largest}, {}), FORMAT)
        with refuses(ValueError, "summed.places", remedy="restore it"):
            Interactions.open(tmp_path / "h")
