"""Descent on the CUDA backend without a GPU: every step is the CPU's, and leaves the device never.

The emulated device refuses to mix its arrays with numpy's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import emulated_gpu
import numpy as np
import pytest
from emulated_gpu import DeviceArray, EmulatedGPU
from problems import toy

import mfrank
from mfrank import backends
from mfrank.backends import AdamAverages, AdamRates, ItemProbabilities, reference
from mfrank.losses import Loss, count_filled, where_filled
from mfrank.losses.sums import ramps as squared_hinges
from mfrank.models import loss_classes
from mfrank.testing import random_lists

if reason := emulated_gpu.why_unavailable():
    pytest.skip(reason, allow_module_level=True)

pytestmark = pytest.mark.usefixtures("device")

DATA = mfrank.Interactions.from_sparse(toy(30, 20, 0.3))
SMALL = {
    "factors": 4,
    "iterations": 2,
    "batch_size": 8,
    "positives": 3,
    "negatives": 6,
    "init": "random",
}
LOSSES: list[Loss] = [
    *(kind() for kind in loss_classes().values()),
    mfrank.SONG(decay=1, pooled=True),
    mfrank.KSONG(theoretical=True, choice="squared_hinge"),
    mfrank.KSONG(choice="hinge"),
    mfrank.SOPRC(order_statistics=2),
    mfrank.StochasticRank(
        last_noise=0.5, annealing_batches=3, scale_free=True, rao_blackwell=False, shift=0.1
    ),
    *(mfrank.StochasticRank(metric) for metric in ("recall", "map", "mrr", "err")),
]


def made(backend: str, **options: Any) -> mfrank.Descent:
    return mfrank.Descent(
        **{**SMALL, "random_state": 0, "dtype": "float64", **options}, backend=backend
    )


def check(cuda: mfrank.Descent, cpu: mfrank.Descent) -> None:
    """Both fits are the same, to rounding."""
    for name in ("user_factors", "item_factors", "user_biases", "item_biases"):
        there, here = getattr(cuda.store, name), getattr(cpu.store, name)
        assert (there is None) is (here is None)
        if here is not None:
            np.testing.assert_allclose(there, here, atol=1e-8 * np.abs(here).max(), err_msg=name)
    for got, wanted in zip(cuda.store.history, cpu.store.history, strict=True):
        assert got["objective"] == pytest.approx(wanted["objective"], rel=1e-7)


def check_fit(**options: Any) -> None:
    check(*(made(backend, **options).fit(DATA) for backend in ("cuda", "cpu")))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_loss(loss: Loss, came: list[int]) -> None:
    """No step brings an array to the host."""
    cuda = made("cuda", loss=loss).fit(DATA)
    assert not came
    check(cuda, made("cpu", loss=loss).fit(DATA))


def test_the_spectral_start_is_found_there_too() -> None:
    """Up to signs of its directions, which the noise does not follow."""
    still = {"init": "spectral", "optimizer": mfrank.SGD(1e-30), "iterations": 1, "scores": "dot"}
    cuda, cpu = (made(backend, **still).fit(DATA) for backend in ("cuda", "cpu"))
    scores = [model.user_factors @ model.item_factors.T for model in (cuda, cpu)]
    assert np.corrcoef(scores[0].ravel(), scores[1].ravel())[0, 1] > 0.999


@pytest.mark.parametrize("loss", [mfrank.SONG(), mfrank.SOPRC(), mfrank.BPR(), mfrank.SML()])
def test_whole_lists(monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    """Likes of all numbers, also more than all pairs are taken of."""
    monkeypatch.setattr(squared_hinges, "_FEW", 3)
    check_fit(loss=loss, positives=None, negatives=None)


@pytest.mark.parametrize(
    "optimizer", [mfrank.SGD(), mfrank.SGD(0.1, 0.5), mfrank.Adagrad(), mfrank.Langevin()], ids=str
)
@pytest.mark.parametrize("scores", ["dot", "cosine", "distance"])
def test_every_optimiser_and_scoring(optimizer: Any, scores: str) -> None:
    more = {"scores": scores, "item_biases": True, "clip": 0.01, "weight_decay": 0.01}
    check_fit(loss=mfrank.BPR(), optimizer=optimizer, **more)


@pytest.mark.parametrize("loss", [mfrank.SampledSoftmax(), mfrank.SML()], ids=str)
@pytest.mark.parametrize(
    "lists",
    [
        {"negative_sampling": "popularity"},
        {"negative_sampling": "in-batch"},
        {"shared_negatives": True},
        {"shared_negatives": True, "negative_sampling": "popularity"},
    ],
    ids=str,
)
def test_every_kind_of_list(lists: dict[str, Any], loss: Loss) -> None:
    check_fit(loss=loss, **lists)


def test_batches_of_likes() -> None:
    check_fit(loss=mfrank.BPR(), batches="positives", positives=10, optimizer=mfrank.Langevin())


def test_a_start_and_single_precision() -> None:
    start = mfrank.ALS(factors=4, iterations=1, random_state=0, dtype="float32").fit(DATA)
    cuda, cpu = (
        made(backend, dtype="float32").fit(DATA, start=start) for backend in ("cuda", "cpu")
    )
    np.testing.assert_allclose(cuda.item_factors, cpu.item_factors, atol=1e-4)
    assert (start.item_factors != cuda.item_factors).any()


@pytest.mark.parametrize("first", ["cuda", "cpu"])
@pytest.mark.parametrize("optimizer", [mfrank.Adam(), mfrank.Langevin()], ids=str)
def test_a_fit_goes_on_from_a_checkpoint(tmp_path: Path, first: str, optimizer: Any) -> None:
    """Of either side, on either side."""
    options = {"loss": mfrank.KSONG(), "optimizer": optimizer, "item_biases": True}
    options["schedule"] = mfrank.Constant()  # the same however long the course
    made(first, iterations=1, **options).fit(DATA, checkpoint=tmp_path)
    again = made("cuda", **options).fit(DATA, checkpoint=tmp_path)
    check(again, made("cpu", **options).fit(DATA))


def test_what_descends_stays_on_the_device() -> None:
    model = made("cuda", scores="distance").fit(DATA)
    held = model.placed
    for array in (held.user_factors, held.item_factors, held.user_biases, held.item_biases):
        assert isinstance(array, DeviceArray)
    np.testing.assert_array_equal(model.item_factors, held.item_factors.get())


def test_sums_of_an_item_have_the_same_bits_in_any_company() -> None:
    """Its terms are summed in the order of the lists, whatever else is in these."""
    rng, backend = np.random.default_rng(0), backends.choose("cuda")
    queries = rng.standard_normal((64, 40)).astype(np.float32)
    alone, slopes = np.zeros((64, 9), np.int64), rng.standard_normal((64, 9)).astype(np.float32)
    among, more = rng.integers(1, 50, (64, 18)), rng.standard_normal((64, 18)).astype(np.float32)
    among[:, ::2], more[:, ::2] = alone, slopes
    found = backend.sum_queries(queries, 50, alone, slopes)
    others = backend.sum_queries(queries, 50, among, more)
    assert found[0].tolist() == [0]
    for one, other in zip(found, others, strict=True):
        assert one[0].tobytes() == other[0].tobytes()


@pytest.mark.parametrize("n_asking", [1, 3])
def test_a_single_list_may_be_asked_by_one_query_or_several(n_asking: int) -> None:
    rng, backend = np.random.default_rng(1), backends.choose("cuda")
    queries, items = rng.standard_normal((n_asking, 5)), rng.standard_normal((8, 5))
    ids = rng.integers(0, 8, (1, 4))
    scores = backend.score(queries, items, ids)
    np.testing.assert_allclose(scores, queries @ items[ids[0]].T, rtol=1e-12)


@pytest.mark.parametrize("key", [0, 2**63 - 1, 2**63, 2**64 - 1])
def test_keys_have_all_64_bits(key: int) -> None:
    """A kernel takes them as a signed integer."""
    backend, rows = backends.choose("cuda"), random_lists(np.random.default_rng(0), 6, 20, 0.4)
    asked = rows, np.arange(6), 5, key
    found = backend.draw_positives(*asked), *backend.draw_negatives(*asked)
    wanted = reference.draw_positives(*asked), *reference.draw_negatives(*asked)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("n_items", "sent"), [(500, 5 * 4), (12, 12 * 4)])
def test_of_items_on_the_host_few_are_sent(went: list[int], n_items: int, sent: int) -> None:
    """Those of the lists; all where the lists name more items than there are."""
    rng, backend = np.random.default_rng(2), backends.choose("cuda")
    queries, items = rng.standard_normal((3, 4)), rng.standard_normal((n_items, 4))
    ids = np.array([[7, 1, 7, 3], [1, 1, 9, 11], [9, 7, 1, 3]])
    slopes = rng.standard_normal((3, 4))
    for found, wanted in (
        (lambda: backend.score(queries, items, ids), reference.score(queries, items, ids)),
        (lambda: backend.sum_items(items, ids, slopes), reference.sum_items(items, ids, slopes)),
    ):
        went.clear()
        np.testing.assert_allclose(found(), wanted, rtol=1e-12)
        assert sorted(went) == sorted([12, 12, sent])


def test_of_a_table_on_the_host_the_rows_that_change_are_sent(
    went: list[int], came: list[int]
) -> None:
    rng, backend = np.random.default_rng(3), backends.choose("cuda")
    rows, steps = np.array([400, 3, 77]), rng.standard_normal((3, 4))
    tables = []
    for which in (backend, reference):
        table = np.random.default_rng(4).standard_normal((500, 4))
        averages = AdamAverages(np.ones((500, 4)), np.ones((500, 4)), np.arange(500))
        went.clear()
        for _ in range(2):
            which.adam(table, rows, steps, averages, AdamRates(0.1, 0.9, 0.99, 1e-8))
        tables.append((table, *averages))
    for one, other in zip(*tables, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert max(came) == 12


def test_chances_of_items_are_sent_once(went: list[int]) -> None:
    rng, backend = np.random.default_rng(5), backends.choose("cuda")
    rows, chances = random_lists(rng, 6, 20, 0.4), ItemProbabilities.of(rng.random(20))
    for times in (1, 0):
        went.clear()
        backend.draw_negatives(rows, np.arange(6), 5, 1, chances)
        assert went.count(20) == times


@pytest.mark.parametrize("padded", [True, False])
def test_whether_lists_are_padded_is_not_waited_for(
    device: EmulatedGPU, monkeypatch: pytest.MonkeyPatch, padded: bool
) -> None:
    filled, numbers = np.ones((3, 4), dtype=bool), np.arange(3.0)[:, None]
    filled[1, 2:] = not padded
    there = device.asarray(filled), device.asarray(numbers)
    monkeypatch.setattr(DeviceArray, "__bool__", lambda _: pytest.fail("waits for the GPU"))
    found = where_filled(*there), count_filled(there[0])
    for one, other in zip(found, (numbers * filled, filled.sum(1, keepdims=True)), strict=True):
        np.testing.assert_array_equal(one.on_host, other)
    assert where_filled(filled, numbers).shape == ((3, 4) if padded else (3, 1))  # on the host


def test_the_best_epoch_is_kept() -> None:
    split = mfrank.by_ratio(DATA, random_state=0)
    stopping = mfrank.EarlyStopping(split.valid)
    cuda, cpu = (made(of).fit(split.train, stopping=stopping) for of in ("cuda", "cpu"))
    check(cuda, cpu)
    assert all("valid" in record for record in cuda.store.history)


def test_a_fit_that_diverges_says_so() -> None:
    rule = mfrank.SGD(1e200)
    with pytest.raises(FloatingPointError, match="diverged in epoch 1"):
        made("cuda", loss=mfrank.BPR(), optimizer=rule).fit(DATA)


def test_cupy_knows_every_function_that_was_called() -> None:
    """At the end of this file: by then all of them were."""
    cupy = pytest.importorskip("cupy", reason="CuPy, which imports without a GPU")
    assert not emulated_gpu.unknown_to(cupy)
