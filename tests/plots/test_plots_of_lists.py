"""Pictures of lists: what is recommended to whom, read back from the Axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pictures import intervals, legend, lines

import mfrank
from mfrank.evaluation import Evaluation

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install mfrank[plot]")

from mfrank import plots
from tests.support.errors import refuses

# --- exposure


def test_exposure_sums_up_the_lists(split: Any, evaluations: dict[str, Evaluation]) -> None:
    axes = plots.exposure(evaluations, split.train)
    training, equal = "training interactions", "equal exposure"
    assert legend(axes) == [*evaluations, training, equal]
    popularity = split.train.counts.items
    order = np.argsort(popularity, kind="stable")
    drawn = lines(axes)
    np.testing.assert_array_equal(*drawn.pop(equal))
    for name, (items, shares) in drawn.items():
        counts = popularity if name == training else evaluations[name].exposure
        assert (items[0], items[-1], shares[0], shares[-1]) == (0, 1, 0, 1)
        np.testing.assert_allclose(np.diff(shares), counts[order] / counts.sum(), atol=1e-12)
    # Popularity lists only the head, so that its curve is the lowest.
    assert axes.get_xlabel() == "items, from the least to the most popular"
    assert axes.get_ylabel() == "share of recommendations"
    half = {name: shares[40] for name, (_, shares) in drawn.items()}
    assert half["popularity"] == 0 < half[training]


def test_popularity_of_another_numbering_is_found_by_id() -> None:
    """A model that was fitted to names in one order, and its data read in another."""
    data = mfrank.synthetic(30, 20, 300, names=True, random_state=0)
    users, items = data.user_ids.labels, data.item_ids.labels
    cells = users[data.entry_users], items[data.user_items.indices]
    other = mfrank.Interactions.from_arrays(*cells, user_ids=users[::-1], item_ids=items[::-1])
    found = mfrank.evaluate(mfrank.Popularity().fit(data), data, filter_already_liked_items=False)
    drawn, again = (lines(plots.exposure(found, each)) for each in (data, other))
    for name, (_, shares) in drawn.items():
        np.testing.assert_array_equal(shares, again[name][1])
    strange = mfrank.Interactions.from_arrays(["x"], ["y"])
    with refuses(ValueError, "ids", remedy="take those of the training data"):
        plots.exposure(found, strange)


def test_models_of_two_numberings_have_the_order_of_their_own_items(split: Any) -> None:
    names = np.array([f"item {row}" for row in range(split.train.n_items)])
    data = mfrank.Interactions.from_arrays(
        split.train.entry_users, names[split.train.user_items.indices], item_ids=names
    )
    other = mfrank.Interactions.from_arrays(
        data.entry_users, names[data.user_items.indices], item_ids=names[::-1]
    )
    of_each = {
        name: mfrank.evaluate(
            mfrank.Popularity().fit(one), one, filter_already_liked_items=False, metrics="recall@5"
        )
        for name, one in {"one": data, "other": other}.items()
    }
    drawn = lines(plots.exposure(of_each, data))
    np.testing.assert_array_equal(*(drawn[name][1] for name in of_each))


def test_items_that_nobody_had_are_the_least_popular(models: dict[str, Any], split: Any) -> None:
    names = np.array([f"item {row}" for row in range(4)])
    fitted = mfrank.Interactions.from_arrays([0, 0, 1, 1, 2, 2], names[[0, 1, 0, 2, 3, 0]])
    model = mfrank.Popularity().fit(fitted)
    found = mfrank.evaluate(model, fitted, metrics="recall@1", filter_already_liked_items=False)
    train = mfrank.Interactions.from_arrays([0, 1, 2], names[[1, 2, 3]])  # none has the favorite
    drawn = lines(plots.exposure(found, train))
    np.testing.assert_allclose(drawn["recommendations"][1], [0, 1, 1, 1, 1])
    np.testing.assert_allclose(drawn["training interactions"][1], [0, 0, 1 / 3, 2 / 3, 1])
    np.testing.assert_allclose(drawn["recommendations"][0], [0, 0.25, 0.5, 0.75, 1])
    for number in (0, 1):  # of training interactions
        some = np.r_[np.ones(number), np.zeros(3 - number)]
        little = mfrank.Interactions.from_arrays([0, 1, 2], names[[1, 2, 3]], some)
        assert lines(plots.exposure(found, little))["training interactions"][1][-1] == number


def test_exposure_needs_lists_of_the_same_items(split: Any, models: dict[str, Any]) -> None:
    auc = mfrank.evaluate(models["RG2"], split.test, metrics="auc")
    with refuses(ValueError, "negatives"):
        plots.exposure(auc, split.train)
    whole = mfrank.evaluate(models["RG2"], split.test)
    with refuses(ValueError, "train"):
        plots.exposure(whole, mfrank.synthetic(9, 5, 20))


# --- activity


def test_activity_shows_the_mean_of_every_group(
    split: Any, evaluations: dict[str, Evaluation]
) -> None:
    axes = plots.activity(evaluations, split.train, "recall@10")
    groups = mfrank.by_activity(split.train)
    assert legend(axes) == list(evaluations)
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert [label.partition("\n")[0] for label in labels] == list(groups.names)
    for name, bar in zip(evaluations, axes.containers, strict=True):
        found = evaluations[name].by_group(groups)
        x, y = bar.lines[0].get_data()
        np.testing.assert_array_equal(np.round(x), range(len(groups.names)))
        wanted = [found[group]["recall@10"].value for group in groups.names]
        np.testing.assert_allclose(np.asarray(y, dtype=float), wanted)
    assert axes.get_xlabel() == "users by their training interactions"
    assert axes.get_ylabel() == "Recall@10, 95 % interval"


def test_intervals_of_groups_reach_1_96_standard_errors(
    split: Any, evaluations: dict[str, Evaluation]
) -> None:
    axes = plots.activity(evaluations, split.train, "recall@10")
    groups = mfrank.by_activity(split.train)
    scores = [
        evaluations[name].by_group(groups)[group]["recall@10"]
        for name in evaluations
        for group in groups.names
    ]
    wanted = [
        (s.value - 1.96 * s.standard_error, s.value + 1.96 * s.standard_error) for s in scores
    ]
    np.testing.assert_allclose(intervals(axes, 1), wanted, rtol=1e-3, atol=1e-4)


def test_models_are_side_by_side_around_the_place_of_their_group(
    split: Any, evaluations: dict[str, Evaluation]
) -> None:
    for number in (1, 2, 3):
        some = dict(list(evaluations.items())[:number])
        axes = plots.activity(some, split.train)
        x = np.array([bar.lines[0].get_xdata() for bar in axes.containers])
        np.testing.assert_allclose(x.mean(axis=0), axes.get_xticks())
        assert (np.diff(x, axis=0) > 0).all()
        assert np.ptp(x, axis=0).max() < 0.5
        left, right = axes.get_xlim()
        assert (left, right) == (-0.5, len(axes.get_xticks()) - 0.5)


def test_groups_are_named_with_their_number_of_users(evaluations: dict[str, Evaluation]) -> None:
    own = mfrank.Groups.of(["even", "odd"] * 100)
    one = evaluations["RG2"]
    axes = plots.activity(one, own)
    found = one.by_group(own)
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels == [f"{name}\n{found[name].n_users} users" for name in ("even", "odd")]
    assert axes.get_xlabel() == "groups of users"
    assert axes.get_legend() is None  # one model needs no name


def test_models_judged_by_other_users_share_the_groups_by_name(
    split: Any, models: dict[str, Any]
) -> None:
    own = mfrank.Groups.of(["even", "odd"] * 100)
    of_each = {
        name: mfrank.evaluate(models["RG2"], split.test, users=users)
        for name, users in {"some": range(0, 200, 2), "all": range(200)}.items()
    }
    axes = plots.activity(of_each, own)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["even", "odd"]
    assert [len(bar.lines[0].get_xdata()) for bar in axes.containers] == [1, 2]


def test_a_metric_is_drawn_from_zero_unless_an_interval_is_below(
    split: Any, models: dict[str, Any]
) -> None:
    whole = mfrank.evaluate(models["RG2"], split.test, metrics="recall@10")
    assert plots.activity(whole, split.train).get_ylim()[0] == 0
    per_user = whole["recall@10"].per_user
    assert per_user is not None
    two = [whole.users[np.flatnonzero(per_user == share)[0]] for share in (0, 1)]
    few = mfrank.evaluate(models["RG2"], split.test, metrics="recall@10", users=two)
    axes = plots.activity(few, mfrank.Groups.of(["all"] * 200))
    ((low, _),) = intervals(axes, 1)
    assert axes.get_ylim()[0] < low < 0


def test_metrics_of_the_catalog_have_no_groups(split: Any, models: dict[str, Any]) -> None:
    found = mfrank.evaluate(models["RG2"], split.test, metrics="gini@5")
    with refuses(ValueError, "metric"):
        plots.activity(found, split.train)
