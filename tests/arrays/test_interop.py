"""Arrays of other libraries, on the host and on a GPU, at the doors where they are given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import emulated_gpu
import numpy as np
import pytest
from emulated_gpu import DeviceArray, EmulatedGPU
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import toy
from served import CALLS, N_ITEMS, N_USERS, WIDTH, Producer, serving, store

import mfrank
from mfrank.arrays import as_array, is_on_gpu, take, to_host
from mfrank.arrays import device as gpu
from tests.support.errors import refuses

# --- on the host


def test_host_arrays_of_dlpack_share_their_memory() -> None:
    array = np.arange(6.0)
    assert np.shares_memory(take(Producer(array), "x"), array)
    held = dataclasses.replace(store(), user_factors=Producer(np.ones((N_USERS, WIDTH))))
    assert isinstance(held.user_factors, np.ndarray)


def test_memory_of_the_host_and_of_cuda_is_known_by_the_numbers_of_dlpack() -> None:
    array = np.arange(3.0)
    for kind in (1, 3, 11):  # kDLCPU, kDLCUDAHost, kDLROCMHost
        assert not is_on_gpu(Producer(array, kind))
        assert take(Producer(array, kind), "x").tolist() == [0, 1, 2]
    for kind in (2, 13):  # kDLCUDA, kDLCUDAManaged
        assert is_on_gpu(Producer(array, kind))
    with refuses(ValueError, "x", remedy="copy it to the host"):
        take(Producer(array, 10), "x")  # kDLROCM


def test_arrays_of_types_that_dlpack_lacks_are_read_by_numpys_own_protocol() -> None:
    """Arrow's text and dictionaries: some versions raise when they are asked for a device."""

    class Text:
        def __dlpack_device__(self) -> tuple[int, int]:
            raise TypeError("DataType is not compatible with DLPack spec: string")

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return np.array(["ann", "ben"])

    assert take(Text(), "x").tolist() == ["ann", "ben"]
    assert as_array(Text(), "x").tolist() == ["ann", "ben"]
    assert not is_on_gpu(Text())


def test_what_is_no_array_is_handed_on() -> None:
    for given_ in ("a", 3, [1, 2], None, np.arange(3), range(2)):
        assert take(given_, "x") is given_


def test_tensors_are_taken_without_a_copy() -> None:
    torch = pytest.importorskip("torch", reason="torch, whose tensors are given")
    factors = torch.ones((N_USERS, WIDTH), dtype=torch.float64)
    held = dataclasses.replace(store(), user_factors=factors)
    assert np.shares_memory(held.user_factors, factors.numpy())
    model = serving(held, "reference")
    asked = torch.tensor([3, 0])
    wanted = model.recommend([3, 0], filter_already_liked_items=False)
    for one, other in zip(
        model.recommend(asked, filter_already_liked_items=False), wanted, strict=True
    ):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(TypeError, match=r"user_factors .*detach"):
        dataclasses.replace(held, user_factors=factors.requires_grad_())


def test_devices_that_are_no_gpu_of_cuda_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with refuses(ValueError, "values"):
        take(Producer(np.ones(3), memory=8), "values")
    monkeypatch.setattr(gpu, "why_unavailable", lambda: "CuPy is not installed")
    with refuses(ValueError, "userid"):
        serving(store(), "reference").recommend(Producer(np.arange(3), memory=2))


def test_numpys_own_protocol_comes_first() -> None:
    """For DLPack has no texts."""

    class Texts(Producer):
        def __array__(self, *_: object, **__: object) -> object:
            return np.array(["a", "b"])

    assert take(Texts(np.arange(2)), "x").tolist() == ["a", "b"]


def test_what_cannot_be_read_is_refused_by_name() -> None:
    class Locked(Producer):
        def __dlpack__(self, **how: object) -> object:
            raise BufferError("it is locked")

    with refuses(TypeError, "x"):
        take(Locked(np.arange(2)), "x")
    assert as_array([[1, 2], [3, 4]], "x").tolist() == [[1, 2], [3, 4]]
    array = np.arange(2)
    assert as_array(array, "x") is array
    with refuses(ValueError, "x"):
        as_array([[1, 2], [3]], "x")


def test_why_there_is_no_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    assert "pip install mfrank[cuda12]" in (gpu.why_unavailable() or "")
    monkeypatch.setattr(gpu, "find_spec", lambda name: name == "cupy" or None)
    known = SimpleNamespace(why_no_gpu=lambda: "no driver", all_devices=lambda: ("one", "two"))
    monkeypatch.setattr(gpu, "import_module", lambda name: known)
    assert gpu.why_unavailable() == "no driver"
    assert gpu.devices() == ("one", "two")
    assert gpu.device() == "one"

    def missing(name: str) -> None:
        raise ImportError(f"libcuda, which {name} needs")

    monkeypatch.setattr(gpu, "import_module", missing)
    reason = gpu.why_unavailable()
    assert reason == (
        "CuPy cannot be imported: libcuda, which mfrank.backends.cuda.cupy_device needs"
    )


# --- on a GPU


def test_arrays_of_another_library_stay_on_the_gpu(device: EmulatedGPU, came: list[int]) -> None:
    there = take(Producer(np.arange(4.0), memory=2), "x")
    assert isinstance(there, DeviceArray)
    assert not came
    np.testing.assert_array_equal(to_host(there, "x"), np.arange(4.0))


def test_arrays_of_cudas_own_interface_are_taken_too(
    device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As numba's, which have no DLPack."""

    class Numba:
        shape = (2, 3)
        __cuda_array_interface__ = MappingProxyType({})

    monkeypatch.setattr(device, "asarray", lambda array: DeviceArray(np.arange(6)))
    taken = take(Numba(), "x")
    assert isinstance(taken, DeviceArray)
    assert taken.shape == (2, 3)
    assert take(Numba, "x") is Numba  # the class is no array


def test_columns_on_the_gpu_are_interactions(device: EmulatedGPU) -> None:
    users, items, values, times = [5, 9, 5], [2, 2, 7], [1.0, 2.0, 3.0], [30, 10, 20]
    columns = [device.asarray(np.array(column)) for column in (users, items, values, times)]
    for shape in (None, (12, 12)):
        wanted = mfrank.Interactions.from_arrays(users, items, values, times, shape=shape)
        got = mfrank.Interactions.from_arrays(*columns, shape=shape)
        assert (got.user_items != wanted.user_items).nnz == 0
        assert got.user_ids == wanted.user_ids
        np.testing.assert_array_equal(got.timestamps, wanted.timestamps)


def test_a_store_keeps_its_factors_where_they_are(
    device: EmulatedGPU, came: list[int], tmp_path: Path
) -> None:
    there, here = store(place=device.asarray), store()
    assert not came
    assert isinstance(there.user_factors, DeviceArray)
    assert isinstance(there.item_biases, DeviceArray)
    assert here.on_host() is here
    np.testing.assert_array_equal(there.on_host().item_biases, here.item_biases)
    there.save(tmp_path / "store")
    loaded = mfrank.FactorStore.load(tmp_path / "store")
    np.testing.assert_array_equal(loaded.user_factors, here.user_factors)
    blended, wanted = (mfrank.blend(one, here, 0.5) for one in (there, here))
    np.testing.assert_array_equal(blended.item_factors, wanted.item_factors)
    data = mfrank.Interactions.from_sparse(toy(N_USERS, N_ITEMS))
    fits = [mfrank.ALS(factors=WIDTH, iterations=1, dtype="float64") for _ in range(2)]
    for model, start in zip(fits, (there, here), strict=True):
        model.fit(data, start=start)
    np.testing.assert_array_equal(fits[0].item_factors, fits[1].item_factors)


def test_a_store_on_the_gpu_is_checked(device: EmulatedGPU) -> None:
    here, there = store(), store(place=device.asarray)
    with refuses(ValueError, "user_factors"):
        dataclasses.replace(here, item_factors=there.item_factors)
    broken = device.asarray(np.where(np.arange(N_ITEMS)[:, None] == 7, np.nan, here.item_factors))
    with refuses(ValueError, "item_factors"):
        dataclasses.replace(there, item_factors=broken)


@pytest.mark.parametrize("call", CALLS)
@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.integers(0, N_USERS - 1), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["cuda", "cpu", "reference"]),
)
def test_answers_are_those_of_the_reference_where_it_was_asked(
    device: EmulatedGPU, call: str, ids: list[int], store_there: bool, ask_there: bool, backend: str
) -> None:
    more = [(3 * i + 3) % N_ITEMS for i in ids]
    wanted = CALLS[call](serving(store(), "reference"), ids, more)
    model = serving(store(place=device.asarray if store_there else np.asarray), backend)
    place = device.asarray if ask_there else np.asarray
    got = CALLS[call](model, place(np.array(ids)), place(np.array(more)))
    for one, other in zip(got, wanted, strict=True):
        assert isinstance(one, DeviceArray) is ask_there
        np.testing.assert_allclose(to_host(one, ""), other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("call", ["recommend", "recommend_users", "similar_items", "similar_users"])
def test_neither_factors_nor_scores_come_to_the_host(
    device: EmulatedGPU, came: list[int], call: str
) -> None:
    model, ids = serving(store(place=device.asarray), "cuda"), device.asarray(np.array([3, 0]))
    CALLS[call](model, ids, None)
    assert not came


def test_ids_with_labels_are_answered_on_the_host(device: EmulatedGPU) -> None:
    model = serving(store(place=device.asarray, labels=True), "cuda")
    users = device.asarray(np.array([3, 0]))
    ids, scores = model.recommend(users, N=3, filter_already_liked_items=False)
    wanted = serving(store(labels=True), "reference").recommend(
        [3, 0], N=3, filter_already_liked_items=False
    )
    np.testing.assert_array_equal(ids, wanted[0])
    np.testing.assert_allclose(scores, wanted[1], rtol=1e-9)
    single = model.similar_users(device.asarray(np.array(3)), N=2)
    assert single[0].tolist()[0] == 3
    assert model.similar_items("item-3", N=2)[0].tolist() == ["item-3", "item-4"]


def test_ids_on_the_gpu_are_checked_by_name(device: EmulatedGPU) -> None:
    model = serving(store(place=device.asarray), "cuda")
    with refuses(ValueError, "userid"):
        model.similar_users(device.asarray(np.array([3, 40])))
    with refuses(ValueError, "itemid"):
        model.similar_items(device.asarray(np.array([3.5])))
    whole = model.similar_items(device.asarray(np.array([3.0])))
    np.testing.assert_array_equal(whole.ids.get(), model.similar_items([3]).ids)


@pytest.mark.parametrize("model", [mfrank.ALS(factors=2), mfrank.ItemKNN()])
def test_masked_ids_are_refused_and_unmasked_ones_read(model: mfrank.ALS | mfrank.ItemKNN) -> None:
    model.fit(mfrank.synthetic(6, 5, 12, random_state=0))
    ids = np.ma.masked_array([1, 2], [0, 0])
    np.testing.assert_array_equal(model.recommend(ids)[0], model.recommend([1, 2])[0])
    with refuses(ValueError, "userid"):
        model.recommend(np.ma.masked_array([1, 99999], [0, 1]))


ONE = mfrank.Judged([[1.0], [2.0]], [1, 0], [1, 1])
DATA = mfrank.Interactions.from_arrays([0, 1], [0, 1])
DOORS: dict[str, Callable[[Any], Any]] = {
    "users": lambda two: mfrank.Interactions.from_arrays(two.astype(int), [0, 1]),
    "items": lambda two: mfrank.Interactions.from_arrays([0, 1], two.astype(int)),
    "values": lambda two: mfrank.Interactions.from_arrays([0, 1], [0, 1], two),
    "timestamps": lambda two: mfrank.Interactions.from_arrays([0, 1], [0, 1], None, two),
    "weights": DATA.weighted,
    "mask": lambda two: DATA.take(two.astype(bool)),
    "features": lambda two: mfrank.Judged(two[:, None], [1, 0], [1, 1]),
    "relevance": lambda two: mfrank.Judged([[1.0], [2.0]], two, [1, 1]),
    "queries": lambda two: mfrank.Judged([[1.0], [2.0]], [1, 0], two),
    "scores": lambda two: mfrank.evaluate_queries(ONE, two),
    "labels": mfrank.Groups.of,
    "of_rows": lambda two: mfrank.Groups(("a", "b"), two.astype(int)),
    "item_features": lambda two: mfrank.ALS(factors=2).fit(DATA, item_features=two[:, None]),
}


@pytest.mark.parametrize("name", DOORS)
def test_masked_values_are_refused_by_every_door_and_others_read(name: str) -> None:
    DOORS[name](np.ma.masked_array([0.0, 1.0], [False, False]))
    with refuses(ValueError, None, remedy=r"\.compressed\(\)"):
        DOORS[name](np.ma.masked_array([0.0, 1.0], [False, True]))


def test_cupy_knows_every_function_that_was_called(device: EmulatedGPU) -> None:
    """At the end of this file: by then all of them were."""
    cupy = pytest.importorskip("cupy", reason="CuPy, which imports without a GPU")
    assert DeviceArray.asked["functions"].keys() > {"einsum", "isfinite", "ascontiguousarray"}
    assert not emulated_gpu.unknown_to(cupy)
