"""The reference has every public name, and each class that the pages explain is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mfrank
from mfrank.models import loss_classes, objective_classes

DOCS = Path(__file__).parents[2] / "docs"
if not DOCS.is_dir():
    pytest.skip("the pages are not beside the tests", allow_module_level=True)


def test_the_reference_has_every_public_name_once() -> None:
    text = "\n".join(page.read_text() for page in DOCS.glob("reference/*.rst"))
    named = re.findall(r"^\.\. auto(?!module)\w+:: mfrank\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(mfrank.__all__)


def test_every_objective_has_its_equation() -> None:
    sections = re.split(r"^## ", (DOCS / "objectives.md").read_text(), flags=re.MULTILINE)
    for name in objective_classes():
        assert any(part.startswith(f"{name}\n") and "$$" in part for part in sections), name


def test_every_loss_has_its_entry() -> None:
    entries = set(re.findall(r"^\*\*(\w+)\*\*", (DOCS / "losses.md").read_text(), re.MULTILINE))
    assert entries == set(loss_classes())
