"""Histories that hypothesis draws, and what comes before a place of one, from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from mfrank import Interactions

N_ITEMS = 7
HISTORIES = st.lists(
    st.lists(st.integers(0, N_ITEMS - 1), max_size=N_ITEMS, unique=True), min_size=1, max_size=6
).filter(lambda histories: any(histories))
DECAYS = st.sampled_from([(1.0,), (0.3,), (0.5, 2.0), (0.2, 1.0, 5.0)])


def data_of(histories: list[list[int]], start: int = 10**9) -> Interactions:
    users = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
    times = np.concatenate([np.arange(len(history)) for history in histories])
    items = np.concatenate([np.asarray(history, int) for history in histories])
    shape = len(histories), N_ITEMS
    return Interactions.from_arrays(users, items, timestamps=start + times, shape=shape)


def of_history(before: list[int], decays: tuple[float, ...]) -> np.ndarray[Any, Any]:
    row = np.zeros((len(decays), N_ITEMS))
    for block, decay in enumerate(decays):
        for distance, item in enumerate(reversed(before)):
            if distance < np.ceil(4 * decay):
                row[block, item] = np.exp(-distance / decay)
    return row.ravel()
