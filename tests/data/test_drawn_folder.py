"""The bench of data larger than memory draws interactions, and its limit is the kernel's."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import mfrank

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = [
    pytest.mark.skipif(not BENCH.is_dir(), reason="the benches are not here"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what is not mapped"),
]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setenv("PYTHONPATH", str(BENCH.parent))
    names = "harness.drawn_folder", "harness.capped"
    return importlib.import_module(names[0]), importlib.import_module(names[1])


def test_drawn_interactions_are_what_is_asked_for(
    harness: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    draw = harness[0]
    draw.drawn_to(tmp_path / "data", 2000, 1000, 40_000)
    data = mfrank.Interactions.open(tmp_path / "data", verify=True)
    assert (data.n_users, data.n_items) == (2000, 1000)
    assert 25_000 < data.nnz < 45_000
    assert data.user_items.has_canonical_format
    assert (data.user_items.T.tocsr() != data.item_users).nnz == 0
    assert data.counts.items.max() > 20 * np.median(data.counts.items)  # a power law
    assert data.counts.users.max() > 5 * np.median(data.counts.users)


def test_fits_have_the_same_bits_and_the_limit_stops_them(
    harness: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    draw, capped = harness
    draw.drawn_to(tmp_path / "data", 2000, 1000, 100_000)
    job = {"factors": 4, "epochs": 1, "threads": 1}
    mapped = capped.fitted(tmp_path / "data", mapped=True, limit_mib=64, **job)
    memory = capped.fitted(tmp_path / "data", mapped=False, limit_mib=None, **job)
    assert mapped["sha256"] == memory["sha256"]
    assert mapped["peak_anonymous_mib"] > 0
    stopped = capped.fitted(tmp_path / "data", mapped=False, limit_mib=0, **job)
    assert stopped == {"out_of_memory": True}
