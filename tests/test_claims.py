"""What the pages say of the code, where the code can tell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mfrank.models.option_checks import loss_classes

ROOT = Path(__file__).parents[1]
COUNT = re.compile(r"\b(seventeen|eighteen|nineteen|twenty)\b", re.IGNORECASE)


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_pages_count_the_ranking_losses_alike(page: str) -> None:
    assert len(loss_classes()) == 19
    assert set(COUNT.findall((ROOT / page).read_text())) == {"nineteen"}
