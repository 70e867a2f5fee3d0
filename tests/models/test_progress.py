"""The bar passes steps through, and says where the fit is."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fits import als, same_factors
from problems import toy

import mfrank
from mfrank.arrays import progress_bar


@pytest.fixture(params=["tqdm", "plain"])
def bar(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way of showing progress: with tqdm, and where it is not installed."""
    name: str = request.param
    if name == "tqdm":
        pytest.importorskip("tqdm", reason="needs tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setenv("COLUMNS", "200")  # tqdm cuts a line, which is longer where epochs are quick
    monkeypatch.setenv("LINES", "50")
    return name


@pytest.mark.usefixtures("bar")
def test_a_long_first_step_is_shown_to_have_begun(capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar(5, "descent", "walk") as advance:
        begun = capfd.readouterr()
        advance(1)
    assert begun.out == ""
    for part in ("descent", "0/5", "walk"):
        assert part in begun.err
    assert "1/5" in (told := capfd.readouterr().err)
    assert told.endswith("\n")


@pytest.mark.usefixtures("bar")
def test_a_fit_that_stops_early_or_fails_ends_its_line(capfd: pytest.CaptureFixture[str]) -> None:
    als().fit(toy(), show_progress=True, callback=lambda *_: True)
    assert capfd.readouterr().err.endswith("\n")

    def failing(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        als().fit(toy(), show_progress=True, callback=failing)
    err = capfd.readouterr().err
    assert "1/3" in err
    assert err.endswith("\n")


def test_the_objective_is_shown_where_it_is_tracked(
    bar: str, capfd: pytest.CaptureFixture[str]
) -> None:
    model = als(track_objective=True).fit(toy(), show_progress=True)
    objective = model.store.history[-1]["objective"]
    assert f"objective {objective:.6g}" in capfd.readouterr().err, bar


@pytest.mark.usefixtures("bar")
def test_models_without_epochs_of_their_own_show_their_steps(
    capfd: pytest.CaptureFixture[str],
) -> None:
    rng = np.random.default_rng(0)
    judged = mfrank.Judged(rng.random((40, 3)), rng.integers(0, 3, 40), np.repeat(range(8), 5))
    ranker = mfrank.LinearRanker(iterations=2, random_state=0).fit(judged, show_progress=True)
    loss = ranker.store.history[-1]["objective"]
    assert f"objective {loss:.6g}" in (told := capfd.readouterr().err)
    assert "2/2" in told
    assert told.endswith("\n")


@pytest.mark.usefixtures("bar")
def test_a_fit_is_the_same_with_and_without(capfd: pytest.CaptureFixture[str]) -> None:
    quiet = als().fit(toy())
    assert capfd.readouterr().err == ""
    shown = als().fit(toy(), show_progress=True)
    assert "3/3" in capfd.readouterr().err
    assert same_factors(quiet, shown)


def test_the_held_out_metric_is_shown_with_its_best(
    bar: str, capfd: pytest.CaptureFixture[str]
) -> None:
    split = mfrank.by_ratio(toy(), random_state=0)
    stopping = mfrank.EarlyStopping(split.valid, "recall@3", patience=9)
    model = als().fit(split.train, stopping=stopping, show_progress=True)
    values = [float(epoch["valid"]) for epoch in model.store.history]  # type: ignore[arg-type]
    err = capfd.readouterr().err
    assert f"Recall@3 {values[-1]:.4f} (best {max(values):.4f})" in err, bar
    model.set_params(track_objective=True).fit(split.train, stopping=stopping, show_progress=True)
    objective = model.store.history[-1]["objective"]
    assert f"objective {objective:.6g}, Recall@3 {values[-1]:.4f}" in capfd.readouterr().err


class Rule:
    """A rule of the caller's own, which names no metric."""

    def check(self, train: object) -> None: ...

    def value(self, factors: object, train: object, backend: str, n_threads: int) -> float:
        return 0.25

    def is_over(self, values: object) -> bool:
        return False


def test_a_rule_without_a_metric_is_shown_all_the_same(
    bar: str, capfd: pytest.CaptureFixture[str]
) -> None:
    als().fit(toy(), stopping=Rule(), show_progress=True)
    told = capfd.readouterr().err
    assert "held-out value 0.2500 (best 0.2500)" in told, bar
    assert "fit" in told
    assert "epoch" in told


def test_of_epochs_that_rank_alike_the_first_is_kept() -> None:
    kept = als(iterations=3).fit(toy(), stopping=Rule())
    assert same_factors(kept, als(iterations=1).fit(toy()))
    assert [record["valid"] for record in kept.store.history] == [0.25] * 3
