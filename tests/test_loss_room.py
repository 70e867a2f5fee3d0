"""What losses say of their arrays holds: the room of a batch is known before it is taken."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from emulated_gpu import installed, why_unavailable
from loss_lists import long_lists
from test_losses import LOSSES

import mfrank
from mfrank import native
from mfrank.descent import Batches
from mfrank.models.room import check_room
from mfrank.sampling import Sampling
from mfrank.trainers import Loss, Sizes

KNOWN: dict[str, Loss] = {
    **LOSSES,
    "soprc": mfrank.SOPRC(),
    **{f"stochastic rank {m}": mfrank.StochasticRank(m) for m in ("ndcg", "recall", "map", "err")},
}
AT_ONCE = 14  # largest arrays that a loss may hold


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("n_likes", [6, 40])
def test_no_loss_takes_more_than_it_says(
    monkeypatch: pytest.MonkeyPatch, name: str, n_likes: int
) -> None:
    """Without the extension, as on a device; arrays of ramps are as large as they say."""
    monkeypatch.setattr(native, "why_missing", "for this test")
    users, n_others, loss = 5, 900, KNOWN[name]
    lists, likes, others = long_lists(users, n_likes, n_others)
    if loss.between:
        near = np.zeros((users, n_likes, n_others))
        lists = replace(lists, liked_items=lists.cells, between=near)
    memory = loss.memory(Sizes(users * n_likes, users, users * n_likes))
    tracemalloc.start()
    loss.slopes(lists, likes, others, memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    of_ramps = loss.ramp_numbers(n_likes, n_others)
    said = max(of_ramps, loss.numbers(n_likes, n_others))
    assert 8 * users * of_ramps <= peak <= AT_ONCE * 8 * users * said


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
def test_ramps_of_a_device_need_room(loss: Loss) -> None:
    """Where the processor's extension makes no array of pairs, CuPy would."""
    rows = mfrank.synthetic(2000, 3000, 200_000, random_state=0)
    options = {"factors": 2, "likes": None, "others": None, "batch_size": 10**6}
    if isinstance(loss, mfrank.SOPRC):  # few thresholds, so that all pairs are taken
        options |= {"likes": 6, "others": 10**5, "batch_size": 2000}
    with installed(), pytest.raises(ValueError, match=r"a batch of 2000 lists of .* lower batch"):
        mfrank.Descent(loss, backend="cuda", **options).fit(rows)
    if native.why_missing is None:
        batches = Batches("users", options["batch_size"])
        sampling = Sampling(options["likes"], options["others"])
        check_room(rows.user_rows("float32"), loss, batches, sampling, "summed")


def test_long_lists_of_sorted_hinges_have_room_on_a_device() -> None:
    assert mfrank.SONG().ramp_numbers(500, 50_000) == 3 * 50_500
    assert mfrank.SONG().ramp_numbers(10, 300) == 10 * 310
