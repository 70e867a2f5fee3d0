"""What losses say of their arrays holds: the room of a batch is known before it is taken."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from emulated_gpu import installed, why_unavailable
from every_loss import LOSSES
from loss_lists import long_lists

import mfrank
from mfrank.backends import choose
from mfrank.backends.cpu import why_unavailable as why_no_cpu
from mfrank.descent import Batches, Sampling
from mfrank.losses import Loss, Sizes
from mfrank.models import check_batch_memory
from tests.support.errors import refuses

KNOWN: dict[str, Loss] = {
    **LOSSES,
    "soprc": mfrank.SOPRC(),
    **{f"stochastic rank {m}": mfrank.StochasticRank(m) for m in ("ndcg", "recall", "map", "err")},
}
AT_ONCE = 14  # largest arrays that a loss may hold


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("n_positives", [6, 40])
def test_no_loss_takes_more_than_it_says(name: str, n_positives: int) -> None:
    """Written out, as on a device; arrays of pairs are as large as they say."""
    users, n_negatives, loss = 5, 900, KNOWN[name]
    lists, positives, negatives = long_lists(users, n_positives, n_negatives)
    if loss.pair_scores:
        near = np.zeros((users, n_positives, n_negatives))
        lists = replace(lists, positive_items=lists.cells, pair_scores=near)
    memory = loss.memory(Sizes(users * n_positives, users, users * n_positives))
    tracemalloc.start()
    loss.gradients(lists, positives, negatives, memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    of_pairs = loss.largest_pair_array(n_positives, n_negatives)
    said = max(of_pairs, loss.largest_array(n_positives, n_negatives))
    assert 8 * users * of_pairs <= peak <= AT_ONCE * 8 * users * said


@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
@pytest.mark.parametrize(
    "loss",
    [
        mfrank.BPR(),
        mfrank.RankNet(),
        mfrank.LambdaRank(),
        mfrank.SmoothAP(),
        mfrank.ApproxNDCG(),
        mfrank.SOPRC(),
    ],
    ids=str,
)
def test_pairs_of_a_device_need_room(loss: Loss) -> None:
    """Where the processor's extension makes no array of pairs, CuPy would."""
    rows = mfrank.synthetic(2000, 3000, 200_000, random_state=0)
    options = {"factors": 2, "positives": None, "negatives": None, "batch_size": 10**6}
    if isinstance(loss, mfrank.SOPRC):  # few thresholds, so that all pairs are taken
        options |= {"positives": 6, "negatives": 10**5, "batch_size": 2000}
    with installed(), refuses(ValueError, "batch_size", remedy="lower batch_size"):
        mfrank.Descent(loss, backend="cuda", **options).fit(rows)
    if why_no_cpu() is None:
        batches = Batches("users", options["batch_size"])
        sampling = Sampling(options["positives"], options["negatives"])
        check_batch_memory(rows.user_rows("float32"), loss, batches, sampling, choose("cpu"))


def test_long_lists_of_sorted_hinges_have_room_on_a_device() -> None:
    assert mfrank.SONG().largest_pair_array(500, 50_000) == 3 * 50_500
    assert mfrank.SONG().largest_pair_array(10, 300) == 10 * 310


def test_arrays_that_are_larger_than_a_list_have_room() -> None:
    assert mfrank.Softmax().largest_array(3, 5) == 3 + 5
    assert mfrank.Softmax().largest_pair_array(3, 5) == 0
    # Each like's own scores of all others; each like against each.
    assert mfrank.SML().largest_array(3, 5) == (1 + 3) * (3 + 5)
    assert mfrank.SOPRC().largest_array(40, 300) == 40 * 40 + 300
    assert mfrank.SOPRC(order_statistics=7).largest_array(40, 300) == 40 * 7 + 300
    # A soft permutation of a thread, of which four lists have one; on a device each list has one.
    assert mfrank.NeuralNDCG().largest_array(10, 290) == 300 * 300 / 4
    assert mfrank.NeuralNDCG().largest_array(1, 1) == 2
    assert mfrank.NeuralNDCG().largest_pair_array(10, 290) == 300 * 300
