"""A store checks what it is given, cannot change, and comes back from its folder as it was."""

from __future__ import annotations

import json
import pickle
import tempfile
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_gpu import EmulatedGPU
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import same, store, stores

from mfrank import FactorStore
from mfrank.data import Counts, Ids
from mfrank.store import Step, epochs_of, is_mapped, seconds_of, summary
from tests.support.errors import refuses


@settings(max_examples=40, deadline=None)
@given(stores(), st.booleans(), st.booleans())
def test_a_store_comes_back_as_it_was(saved: FactorStore, mmap: bool, verify: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = saved.save(folder)
        assert same(FactorStore.load(path, mmap=mmap, verify=verify), saved)


def test_save_replaces_and_a_map_can_be_saved_over_itself(tmp_path: Path) -> None:
    first, second = store(), store(n_users=9)
    assert first.save(str(tmp_path / "s")) == tmp_path / "s"
    mapped = FactorStore.load(tmp_path / "s", mmap=True)
    mapped.save(tmp_path / "s")
    second.save(tmp_path / "s")
    assert same(mapped, first)
    assert same(FactorStore.load(tmp_path / "s", verify=True), second)


def test_mapping_does_not_read_the_factors(tmp_path: Path) -> None:
    big = np.zeros((200_000, 64), dtype=np.float32)
    counts = Counts(np.zeros(len(big), dtype=np.int64), np.zeros(1, dtype=np.int64))
    numbered = Ids.numbered(len(big)), Ids.numbered(1)
    FactorStore(big, big[:1], *numbered, counts=counts).save(tmp_path / "s")
    mapped = FactorStore.load(tmp_path / "s", mmap=True)
    smaps = Path("/proc/self/smaps")
    if not smaps.exists():
        pytest.skip("the resident part of a map is read from /proc")
    _, found, rest = smaps.read_text().partition(f"{tmp_path}/s/data-")
    while found and "user_factors.npy" not in rest.splitlines()[0]:
        _, found, rest = rest.partition(f"{tmp_path}/s/data-")
    resident = next(int(x.split()[1]) for x in rest.splitlines() if x.startswith("Rss:"))
    assert resident < big.nbytes / 1024 / 10
    assert mapped.n_users == len(big)


def test_nothing_in_a_store_can_be_written(tmp_path: Path) -> None:
    mine = np.ones((4, 2))
    kept = store(user_factors=mine)
    kept.save(tmp_path)
    for one in (kept, FactorStore.load(tmp_path), FactorStore.load(tmp_path, mmap=True)):
        for array in (one.user_factors, one.item_biases, one.counts.users, one.extras["weights"]):
            assert array is not None
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        with pytest.raises(FrozenInstanceError):
            one.user_factors = mine  # type: ignore[misc]
    assert np.shares_memory(kept.user_factors, mine)  # a view, no copy
    assert mine.flags.writeable


def test_a_store_is_apart_from_what_it_was_made_of() -> None:
    options: dict[str, Any] = {"deep": [1, (2, 3)]}
    made = store(fitter={"name": "ALS", "options": options})
    options["deep"].append(4)
    assert made.fitter["options"] == {"deep": [1, [2, 3]]}


def test_a_store_can_be_pickled_and_replaced() -> None:
    assert same(pickle.loads(pickle.dumps(store())), store())
    assert replace(store(), item_biases=None).item_biases is None


def test_directions_are_of_length_one_and_made_once() -> None:
    some = store(user_factors=np.array([[3.0, 4], [0, 0], [1e-200, 0], [-1e200, 0]]))
    expected = [[0.6, 0.8], [0, 0], [1, 0], [-1, 0]]
    np.testing.assert_allclose(some.user_directions, expected, rtol=1e-15)
    assert some.user_directions is some.user_directions
    assert some.item_directions is some.item_directions
    np.testing.assert_allclose(np.linalg.norm(some.item_directions, axis=1), 1)
    with pytest.raises(ValueError, match="read-only"):
        some.item_directions[0] = 1


def test_sizes_are_read_off() -> None:
    made = store(n_users=5, n_items=3, factors=2)
    assert (made.n_users, made.n_items, made.factors, made.dtype) == (5, 3, 2, np.float64)
    assert repr(made) == "FactorStore(5 users x 3 items, 2 factors, float64, fitted by ALS)"


def test_transposed_factors_become_contiguous_and_biases_take_their_dtype() -> None:
    factors = np.arange(8, dtype=np.float32).reshape(2, 4).T
    made = store(
        user_factors=factors, item_factors=np.ones((3, 2), np.float32), item_prior=[1, 0, 2]
    )
    assert made.user_factors.flags.c_contiguous
    assert np.array_equal(made.user_factors, factors)
    assert {made.user_biases.dtype, made.item_prior.dtype} == {np.dtype(np.float32)}  # type: ignore[union-attr]


def test_a_history_keeps_none_for_what_is_not_finite(tmp_path: Path) -> None:
    made = store(history=[{"epoch": 1, "objective": float("nan"), "seconds": float("inf")}])
    assert made.history == ({"epoch": 1, "objective": None, "seconds": None},)
    assert same(FactorStore.load(made.save(tmp_path)), made)


BEYOND = {"item_biases": np.full(3, 1e300)}  # float32
BAD: list[tuple[dict[str, Any], str]] = [
    ({"user_factors": np.ones((4, 2), np.float16)}, "user_factors must be float32 or float64"),
    ({"user_factors": np.ones((4, 2), np.int64)}, "user_factors must be float32 or float64"),
    ({"user_factors": np.ones((4, 2), ">f8")}, "user_factors must be float32 or float64"),
    ({"user_factors": np.ones((4, 2), np.float32)}, "one width and dtype"),
    ({"user_factors": np.ones((4, 5))}, "one width and dtype"),
    ({"user_factors": np.ones((3, 2))}, r"a row for each of its 4 ids.*\(3, 2\)"),
    ({"item_factors": np.ones(3)}, r"item_factors must have a row for each of its 3 ids"),
    ({"item_factors": np.ones((3, 0))}, "at least one column"),
    ({"item_factors": [[1, 1], [1, np.nan], [1, 1]]}, "NaN or infinity in row 1"),
    ({"user_factors": np.full((4, 2), -np.inf)}, "NaN or infinity in row 0"),
    ({"user_biases": np.ones(3)}, r"user_biases must have shape \(4,\), got \(3,\)"),
    ({"item_biases": np.ones((3, 1))}, r"item_biases must have shape \(3,\)"),
    ({"item_prior": np.ones(3, complex)}, "item_prior must hold numbers"),
    ({"item_prior": [0, np.inf, 0]}, "item_prior must be finite"),
    (
        {"user_factors": np.ones((4, 2), "f4"), "item_factors": np.ones((3, 2), "f4"), **BEYOND},
        "item_biases must be finite",
    ),
    ({"counts": Counts(np.ones(3, np.int64), np.ones(3, np.int64))}, r"counts\.users must be"),
    ({"counts": Counts(np.ones(4, np.int64), np.ones(3, np.int32))}, r"counts\.items must be"),
    ({"counts": Counts(np.ones(4, np.int64), -np.ones(3, np.int64))}, r"counts\.items must not be"),
    ({"fitter": {"name": "ALS"}}, "fitter must be"),
    ({"fitter": {"name": "ALS", "options": {"x": float("nan")}}}, "fitter must be plain JSON"),
    ({"fitter": {"name": "ALS", "options": {"x": np.int64(1)}}}, "fitter must be plain JSON"),
    ({"history": [{"epoch": "one"}]}, "history must hold Python numbers"),
    ({"versions": {"numpy": 2}}, "versions must be strings"),
    ({"extras": {"a.b": np.ones(2)}}, "no dot"),
    ({"extras": {"../a": np.ones(2)}}, "name"),
    ({"extras": {1: np.ones(2)}}, "names in extras must be strings, got 1"),
    ({"extras": {"a": np.array([None])}}, "a must hold booleans or numbers"),
    *(
        ({name: other}, f"{name} must be")
        for name in ("counts", "extras", "fitter", "history", "versions")
        for other in (5, [5], "text")
    ),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        store(**changes)


def test_factors_that_repeat_one_number_do_not_fit_into_memory() -> None:
    endless = np.broadcast_to(np.float32(1), (10**9, 10**6))
    with pytest.raises(MemoryError):
        FactorStore(endless, endless)


def test_ids_that_only_pickle_could_hold_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    odd = store(item_ids=Ids.of([(1, 2), "a", 3]))
    with refuses(ValueError, remedy="use str or int ids"):
        odd.save(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def rewritten(folder: Path, alter: Any) -> Path:
    """The folder with its manifest altered."""
    manifest = json.loads((folder / "manifest.json").read_text())
    alter(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


TAMPERED: dict[str, tuple[Any, str]] = {
    "metadata key": (lambda m: m["metadata"].update(module="os"), "unknown keys: 'module'"),
    "array": (lambda m: m["arrays"].update(x=m["arrays"]["item_prior"]), "missing"),
    "no factors": (lambda m: m["arrays"].pop("item_factors"), "lacks: 'item_factors'"),
    "half of the counts": (lambda m: m["arrays"].pop("counts.users"), "damaged"),
    "half of the ids": (lambda m: m["arrays"].pop("user_ids.utf8"), "ids cannot be stored"),
    "history": (lambda m: m["metadata"].update(history=3), "damaged"),
    "fitter": (lambda m: m["metadata"].update(fitter=[]), "damaged"),
    "newer": (lambda m: m.update(version=2), "upgrade mfrank"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_tampered_store_is_refused(tmp_path: Path, case: str) -> None:
    alter, message = TAMPERED[case]
    with pytest.raises(ValueError, match=message):
        FactorStore.load(rewritten(store().save(tmp_path), alter))


def test_arrays_that_no_store_has_are_refused() -> None:
    contents = store().to_contents()
    arrays: Any = contents.arrays
    for name in ("other", "other.group", "counts.other"):
        changed = replace(contents, arrays={**arrays, name: np.ones(2)})
        with refuses(ValueError, place="here", remedy="restore it"):
            FactorStore.from_contents(changed, "here")


def test_damaged_ids_are_refused() -> None:
    contents = store().to_contents()
    offsets = contents.arrays["user_ids.offsets"]
    for bad in (
        offsets[:-1],
        offsets[::-1].copy(),
        offsets.astype(np.int32),
        offsets[None],
        offsets[:0],
    ):
        arrays = {**contents.arrays, "user_ids.offsets": bad}
        with refuses(ValueError, place="here", remedy="restore it"):
            FactorStore.from_contents(replace(contents, arrays=arrays), "here")


@pytest.mark.parametrize("name", ["user_factors", "item_biases", "item_prior"])
def test_values_that_changed_since_are_not_saved(tmp_path: Path, name: str) -> None:
    store().save(tmp_path)
    mine = np.ones((4, 2)) if name == "user_factors" else np.ones(3)
    changed = store(**{name: mine})
    mine[0] = np.nan
    with refuses(ValueError, name):
        changed.save(tmp_path)
    counts = Counts(np.ones(4, np.int64), np.ones(3, np.int64))
    changed = store(counts=counts)
    counts.items[1] = -1
    with refuses(ValueError, "counts.items"):
        changed.save(tmp_path)
    assert same(FactorStore.load(tmp_path), store())


def test_a_history_is_summed_without_the_start_and_without_missing_times() -> None:
    history = [
        {"epoch": 0, "objective": 9.0},
        {"epoch": 1, "seconds": 0.5, "objective": 3.0},
        {"epoch": 2, "seconds": None, "objective": 2.5},
        {"epoch": 3, "seconds": 0.25, "objective": 2.0},
    ]
    assert epochs_of(history) == 3
    assert seconds_of(history) == 0.75
    assert summary(history) == [("epochs", "3"), ("seconds", "0.75"), ("last objective", "2")]
    assert summary([{"epoch": 1}]) == [("epochs", "1"), ("seconds", "0.00")]
    assert summary([]) == []


def test_a_store_says_what_made_it() -> None:
    versions = store(versions=FactorStore(np.ones((1, 1)), np.ones((1, 1))).versions).versions
    assert set(versions) == {"mfrank", "numpy", "python"}
    assert versions["numpy"] == np.__version__


@pytest.mark.parametrize("side", ["user", "item"])
def test_both_sides_are_on_the_host_or_on_the_gpu(device: EmulatedGPU, side: str) -> None:
    factors = {"user_factors": np.ones((4, 2)), "item_factors": np.ones((3, 2))}
    factors[f"{side}_factors"] = device.asarray(factors[f"{side}_factors"])
    with refuses(ValueError, "user_factors"):
        FactorStore(**factors)


def test_a_load_reads_the_arrays_and_compares_no_hashes_unless_asked(tmp_path: Path) -> None:
    folder = store().save(tmp_path / "store")
    loaded = FactorStore.load(folder)
    assert not is_mapped(loaded.user_factors)
    assert is_mapped(FactorStore.load(folder, mmap=True).user_factors)
    (file,) = folder.rglob("item_biases*.npy")
    damaged = bytearray(file.read_bytes())
    damaged[-8] ^= 1  # the last bit of a number
    file.write_bytes(damaged)
    assert not same(FactorStore.load(folder), loaded)
    with refuses(ValueError, place="item_biases.npy", remedy="restore it"):
        FactorStore.load(folder, verify=True)


def test_a_record_of_an_epoch_has_what_its_history_is_summed_by() -> None:
    step = Step(3, 0.5, 1.25, np.ones((1, 1)), np.ones((1, 1)))
    assert step.record() == {"epoch": 3, "seconds": 0.5, "objective": 1.25}
    assert seconds_of([step.record()]) == 0.5
