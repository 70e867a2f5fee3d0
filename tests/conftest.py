"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets, or skip: MFRANK_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("MFRANK_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not there (set MFRANK_DATA to its folder)")
    return folder
