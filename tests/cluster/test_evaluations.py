"""Users judged on workers: every number is that of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines import Shuffled

import mfrank
from mfrank.cli.main import main
from mfrank.data import write_table
from tests.support.errors import refuses

DATA = mfrank.synthetic(200, 90, 4000, random_state=0)
SPLIT = mfrank.by_ratio(DATA, train=0.7, valid=0.0, test=0.3, random_state=0)
METRICS = ["ndcg@10", "recall@5", "auc", "coverage@3", "coverage@10", "novelty@10", "map@7"]


@pytest.fixture(scope="module")
def model() -> mfrank.ALS:
    return mfrank.ALS(factors=8, iterations=2, random_state=0).fit(SPLIT.train)


def told(found: mfrank.Evaluation) -> Any:
    """All that it has, in a form that can be compared."""
    return (
        repr({m: (s.value, s.standard_error) for m, s in found.scores.items()}),
        [s.per_user.tobytes() for s in found.scores.values() if s.per_user is not None],
        found.users.tobytes(),
        None if found.exposure is None else found.exposure.tobytes(),
        (found.n_without_test_items, found.n_in_train, found.protocol),
    )


@pytest.mark.parametrize("n_workers", [1, 2, 3, 7])
def test_every_metric_and_group_has_the_numbers_of_one_process(
    model: mfrank.ALS, n_workers: int
) -> None:
    groups = mfrank.by_popularity(SPLIT.train)
    options: dict[str, Any] = {"train": SPLIT.train, "metrics": METRICS, "item_groups": groups}
    alone = mfrank.evaluate(model, SPLIT.test, **options)
    there = mfrank.evaluate(model, SPLIT.test, cluster=Shuffled(n_workers), **options)
    assert told(there) == told(alone)
    assert there.by_item_group.keys() == alone.by_item_group.keys()
    for name, own in alone.by_item_group.items():
        assert told(there.by_item_group[name]) == told(own)


def test_some_users_and_steered_lists_do(model: mfrank.ALS) -> None:
    steer = mfrank.Steering(popularity_penalty=0.3)
    options: dict[str, Any] = {"users": np.arange(0, 200, 3)[::-1], "steer": steer}
    alone = mfrank.evaluate(model, DATA, train=SPLIT.train, **options)
    there = mfrank.evaluate(model, DATA, train=SPLIT.train, cluster=Shuffled(2), **options)
    assert told(there) == told(alone)
    assert there.n_in_train > 0


def test_each_worker_has_two_tasks_at_a_time(model: mfrank.ALS) -> None:
    engine = Shuffled(3)
    mfrank.evaluate(model, SPLIT.test, cluster=engine)
    held, read = 1, 1  # the task that has the model and the data; the last one that was done
    assert engine.most_alive == held + 2 * 3 + read


def test_users_who_are_folded_in_do() -> None:
    split = mfrank.held_out_users(DATA, test=0.2, random_state=0)
    model = mfrank.ALS(factors=8, iterations=2, random_state=0).fit(split.train)
    alone = mfrank.evaluate(model, split.test)
    assert told(mfrank.evaluate(model, split.test, cluster=Shuffled(3))) == told(alone)


def test_worker_processes_do_and_nobody_to_judge_is_no_error(model: mfrank.ALS) -> None:
    options: dict[str, Any] = {"train": SPLIT.train, "metrics": METRICS}
    alone = mfrank.evaluate(model, SPLIT.test, **options)
    assert told(mfrank.evaluate(model, SPLIT.test, cluster=2, **options)) == told(alone)
    none = np.empty(0, int)
    assert mfrank.evaluate(model, SPLIT.test, users=none, cluster=Shuffled(2)).n_users == 0


def test_the_command_tells_the_same(
    model: mfrank.ALS, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model.save(tmp_path / "model")
    test = SPLIT.test.user_items.tocoo()
    write_table(tmp_path / "test.csv", {"user": test.coords[0], "item": test.coords[1]})
    command = ["evaluate", "--model", str(tmp_path / "model"), "--test", str(tmp_path / "test.csv")]
    assert main(command) == 0
    alone = capsys.readouterr().out
    assert "NDCG@10" in alone
    assert main([*command, "--cluster", "2"]) == 0
    assert capsys.readouterr().out == alone


def test_what_cannot_be_divided_is_refused(model: mfrank.ALS) -> None:
    with refuses(ValueError, "cluster"):
        mfrank.evaluate(model, SPLIT.test, negatives=10, cluster=2)
    with refuses(TypeError, "cluster"):
        mfrank.evaluate(model, SPLIT.test, cluster=2.5)  # type: ignore[arg-type]
