"""A flag that is neither True nor False is refused wherever it is given: "no" would be true."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("resource", reason="memory is limited by the resource module")

import fuzz
import public_calls

KINDS = ("ALS", "Recommender", "FactorStore", "Interactions", "Reranker")
"""Of which all methods are called: those of other models are the same."""
UNTAKEN = {"deep", "show_progress"}
"""Of scikit-learn, whose own estimators take anything; and what only shows."""
DRAWS = 12


def flags_of(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if isinstance(p.default, bool) and p.name not in UNTAKEN]


def entries() -> list[public_calls.Entry]:
    every = (e for e in public_calls.entries() if e.weight >= 1 and e.name != "serving.ask")
    return [e for e in every if "." not in e.name or e.name.partition(".")[0] in KINDS]


@pytest.mark.filterwarnings("ignore:.* no effect")  # options are drawn, each beside any other
@pytest.mark.parametrize("given", ["no", None, 1], ids=str)
def test_flags_are_true_or_false(
    given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, refused, taken = np.random.default_rng(0), set[str](), set[str]()
    for entry in entries():
        try:
            flags = flags_of(entry.function(rng))
        except (*fuzz.REFUSALS, AttributeError):
            continue
        for flag in flags:
            name = f"{entry.name}({flag}=)"
            for number in range(DRAWS):
                folder = tmp_path / f"{name}-{number}"
                folder.mkdir()
                monkeypatch.chdir(folder)
                try:
                    function = entry.function(rng)
                    arguments = public_calls.drawn(function, rng, 0.0, entry.name) | {flag: given}
                    function(**arguments)
                except fuzz.REFUSALS as error:  # perhaps of another argument
                    if f"{flag} must be True or False" not in str(error):
                        continue
                    refused.add(name)
                else:
                    taken.add(name)
                break
    assert not taken
    assert len(refused) > 60
