"""What the tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def without_peak_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ``compare``, which takes a new process for each contender; tests/comparison measure it."""
    monkeypatch.setattr("mfrank.comparison.protocol.peak_memory", lambda *_: None)
