"""How a walk's fit is watched, interrupted, compared and run from the shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mfrank
from mfrank import SupervisedPageRank
from mfrank.cli.main import main
from mfrank.data import Interactions
from mfrank.pagerank import GBN, GBP, GFN

STEPS = 6


def log(seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(30), 6)
    items = np.concatenate([rng.choice(20, 6, replace=False, p=chances()) for _ in range(30)])
    return Interactions.from_arrays(users, items, timestamps=np.zeros(len(users), int))


def chances() -> np.ndarray:
    weights = np.arange(1.0, 21)
    return weights / weights.sum()


def walk(method: GBN | GBP | GFN | None = None, **options: object) -> SupervisedPageRank:
    return SupervisedPageRank(method or GBP(iterations=STEPS), random_state=0, **options)


def after(steps: int) -> Callable[..., None]:
    def stop(step: int, *_: object) -> None:
        if step + 1 == steps:
            raise KeyboardInterrupt

    return stop


def test_an_interrupt_leaves_the_complete_steps() -> None:
    model = walk()
    with pytest.raises(KeyboardInterrupt):
        model.fit(log(), callback=after(3))
    wanted = walk().fit(log(), callback=lambda step, *_: step == 2)
    assert len(model.store.history) == 3
    np.testing.assert_array_equal(model.weights, wanted.weights)
    np.testing.assert_array_equal(model.recommend([0, 1], N=4), wanted.recommend([0, 1], N=4))


def test_an_interrupt_before_the_first_step_leaves_no_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def learn(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GBP, "learn", learn)
    model = walk()
    with pytest.raises(KeyboardInterrupt):
        model.fit(log())
    with pytest.raises(mfrank.NotFittedError):
        _ = model.store


@pytest.mark.parametrize(
    "method",
    [
        GBN(iterations=STEPS),
        GBP(iterations=STEPS),
        GFN(iterations=STEPS, random_state=0),
        GFN(random_state=0),
    ],
)
def test_progress_is_shown_and_changes_nothing(
    method: GBN | GBP | GFN, capsys: pytest.CaptureFixture[str]
) -> None:
    def some(step: int, *_: object) -> bool:
        return step == STEPS - 1

    quiet = walk(method).fit(log(), callback=some)
    assert not capsys.readouterr().err
    shown = walk(method).fit(log(), callback=some, show_progress=True)
    assert "fit" in capsys.readouterr().err
    np.testing.assert_array_equal(shown.weights, quiet.weights)


def test_a_walk_is_compared_with_factors() -> None:
    split = mfrank.by_ratio(log(), random_state=0)
    models = {"walk": walk(), "factors": mfrank.ALS(factors=4, iterations=2, random_state=0)}
    compared = mfrank.compare(
        split, models=models, repeats=1, metrics=["ndcg@5"], peak_memory=False
    )
    own = next(row for row in compared.rows if row.model == "walk")
    alone = mfrank.evaluate(
        walk().fit(split.train), split.test, train=split.train, metrics=["ndcg@5"]
    )
    assert own.evaluation["ndcg@5"].value == alone["ndcg@5"].value
    assert own.epoch_seconds < own.total_seconds


def test_ctrl_c_saves_what_was_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = GBP.learn

    def interrupted(*given: object) -> object:
        for tuned in whole(*given):  # type: ignore[arg-type]
            if tuned.step > 3:
                raise KeyboardInterrupt
            yield tuned

    monkeypatch.setattr(GBP, "learn", interrupted)
    clicks, folder = tmp_path / "clicks.csv", str(tmp_path / "walk")
    data = log()
    rows = zip(data.entry_users, data.user_items.indices, data.timestamps, strict=True)
    clicks.write_text(
        "user,item,timestamp\n" + "".join(f"{user},{item},{time}\n" for user, item, time in rows)
    )
    command = ["pagerank", str(clicks), "--model", folder, "--method", f"gbp:iterations={STEPS}"]
    assert main(command) == 130
    assert "saved the model after 3 steps" in capsys.readouterr().err
    assert len(mfrank.load(folder).store.history) == 3
