"""Evaluations and comparisons show in a notebook what they print."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from pages import page
from strangers import COLD_USERS, N_USERS, held_out, train

import mfrank
from mfrank import ALS, NDCG, compare, evaluate
from mfrank.comparison import Comparison
from mfrank.evaluation import Coverage, Evaluation, evaluate_queries

EVIL = "<script>alert('&')</script>"

quick = partial(compare, repeats=1, n_threads=1, peak_memory=False, metrics=["ndcg@5"])


@pytest.fixture(scope="module")
def split() -> mfrank.Split:
    data = mfrank.synthetic(80, 50, 1200, random_state=1)
    return mfrank.by_ratio(data, train=0.7, valid=0.0, test=0.3)


@pytest.fixture(scope="module")
def model(split: mfrank.Split) -> ALS:
    return ALS(factors=4, iterations=2, random_state=0).fit(split.train)


def test_an_evaluation_shows_a_row_a_metric_and_the_counts(split: mfrank.Split, model: ALS) -> None:
    evaluation = evaluate(model, split.test, metrics=[NDCG @ 10, Coverage @ 10])
    score = evaluation["ndcg@10"]
    shown = page(evaluation)
    assert shown.rows == [
        ["metric", "value", "standard error"],
        ["NDCG@10", f"{score.value:.5f}", f"{score.standard_error:.5f}"],
        ["Coverage@10", f"{evaluation['coverage@10'].value:.5f}", ""],
    ]
    assert shown.texts[-1] == str(evaluation).splitlines()[-1]


def test_without_metrics_there_are_three_at_10(split: mfrank.Split, model: ALS) -> None:
    rows = page(evaluate(model, split.test)).rows
    assert [row[0] for row in rows] == ["metric", "NDCG@10", "Recall@10", "MRR@10"]


def test_without_metrics_queries_are_judged_by_graded_ndcg() -> None:
    judged = mfrank.Judged(np.ones((12, 1)), [*range(4), 0, 2] * 2, [7] * 12)
    graded = NDCG(gain="exponential")

    def rows(*metrics: object) -> list[list[str]]:
        return page(evaluate_queries(judged, np.arange(12.0), *metrics)).rows

    assert rows() == rows([graded @ 5, graded @ 10]) != rows([NDCG @ 5, NDCG @ 10])


@pytest.mark.parametrize("held", ["test", "train"])
def test_what_was_left_out_is_shown(split: mfrank.Split, model: ALS, held: str) -> None:
    evaluation = evaluate(model, getattr(split, held), metrics=NDCG @ 10, train=split.train)
    assert bool(evaluation.n_in_train) == (held == "train")
    notes = [text for text in page(evaluation).texts if "left out" in text]
    assert notes == [line for line in str(evaluation).splitlines() if "left out" in line]
    assert len(notes) == 1 + (held == "train")


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("negatives", [None, 5])
def test_an_evaluation_prints_what_it_shows(cold: bool, negatives: int | None) -> None:
    """The same cells and the same notes, of users of whom some are cold or none."""
    data, test = train(), held_out()
    of = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)
    metrics = [NDCG @ 5, "recall@5", *([] if negatives else [Coverage @ 5])]
    users = None if cold else np.setdiff1d(np.arange(N_USERS), COLD_USERS)
    found = evaluate(of, test, metrics=metrics, users=users, by_row=True, negatives=negatives)
    printed = [re.split(r"  +", line) for line in str(found).splitlines()]
    table, notes = printed[: len(metrics) + 1], printed[len(metrics) + 1 :]
    shown = page(found)
    header = ["metric", "value", "standard error", *(["known users"] if found.n_cold_users else [])]
    assert shown.rows[0] == header
    assert table[0] == [cell.replace("standard error", "std. error") for cell in header]
    assert table[1:] == [[cell for cell in row if cell] for row in shown.rows[1:]]
    assert [note for (note,) in notes] == shown.texts[-len(notes) :]
    told = [note for (note,) in notes if "cold: not in the fit" in note]
    assert bool(told) == bool(found.n_cold_interactions)
    assert bool(found.n_cold_users) == cold
    assert ([found.protocol] in notes) == (negatives is not None)


def test_an_evaluation_of_nothing_prints() -> None:
    empty = Evaluation({}, np.empty(0, np.int64), 0, 0)
    assert "0 users" in repr(empty)
    page(empty)


def test_a_difference_is_the_sentence_that_it_prints(split: mfrank.Split, model: ALS) -> None:
    popular = evaluate(mfrank.Popularity().fit(split.train), split.test)
    difference = evaluate(model, split.test).compare(popular, "ndcg@10")
    assert page(difference).texts == [str(difference)]


@pytest.fixture(scope="module")
def evaluations(split: mfrank.Split, model: ALS) -> dict[str, Evaluation]:
    others = {"popularity": mfrank.Popularity(), "kNN": mfrank.ItemKNN()}
    models = {"RG2": model} | {name: one.fit(split.train) for name, one in others.items()}
    metrics = ["ndcg@10", "recall@10"]
    return {name: evaluate(one, split.test, metrics=metrics) for name, one in models.items()}


def test_groups_print_as_a_table_with_a_row_each(
    split: mfrank.Split, evaluations: dict[str, Evaluation]
) -> None:
    groups = evaluations["RG2"].by_group(mfrank.by_activity(split.train))
    header, *rows = repr(groups).splitlines()
    assert re.split(r"  +", header) == [
        *("group", "users", "NDCG@10", "std. error", "Recall@10", "std. error")
    ]
    expected = [
        [name, str(one.n_users)]
        + [f"{v:.5f}" for s in one.scores.values() for v in (s.value, s.standard_error)]
        for name, one in groups.items()
    ]
    assert [re.split(r"  +", row) for row in rows] == expected
    assert page(groups).rows[1:] == expected
    assert groups == dict(groups)


def test_groups_of_items_print_as_a_table(split: mfrank.Split, model: ALS) -> None:
    groups = mfrank.by_popularity(split.train)
    found = evaluate(model, split.test, metrics="recall@10", item_groups=groups).by_item_group
    assert [row.split("  ")[0] for row in repr(found).splitlines()] == ["group", *found]


@pytest.mark.parametrize("to", ["RG2", "kNN"])
def test_differences_print_as_a_table_that_tells_the_test(
    evaluations: dict[str, Evaluation], to: str
) -> None:
    differences = mfrank.paired_differences(evaluations, "ndcg@10", to=to, samples=100)
    header, *rows, told = repr(differences).splitlines()
    assert re.split(r"  +", header) == [f"{to} minus", "mean", "95 % interval", "p"]
    expected = [
        [n, f"{d.mean:+.5f}", f"{d.low:+.5f} to {d.high:+.5f}", f"{d.p_value:.3g}"]
        for n, d in differences.items()
    ]
    assert [re.split(r"  +", row) for row in rows] == expected
    assert told == f"NDCG@10, corrected bootstrap, {evaluations['RG2'].n_users} users"
    shown = page(differences)
    assert (shown.rows[1:], shown.texts[-1]) == (expected, told)


def test_differences_are_a_dict_that_can_be_copied(evaluations: dict[str, Evaluation]) -> None:
    differences = mfrank.paired_differences(evaluations, "ndcg@10", samples=100)
    again = pickle.loads(pickle.dumps(differences))
    assert (again, again.to, repr(again)) == (differences, "RG2", repr(differences))


def test_no_p_value_is_shown_as_nothing(split: mfrank.Split, model: ALS) -> None:
    evaluation = evaluate(model, split.test)
    difference = evaluation.compare(evaluation, "ndcg@10")
    assert "paired t-test p = 1," in str(difference)
    assert "paired t-test p < 1e-300," in str(replace(difference, p_value=0.0))


@pytest.mark.parametrize("ratio", [None, 1.5])
def test_a_comparison_shows_the_tables_that_it_prints(
    split: mfrank.Split, ratio: float | None
) -> None:
    models = {name: ALS(factors=4, iterations=2, random_state=0) for name in ("one", "two")}
    first, second = quick(split, models=models).rows
    ratios = {"epoch_seconds": ratio, "peak_memory": None, "NDCG@5": ratio}
    result = Comparison((first, replace(second, ratios=ratios)), "one", {})
    printed = [re.split(r"\s{2,}", line) for line in str(result).splitlines() if line]
    shown = page(result).rows
    assert [[cell for cell in row if cell] for row in shown] == printed
    widths = [len(row) for row in shown]
    assert widths == [5 + bool(ratio)] * 3 + [2 + bool(ratio)] * 3


def test_names_of_models_and_notes_are_escaped(split: mfrank.Split) -> None:
    result = quick(split, models={EVIL: ALS(factors=4, iterations=2)})
    noted = Comparison(result.rows, None, result.settings, (EVIL,))
    assert EVIL in repr(noted)
    assert page(noted).texts.count(EVIL) == 3
    assert "<script" not in noted._repr_html_()


def test_a_comparison_of_nothing_prints() -> None:
    empty = Comparison((), None, {}, ("nothing was installed",))
    assert "nothing was installed" in repr(empty)
    page(empty)
