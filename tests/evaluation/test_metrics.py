"""Metrics against trec_eval, scikit-learn and brute force."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfrank import evaluation
from mfrank.arrays import CSR
from mfrank.evaluation import (
    ALL,
    AUC,
    AUPRC,
    MAP,
    MRR,
    NDCG,
    CatalogMetric,
    Coverage,
    Gini,
    HitRate,
    JudgedLists,
    LimitedAUC,
    ListMetric,
    Metric,
    Precision,
    RankingMetric,
    Recall,
    definitions,
    judge,
    metric,
    stand,
)
from tests.support.errors import refuses

Dense = NDArray[np.float64]
CUTOFFS = (1, 3, 5, 10, 40)


def judged(scores: Dense, relevance: Dense) -> JudgedLists:
    """Whole rankings by descending score, ties by lower id."""
    ids = np.argsort(-scores, axis=1, kind="stable").astype(np.int32)
    return judge(ids, CSR.from_scipy(sp.csr_array(relevance), np.float64), scores.shape[1])


def on_lists(wanted: Metric, scores: Dense, relevance: Dense) -> Dense:
    assert isinstance(wanted, ListMetric)
    return wanted.per_user(judged(scores, relevance))


def on_rankings(wanted: Metric, scores: Dense, relevance: Dense) -> Dense:
    assert isinstance(wanted, RankingMetric)
    return wanted.per_user(stand(scores, CSR.from_scipy(sp.csr_array(relevance), np.float64)))


def random_case(
    seed: int, n_users: int = 30, n_items: int = 25, tied: bool = False
) -> tuple[Dense, Dense]:
    """Scores, all distinct or of few values, and relevance 0 to 4 with at least one above 0."""
    rng = np.random.default_rng(seed)
    ranks = rng.permuted(np.tile(np.arange(float(n_items)), (n_users, 1)), axis=1)
    relevance = rng.integers(1, 5, size=ranks.shape) * (rng.random(ranks.shape) < 0.25)
    relevance[np.arange(n_users), rng.integers(n_items, size=n_users)] = 2
    return np.floor(ranks / 4) if tied else ranks, relevance.astype(np.float64)


# --- against other implementations


def test_equals_trec_eval() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="needs pytrec-eval-terrier")
    scores, relevance = random_case(0)
    cuts = ",".join(map(str, CUTOFFS))
    named = {f"{name}.{cuts}" for name in ("P", "recall", "ndcg_cut", "map_cut", "success")}
    evaluator = pytrec_eval.RelevanceEvaluator(
        {
            str(u): {str(i): int(r) for i, r in enumerate(row)}
            for u, row in enumerate(relevance.tolist())
        },
        named | {"recip_rank", "map", "ndcg"},
    )
    told: dict[str, dict[str, float]] = evaluator.evaluate(
        {str(u): {str(i): s for i, s in enumerate(row)} for u, row in enumerate(scores.tolist())}
    )
    ours: dict[str, Metric] = {"recip_rank": MRR, "map": MAP, "ndcg": NDCG(gain="linear")}
    for k in CUTOFFS:
        ours |= {
            f"P_{k}": Precision @ k,
            f"recall_{k}": Recall @ k,
            f"ndcg_cut_{k}": NDCG(gain="linear") @ k,
            f"map_cut_{k}": MAP @ k,
            f"success_{k}": HitRate @ k,
        }
    for name, mine in ours.items():
        expected = [told[str(u)][name] for u in range(len(scores))]
        np.testing.assert_allclose(on_lists(mine, scores, relevance), expected, err_msg=name)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    "n_items", [25, 300]
)  # few and many relevant items are counted differently
def test_equals_scikit_learn(tied: bool, n_items: int) -> None:
    sklearn = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")
    scores, relevance = random_case(1, n_items=n_items, tied=tied)
    for wanted, theirs in ((AUC, sklearn.roc_auc_score), (AUPRC, sklearn.average_precision_score)):
        expected = [theirs(r > 0, s) for r, s in zip(relevance, scores, strict=True)]
        np.testing.assert_allclose(on_rankings(wanted, scores, relevance), expected)


def test_linear_ndcg_equals_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")
    scores, relevance = random_case(2)
    for k in (*CUTOFFS, None):
        mine = NDCG(gain="linear") if k is None else NDCG(gain="linear") @ k
        expected = [
            sklearn.ndcg_score([r], [s], k=k) for r, s in zip(relevance, scores, strict=True)
        ]
        np.testing.assert_allclose(on_lists(mine, scores, relevance), expected)


# --- against the formulas, one user at a time


def by_hand(wanted: Metric, relevance: list[float], n: int, ideal: list[float]) -> float:
    """Each formula as a loop over the ranks; ``relevance`` is of the ranked items."""
    k = wanted.cutoff or len(relevance)
    top = relevance[:k]
    ranks = [i for i, r in enumerate(top, start=1) if r > 0]
    if wanted.name == "MRR":
        return 1 / ranks[0] if ranks else 0.0
    if wanted.name == "MAP":
        total = sum(sum(j <= i for j in ranks) / i for i in ranks)
        return total / (min(k, n) if getattr(wanted, "capped", False) else n)
    if wanted.name == "Recall":
        return len(ranks) / (min(k, n) if getattr(wanted, "capped", False) else n)
    gain = {
        "binary": lambda r: float(r > 0),
        "linear": lambda r: r,
        "exponential": lambda r: 2**r - 1,
    }[getattr(wanted, "gain", "binary")]

    def dcg(values: list[float]) -> float:
        return sum(gain(r) / math.log2(i + 1) for i, r in enumerate(values[:k], start=1))

    return dcg(top) / dcg(ideal)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 12), st.integers(1, 15), st.booleans()
)
def test_equals_the_formulas(seed: int, n_users: int, n_items: int, k: int, tied: bool) -> None:
    scores, relevance = random_case(seed, n_users, n_items, tied)
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(relevance, order, axis=1)
    wanted: list[Metric] = [
        MRR @ k,
        MAP @ k,
        MAP(capped=True) @ k,
        MAP,
        Recall @ k,
        Recall(capped=True) @ k,
        NDCG @ k,
        NDCG,
        NDCG(gain="exponential") @ k,
        NDCG(gain="linear") @ k,
    ]
    for one in wanted:
        expected = [
            by_hand(one, row.tolist(), int((row > 0).sum()), sorted(row.tolist(), reverse=True))
            for row in ranked
        ]
        np.testing.assert_allclose(on_lists(one, scores, relevance), expected, err_msg=str(one))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_ties_of_auc_and_auprc_by_brute_force(seed: int, n_items: int) -> None:
    scores, relevance = random_case(seed, 3, n_items, tied=True)
    auc, auprc = (on_rankings(m, scores, relevance) for m in (AUC, AUPRC))
    for u in range(3):
        s, hit = scores[u], relevance[u] > 0
        pairs = [float(a > b) + (a == b) / 2 for a in s[hit] for b in s[~hit]]
        assert auc[u] == pytest.approx(np.mean(pairs) if pairs else 1.0)
        precisions = [hit[s >= threshold].mean() for threshold in s[hit]]
        assert auprc[u] == pytest.approx(np.mean(precisions))


def test_auc_is_the_mean_over_the_orders_of_tied_items() -> None:
    scores, relevance = np.array([[3.0, 1, 1, 1, 0]]), np.array([[0.0, 1, 0, 1, 0]])
    orders = [np.array([[3.0, *order, 0]]) for order in permutations((1.0, 1.1, 1.2))]
    mean = np.mean([on_rankings(AUC, order, relevance) for order in orders])
    assert on_rankings(AUC, scores, relevance)[0] == pytest.approx(mean)


def test_auprc_without_ties_is_map() -> None:
    case = random_case(3)
    np.testing.assert_allclose(on_rankings(AUPRC, *case), on_lists(MAP, *case))


def test_limited_auc_at_the_whole_catalog_is_auc() -> None:
    scores, relevance = random_case(4)
    whole = on_lists(LimitedAUC @ scores.shape[1], scores, relevance)
    np.testing.assert_allclose(whole, on_rankings(AUC, scores, relevance))


def test_limited_auc_without_a_hit_takes_the_rest_as_mixed() -> None:
    scores, relevance = np.array([[4.0, 3, 2, 1, 0]]), np.array([[0.0, 0, 1, 0, 1]])
    # below two misses: 2 relevant and 1 other in random order, half of their pairs ranked rightly
    assert on_lists(LimitedAUC @ 2, scores, relevance)[0] == pytest.approx(2 * 1 * 0.5 / (2 * 3))


def test_limited_auc_of_two_items_and_of_none_that_is_not_relevant() -> None:
    one, both = np.array([[1.0, 0], [0, 1]]), np.ones((1, 2))
    scores = np.array([[2.0, 1], [2, 1]])
    assert on_lists(LimitedAUC @ 2, scores, one).tolist() == [1, 0]
    assert on_lists(LimitedAUC @ 2, scores[:1], both).tolist() == [1]


# --- edges


@pytest.mark.parametrize("n_items", [25, 300])
def test_items_that_are_no_candidates_do_not_count(n_items: int) -> None:
    scores, relevance = random_case(5, n_items=n_items, tied=True)
    kept = np.arange(n_items) % 3 != 1
    relevance = relevance * kept
    relevance[:, 0] = 1
    for one in (AUC, AUPRC):
        np.testing.assert_array_equal(
            on_rankings(one, np.where(kept, scores, np.nan), relevance),
            on_rankings(one, scores[:, kept], relevance[:, kept]),
        )


def test_short_lists_are_filled_with_misses() -> None:
    chosen = np.array([[1.0, 0, 1, 0, 1], [0, 0, 0, 0, 1]])
    relevant = CSR.from_scipy(sp.csr_array(chosen), np.float64)
    padded = judge(np.array([[2, -1, -1], [0, 4, -1]], dtype=np.int32), relevant, 3)
    np.testing.assert_array_equal(padded.relevance, [[1, 0, 0], [0, 1, 0]])
    for one in (Precision @ 3, Recall @ 3, MAP @ 3, NDCG @ 3, MRR @ 3, HitRate @ 3):
        narrow = judge(np.array([[2, -1], [0, 4]], dtype=np.int32), relevant, 3)
        np.testing.assert_array_equal(one.per_user(padded), one.per_user(narrow))


def test_cutoffs_beyond_the_catalog() -> None:
    scores, relevance = random_case(6, n_items=7)
    assert np.allclose(on_lists(Recall @ 100, scores, relevance), 1)
    hits = (relevance > 0).sum(axis=1)
    np.testing.assert_allclose(on_lists(Precision @ 100, scores, relevance), hits / 100)
    for one in (NDCG, MAP, MRR, NDCG(gain="exponential"), MAP(capped=True)):
        np.testing.assert_array_equal(
            on_lists(one @ 100, scores, relevance), on_lists(one, scores, relevance)
        )


def test_perfect_and_worst_rankings() -> None:
    _, relevance = random_case(7)
    for one in (MRR, MAP, NDCG, NDCG(gain="linear") @ 3, Recall(capped=True) @ 3, HitRate @ 1):
        assert np.allclose(on_lists(one, relevance, relevance), 1)
    for whole in (AUC, AUPRC):
        assert np.allclose(on_rankings(whole, relevance, relevance), 1)
    assert np.allclose(on_rankings(AUC, -(relevance > 0).astype(float), relevance), 0)


def test_exponential_gain_of_huge_counts_is_finite() -> None:
    relevance = np.array([[5000.0, 4999, 0]])
    value = on_lists(NDCG(gain="exponential"), np.array([[1.0, 2, 3]]), relevance)[0]
    discounts = 1 / np.log2([2, 3, 4])
    best = 1 + discounts[1] / 2  # over 2^5000
    assert value == pytest.approx((discounts[2] + discounts[1] / 2) / best)


@pytest.mark.parametrize("n", [1, 4])
def test_gini_and_coverage(n: int) -> None:
    gini, coverage = Gini @ 5, Coverage @ 5
    assert isinstance(gini, CatalogMetric)
    assert gini.of(np.full(n, 3)) == pytest.approx(0)
    one_only = np.eye(n, dtype=np.int64)[0] * 9
    assert gini.of(one_only) == pytest.approx((n - 1) / n)
    assert coverage.of(one_only) == 1 / n
    assert math.isnan(gini.of(np.zeros(n, np.int64)))
    assert math.isnan(coverage.of(np.zeros(n, np.int64)))


def test_gini_is_the_mean_difference_over_twice_the_mean() -> None:
    counts = np.random.default_rng(0).integers(0, 9, 12)
    mean_difference = np.abs(counts[:, None] - counts).mean()
    assert (Gini @ 3).of(counts) == pytest.approx(mean_difference / (2 * counts.mean()))


# --- metrics as values


def test_metrics_are_values() -> None:
    assert NDCG @ 10 == NDCG(gain="binary") @ 10 == metric("ndcg@10")
    assert len({NDCG @ 10, NDCG @ 10, NDCG @ 20, MAP @ 10, NDCG(gain="linear") @ 10}) == 4
    assert str(NDCG @ 10) == repr(NDCG @ 10) == "NDCG@10"
    assert str(Recall(capped=True, micro=True) @ 5) == "Recall(capped=True, micro=True)@5"
    assert NDCG.cutoff is None
    assert metric("recall(capped=false, micro=true)@5") == Recall(micro=True) @ 5


@pytest.mark.parametrize("one", ALL, ids=str)
def test_text_reads_back(one: Metric) -> None:
    options: list[dict[str, Any]] = [{}]
    options += [{"capped": True}] if one.name in ("Recall", "MAP") else []
    options += [{"gain": "exponential"}] if one is NDCG else []
    for chosen in options:
        cut = one(**chosen) if isinstance(one, RankingMetric) else one(**chosen) @ 7
        assert metric(str(cut)) == metric(str(cut).lower()) == cut


@pytest.mark.parametrize(
    "text",
    ["", "ndgc@10", "ndcg@", "ndcg@0", "ndcg@x", "auc@10", "ndcg(capped=True)@5", "map(capped=1)",
     "ndcg(gain=cubic)"],
)  # fmt: skip
def test_text_that_is_no_metric(text: str) -> None:
    with pytest.raises(ValueError, match="is not a metric"):
        metric(text)


def test_wrong_cutoffs_and_options() -> None:
    with refuses(ValueError, "cutoff"):
        NDCG @ 0
    with refuses(TypeError, "cutoff"):
        NDCG @ 2.5  # type: ignore[operator]
    with refuses(TypeError, "cutoff"):
        NDCG @ True
    with refuses(ValueError, remedy="write auc"):
        AUC @ 10
    with refuses(TypeError, remedy="it has gain"):
        NDCG(capped=True)
    with refuses(TypeError, "capped"):
        Recall(capped="yes")
    for needs_one in ("Precision", "Recall", "HitRate", "LimitedAUC", "Coverage", "Novelty"):
        with refuses(ValueError, remedy=f"write {needs_one} @ 10"):
            getattr(evaluation, needs_one).depth(5)
    for reads_all in ("NDCG", "MRR", "MAP"):
        assert getattr(evaluation, reads_all).depth(5) == 5


def test_definitions() -> None:
    assert definitions("rg") == (MRR @ 10, NDCG @ 10, MAP @ 10)
    assert definitions("lightgcn") == (Recall @ 20, NDCG @ 20)
    assert definitions("lightgcn", 50) == (Recall @ 50, NDCG @ 50)
    assert definitions("implicit", 5)[2] == NDCG @ 5
    of_ranks = (Precision @ 5, Recall @ 5, HitRate @ 5, MAP @ 5, NDCG(gain="linear") @ 5)
    assert definitions("trec", 5) == (*of_ranks, MRR, MAP)
    with refuses(ValueError, "name"):
        definitions("bars")
    with refuses(ValueError, "cutoff"):
        definitions("rg", 0)
