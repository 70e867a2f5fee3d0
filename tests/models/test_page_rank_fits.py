"""How a walk's fit is watched, interrupted, compared and run from the shell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import mfrank
from mfrank import SupervisedPageRank
from mfrank.cli.main import main
from mfrank.data import Interactions
from mfrank.models import page_rank as estimator
from mfrank.pagerank import GBN, GBP, GFN
from tests.support.errors import refuses

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
    told = capsys.readouterr().err
    assert "fit" in told
    assert "step" in told
    assert f"objective {shown.store.history[-1]['objective']:.6g}" in told
    np.testing.assert_array_equal(shown.weights, quiet.weights)


def test_options_reach_what_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    of = estimator.Problem.of

    class Watched:
        @staticmethod
        def of(*given: Any, **named: Any) -> Any:
            seen.append((*given, named))
            return of(*given, **named)

    monkeypatch.setattr(estimator, "Problem", Watched)
    options: dict[str, Any] = {"alpha": 0.4, "accuracy": "theory", "n_threads": 2}
    walk(queries=3, candidates=5, backend="reference", **options).fit(log())
    ((graphs, _, named),) = seen
    assert named == {**options, "backend": "reference"}
    judged = ~np.isnan(graphs.labels)
    assert graphs.n_queries == 3
    assert np.bincount(graphs.query_of[judged & (graphs.labels == 0)]).tolist() == [5, 5, 5]


def test_the_store_has_counts_and_the_log_of_the_prior_beside_the_walk() -> None:
    data = log()
    model = walk().fit(data)
    np.testing.assert_array_equal(model.store.counts.users, data.counts.users)
    np.testing.assert_array_equal(model.store.counts.items, data.counts.items)
    np.testing.assert_allclose(model.store.item_biases, np.log(model.item_prior), atol=1e-12)


def test_a_walk_on_other_items_is_damage() -> None:
    store = walk().fit(log()).store
    others = Interactions.from_arrays([0, 0, 1, 1], [0, 1, 1, 2], timestamps=[0, 1, 0, 1])
    extras = {**store.extras, **SupervisedPageRank(None).fit(others).store.extras}
    with refuses(
        ValueError, place="the SupervisedPageRank saved with the store", remedy="restore it"
    ):
        SupervisedPageRank._from_store(replace(store, extras=extras))


def test_values_below_one_are_clicks_like_others() -> None:
    data = log()
    low = Interactions.from_arrays(
        data.entry_users, data.user_items.indices, np.full(data.nnz, 0.25), data.timestamps
    )
    np.testing.assert_array_equal(
        walk().fit(low).recommend([0, 1], N=4), walk().fit(data).recommend([0, 1], N=4)
    )


def test_a_single_click_is_enough_for_a_walk_that_learns_nothing() -> None:
    one = Interactions.from_arrays([0], [0], timestamps=[5])
    assert SupervisedPageRank(None).fit(one).item_prior.tolist() == [1.0]


def test_options_are_checked_again_at_a_fit() -> None:
    model = walk()
    model.alpha = 3.0
    with refuses(ValueError, "alpha"):
        model.fit(log())


def test_zeros_of_a_given_row_are_no_clicks() -> None:
    model, n = walk().fit(log()), 20
    row = sp.csr_array(np.eye(1, n, 3))
    with_zeros = sp.csr_array((np.array([0.0, 1.0, 0.0]), np.array([1, 3, 7]), [0, 3]), (1, n))
    only_zeros = sp.csr_array((np.array([0.0, 0.0]), np.array([1, 7]), [0, 2]), (1, n))
    options = {"N": n, "recalculate_user": True, "filter_already_liked_items": False}
    for given, same in ((with_zeros, row), (only_zeros, sp.csr_array((1, n)))):
        found, expected = (model.recommend("new", rows, **options) for rows in (given, same))
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.scores, expected.scores)


def test_explanations_are_asked_by_id_or_by_row_and_name_what_is_wrong() -> None:
    data = log()
    named = Interactions.from_arrays(
        [f"u{user}" for user in data.entry_users],
        [f"i{item}" for item in data.user_items.indices],
        timestamps=data.timestamps,
    )
    model = walk().fit(named)
    user, item = model.user_ids.rows(["u3"])[0], model.item_ids.rows(["i7"])[0]
    by_id, by_row = (
        model.explain("u3", None, "i7"),
        model.explain(int(user), None, int(item), by_row=True),
    )
    assert by_id.score == by_row.score
    assert [path.mass for path in by_id.paths] == [path.mass for path in by_row.paths]
    for asked, argument in (
        (("u3", None, "i7", 0), "N"),
        ((["u3"], None, "i7"), "userid"),
        (("u3", None, ["i7"]), "itemid"),
        (("u3", None, "x"), "itemid"),
    ):
        with refuses((TypeError, ValueError), argument):
            model.explain(*asked)
    assert len(model.explain("u3", None, "i7", 1).paths) == 1


def test_masses_of_the_prior_are_those_of_all_items() -> None:
    """Somebody without items restarts at any, by their share: no path has more than is there."""
    data = log()
    model = SupervisedPageRank(None).fit(data.take(data.entry_users != 4))
    for item in range(3):
        score, paths = model.explain(4, None, item, N=10**6)
        assert score == pytest.approx(model.item_prior[item])
        assert 0.7 * score < sum(path.mass for path in paths) <= score + 1e-9


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
