"""Commands run in this process beside small files, with what they call recorded."""

from __future__ import annotations

import functools
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main

COMMANDS = "mfrank.cli.commands"
DATA = mfrank.Interactions.from_arrays(
    *(np.array(each) for each in (["a", "b", "c", "d"] * 3, [f"i{n % 5}" for n in range(12)])),
    np.arange(12) % 5 + 1,
    np.arange(12) + 1_700_000_000,
)
Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


def make_files(folder: Path) -> None:
    """Write a file of interactions, further files, and two models, m and n."""
    rows = zip(DATA.user_ids.raw(DATA.entry_users), DATA.item_ids.raw(DATA.user_items.indices),
               DATA.user_items.data, np.asarray(DATA.timestamps), strict=True)  # fmt: skip
    lines = ["user,item,rating,timestamp", *(",".join(map(str, row)) for row in rows)]
    (folder / "plays.csv").write_text("\n".join(lines) + "\n")
    (folder / "more.csv").write_text("user,item,rating\na,i0,5\nzoe,i1,4\n")
    (folder / "items.txt").write_text("i1\ni2\n")
    model = mfrank.ALS(factors=2, iterations=2, random_state=0).fit(DATA)
    model.save(folder / "m")
    model.save(folder / "n")


def recorded(monkeypatch: pytest.MonkeyPatch, place: str, answer: Any = None) -> Calls:
    """Calls of a function that is replaced: it keeps its signature and returns the answer."""
    calls: Calls = []
    real = pkgutil.resolve_name(place)

    @functools.wraps(real)
    def instead(*args: Any, **given: Any) -> Any:
        calls.append((args, given))
        return answer(*args) if callable(answer) else answer

    monkeypatch.setattr(place, instead)
    return calls


def run(line: str) -> None:
    assert main(line.split()) == 0


def defaults(function: Callable[..., Any], names: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    return {name: parameters[name].default for name in names}


def same(one: mfrank.Interactions, other: mfrank.Interactions) -> bool:
    """Whether they have the same cells."""
    return bool((one.user_items != other.user_items).nnz == 0)
