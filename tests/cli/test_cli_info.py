"""``mfrank info`` tells what is installed, and what a saved model is."""

from __future__ import annotations

import json
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.arrays import counted, usable_cores
from mfrank.cli.main import main
from mfrank.store import FactorStore, epochs_of, seconds_of


def lines_of(text: str) -> dict[str, str]:
    """What is printed, by the names at the begin of its lines."""
    return {line[:14].strip(): line[14:] for line in text.splitlines()}


def asked(capsys: pytest.CaptureFixture[str], *more: object) -> tuple[dict[str, str], Any]:
    """What is printed as lines, and as JSON."""
    capsys.readouterr()
    assert main(["info", *map(str, more)]) == 0
    text = capsys.readouterr().out
    assert main(["info", *map(str, more), "--json", "-"]) == 0
    return lines_of(text), json.loads(capsys.readouterr().out)


def test_what_is_installed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lines, content = asked(capsys)
    assert lines == content
    assert lines["mfrank"] == mfrank.__version__
    assert lines["python"].split(" on ") == [
        platform.python_version(),
        f"{platform.system()} {platform.machine()}",
    ]
    assert (lines["numpy"], lines["scipy"]) == (version("numpy"), version("scipy"))
    assert lines["threads"] == f"{counted(usable_cores(), 'core')} may be used"
    assert lines["on reference"] == "runs"
    for name in mfrank.backends.names():
        why = mfrank.backends.named(name).why_unavailable()
        assert lines[f"on {name}"].startswith(f"cannot run: {why}" if why else "runs")
    if lines["on cpu"].startswith("runs"):
        isa = import_module("mfrank._ext").isa()
        assert lines["on cpu"] == f"runs, instruction set {isa}"


def test_of_a_package_that_is_missing_the_extra_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(package: str) -> str:
        if package in ("numpy", "scipy"):
            return "1.2.3"
        raise PackageNotFoundError(package)

    monkeypatch.setattr("mfrank.cli.commands.info.version", found)
    lines, _ = asked(capsys)
    begin = "not installed: pip install mfrank["
    extras = {name: text[len(begin) : -1] for name, text in lines.items() if begin in text}
    assert {"pandas", "pyarrow", "implicit", "faiss-cpu", "onnx", "fastapi"} <= {*extras}
    needed = requires("mfrank") or []
    for package, extra in extras.items():
        assert any(need.startswith(package) and f'extra == "{extra}"' in need for need in needed), (
            package
        )


@pytest.fixture
def model(tmp_path: Path) -> mfrank.ALS:
    data = mfrank.synthetic(80, 50, 1_500, random_state=0)
    rated = mfrank.Interactions.from_arrays(
        data.entry_users, data.user_items.indices, 1 + np.arange(data.nnz) % 5
    ).at_least(2)
    fitted = mfrank.ALS(mfrank.WRMF(alpha=3), factors=3, iterations=2, random_state=0)
    fitted.fit(rated).save(tmp_path / "m")
    return fitted


def test_a_model_is_described(
    model: mfrank.ALS, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, content = asked(capsys, "--model", tmp_path / "m")
    store = model.store
    assert store.counts is not None
    n_entries = int(store.counts.users.sum())
    assert n_entries > 1_000
    assert lines == {
        "model": repr(FactorStore.load(tmp_path / "m")),
        "options": lines["options"],
        "users": store.user_ids.summary,
        "items": store.item_ids.summary,
        "interactions": f"{n_entries:,}",
        "at least": "2, of the values",
        "history": f"2 epochs in {seconds_of(store.history):.2f} s",
        "made with": ", ".join(f"{name} {text}" for name, text in content["versions"].items()),
    }
    made = eval(f"mfrank.ALS({lines['options']})", {"mfrank": mfrank, "WRMF": mfrank.WRMF})
    assert made.get_params(deep=False) == model.get_params(deep=False)
    assert content == {
        "model": "ALS",
        "options": json.loads(json.dumps(dict(store.fitter["options"]))),
        "users": 80,
        "items": 50,
        "factors": 3,
        "dtype": "float32",
        "interactions": n_entries,
        "threshold": 2,
        "where": {},
        "event_weights": {},
        "epochs": epochs_of(store.history),
        "seconds": pytest.approx(seconds_of(store.history)),
        "history": json.loads(json.dumps(list(store.history))),
        "versions": dict(FactorStore.load(tmp_path / "m").versions),
    }


def test_of_factors_alone_there_are_no_interactions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    FactorStore(rng.random((4, 2)), rng.random((3, 2))).save(tmp_path / "s")
    lines, content = asked(capsys, "--model", tmp_path / "s")
    assert {"interactions", "at least", "history"}.isdisjoint(lines)
    assert (content["interactions"], content["threshold"], content["history"]) == (None, None, [])
    assert (content["users"], content["items"], content["factors"]) == (4, 3, 2)
