"""The linear ranker: it descends what it says, keeps its words on bad input, and comes back."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mfrank.data import Judged
from mfrank.descent import SGD, Adagrad, Adam, Langevin, Optimizer
from mfrank.evaluation import NDCG, evaluate_queries
from mfrank.files import read, write
from mfrank.losses import (
    KSONG,
    SML,
    SONG,
    ApproxNDCG,
    LambdaRank,
    ListMLE,
    ListNet,
    Loss,
    NeuralNDCG,
    RankNet,
    Softmax,
    StochasticRank,
)
from mfrank.models import FORMAT, LinearRanker, LinearStore
from mfrank.retrieval import NotFittedError
from tests.support.errors import refuses

GRADED = NDCG(gain="exponential") @ 10
LOSSES: tuple[Loss, ...] = (
    ApproxNDCG(),
    KSONG(k=5),
    LambdaRank(),
    ListMLE(),
    ListNet(),
    NeuralNDCG(rounds=2),
    RankNet(),
    SONG(),
    Softmax(),
    StochasticRank(),
)


def problem(n_queries: int = 40, seed: int = 0) -> Judged:
    """Grades 0 to 3 by the rank of x . w within each query, w = (1, -2, 0, 0), of odd scales."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, n_queries)
    queries = np.repeat(np.arange(n_queries), sizes)[rng.permutation(sizes.sum())]
    features = rng.normal(size=(len(queries), 4))
    worth = features @ [1, -2, 0, 0]
    grades = np.clip(np.floor(worth), 0, 3)
    return Judged(features * [100, 0.01, 1, 0] + [5, 1, 0, 2], grades, queries)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_every_graded_loss_finds_what_relevance_was_made_of(loss: Loss) -> None:
    began = perf_counter()
    train, test = problem(), problem(seed=1)
    ranker = LinearRanker(loss, Adam(0.03), iterations=60, batch_size=8, random_state=0).fit(train)
    random = np.random.default_rng(0).normal(size=test.n_documents)
    blind = evaluate_queries(test, random, GRADED, empty=None)[GRADED].value
    found = evaluate_queries(test, ranker.score(test), GRADED, empty=None)[GRADED].value
    assert blind < 0.8
    assert found > 0.97
    weights = ranker.coefficients * [100, 0.01, 1, 0]
    assert weights[1] / weights[0] == pytest.approx(-2, abs=0.8)
    assert abs(weights[2]) < 0.3 * weights[0]
    assert ranker.coefficients[3] == 0  # constant in train
    assert ranker.history[-1]["objective"] < ranker.history[0]["objective"]
    seconds = [record["seconds"] for record in ranker.history]
    assert min(seconds) > 0
    assert sum(seconds) <= perf_counter() - began


def cross_entropy(judged: Judged, weights: NDArray[Any], decay: float) -> float:
    """ListNet's mean loss over queries with something relevant, one query at a time."""
    losses = []
    for query in range(judged.n_queries):
        own = judged.query_rows == query
        if judged.relevance[own].any():
            target = np.exp(judged.relevance[own]) / np.exp(judged.relevance[own]).sum()
            scores = judged.features[own] @ weights
            losses.append(np.log(np.exp(scores).sum()) - target @ scores)
    return float(np.mean(losses)) + decay / 2 * weights @ weights


def test_a_step_is_against_the_slope_of_the_mean_loss() -> None:
    rng = np.random.default_rng(5)
    judged = Judged(rng.normal(size=(30, 3)), rng.integers(0, 3, 30), rng.integers(0, 6, 30))
    start, step, decay = np.array([0.3, -0.1, 0.2]), 1e-6, 0.7
    options = {"iterations": 1, "batch_size": 100, "scale": False, "random_state": 0}
    ranker = LinearRanker(ListNet(), SGD(0.5), weight_decay=decay, **options)  # type: ignore[arg-type]
    ranker.fit(judged, start=start)
    slope = [
        (cross_entropy(judged, start + move, decay) - cross_entropy(judged, start - move, decay))
        / (2 * step)
        for move in step * np.eye(3)
    ]
    np.testing.assert_allclose(ranker.coefficients, start - 0.5 * np.array(slope), atol=1e-8)
    assert ranker.history[0]["objective"] == pytest.approx(cross_entropy(judged, start, 0))


def test_a_start_is_taken_in_the_features_own_scale() -> None:
    train = problem()
    first = LinearRanker(random_state=0, iterations=3).fit(train)
    still = LinearRanker(optimizer=SGD(1e-12), random_state=0, iterations=1)
    still.fit(train, start=first.coefficients)
    np.testing.assert_allclose(still.coefficients, first.coefficients, rtol=1e-6)
    np.testing.assert_allclose(still.score(train), first.score(train), atol=1e-9)


def test_scores_do_not_depend_on_how_features_are_scaled() -> None:
    train = problem()
    moved = Judged(1000 * train.features - 7, train.relevance, train.query_rows)
    a, b = (LinearRanker(random_state=0, iterations=5).fit(data) for data in (train, moved))
    np.testing.assert_allclose(a.score(train), b.score(moved), atol=1e-9)


@pytest.mark.parametrize(
    "optimizer", [SGD(0.3, momentum=0.5), Adagrad(), Adam(), Langevin(0.1, temperature=100)]
)
def test_the_same_seed_gives_the_same_bits(optimizer: Optimizer) -> None:
    train = problem()
    runs = [
        LinearRanker(StochasticRank(), optimizer, iterations=3, random_state=seed).fit(train)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0].coefficients, runs[1].coefficients)
    assert not np.array_equal(runs[0].coefficients, runs[2].coefficients)


def test_the_order_in_which_documents_stand_is_of_no_matter() -> None:
    train = problem()
    order = np.random.default_rng(0).permutation(train.n_documents)
    moved = Judged(train.features[order], train.relevance[order], train.query_rows[order])
    a, b = (LinearRanker(random_state=0, iterations=5).fit(data) for data in (train, moved))
    np.testing.assert_allclose(a.coefficients, b.coefficients, rtol=1e-7, atol=1e-12)


def test_queries_without_anything_relevant_do_not_take_part() -> None:
    train = problem()
    features = np.concatenate([train.features, np.ones((5, 4))])
    more = Judged(
        features, np.append(train.relevance, np.zeros(5)), np.append(train.query_rows, [900] * 5)
    )
    a, b = (
        LinearRanker(scale=False, optimizer=Adam(1e-4), random_state=0, iterations=4).fit(data)
        for data in (train, more)
    )
    np.testing.assert_array_equal(a.coefficients, b.coefficients)


def test_one_query_of_relevant_documents_only() -> None:
    judged = Judged([[3.0], [1], [2]], [3, 1, 2], ["q"] * 3)
    ranker = LinearRanker(LambdaRank(), random_state=0).fit(judged)
    assert ranker.rank([[1.0], [2], [3], [2]]).tolist() == [2, 1, 3, 0]


def test_a_callback_sees_every_epoch_and_stops_the_fit() -> None:
    train, seen = problem(), []
    ranker = LinearRanker(random_state=0, iterations=9)

    def look(epoch: int, seconds: float, loss: float | None) -> bool:
        assert seconds >= 0
        seen.append((epoch, loss, ranker.coefficients))
        return epoch == 3

    ranker.fit(train, callback=look)
    assert [epoch for epoch, *_ in seen] == [0, 1, 2, 3]
    assert not np.array_equal(seen[0][2], seen[1][2])
    np.testing.assert_array_equal(seen[-1][2], ranker.coefficients)
    assert [record["objective"] for record in ranker.history] == [loss for _, loss, _ in seen]


def test_a_fit_that_diverges_says_so_and_keeps_the_last_epoch() -> None:
    # Each step doubles the weights: learning_rate * weight_decay = 3 takes away three times them.
    ranker = LinearRanker(optimizer=SGD(3.0), weight_decay=1.0, batch_size=1, iterations=1000)
    epochs: list[NDArray[Any]] = []
    with pytest.raises(FloatingPointError, match="the learning rate 3 is too large"):
        ranker.fit(problem(), callback=lambda *_: epochs.append(ranker.coefficients))
    assert len(epochs) > 10
    assert np.isfinite(ranker.coefficients).all()
    np.testing.assert_array_equal(ranker.coefficients, epochs[-1])
    assert len(ranker.history) == len(epochs)


def test_scores_beyond_numbers_are_a_divergence_too() -> None:
    """Infinite ones, whose differences are not numbers: said once, not warned of before."""
    own = problem()
    huge = Judged(1e250 * own.features, own.relevance, own.query_rows)
    ranker = LinearRanker(optimizer=SGD(1e-3), scale=False, iterations=1)
    with pytest.raises(FloatingPointError, match="diverged in epoch 1"):
        ranker.fit(huge, start=np.full(4, 1e100))


def test_a_ranker_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    judged = problem()
    loss = StochasticRank(k=3, last_noise=0.2, annealing_batches=5)
    ranker = LinearRanker(loss, Langevin(0.05), iterations=2, random_state=4).fit(judged)
    ranker.save(tmp_path / "ranker")
    back = LinearRanker.load(tmp_path / "ranker", verify=True)
    np.testing.assert_array_equal(back.score(judged), ranker.score(judged))
    assert back.get_params() == ranker.get_params()
    assert back.history == ranker.history
    ranker.fit(problem(seed=2)).save(tmp_path / "ranker")
    assert not np.array_equal(
        LinearRanker.load(tmp_path / "ranker").coefficients, back.coefficients
    )


def test_what_is_no_saved_ranker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LinearRanker.load(tmp_path / "none")
    folder = LinearRanker(iterations=1).fit(problem()).save(tmp_path / "ranker")
    manifest = folder / "manifest.json"
    told = json.loads(manifest.read_text())
    told["metadata"]["fitter"]["options"]["loss"]["name"] = "os.system"
    manifest.write_text(json.dumps(told))
    with refuses(ValueError, place="ranker", remedy="this version has LinearRanker"):
        LinearRanker.load(folder)
    manifest.write_text(json.dumps({**told, "format": "mfrank.factors"}))
    with refuses(ValueError, place="manifest.json", remedy=r"mfrank\.load reads"):
        LinearRanker.load(folder)


def test_a_damaged_ranker_is_refused(tmp_path: Path) -> None:
    ranker = LinearRanker(iterations=1, random_state=0).fit(problem())
    folder, weights = ranker.save(tmp_path), ranker.store.weights
    whole = read(folder, FORMAT)
    for bad, argument in (
        (weights * np.nan, "weights"),
        (weights[:2].copy(), "means"),
        (weights[None], "weights"),
        (np.array(1.0), "weights"),
        (weights.astype(np.float32), "weights"),
    ):
        with refuses(ValueError, argument, place="the ranker"):
            replace(ranker.store, weights=bad).save(folder)
        np.testing.assert_array_equal(LinearStore.load(folder).weights, weights)
        write(tmp_path / "bad", replace(whole, arrays={**whole.arrays, "weights": bad}), FORMAT)
        with refuses(ValueError, argument, place="bad"):
            LinearRanker.load(tmp_path / "bad")
    next(folder.glob("data-*/weights.npy")).write_bytes(b"")
    with refuses(ValueError, place="weights.npy", remedy="restore it"):
        LinearRanker.load(folder)


def test_bytes_that_changed_are_told_by_verify(tmp_path: Path) -> None:
    folder = LinearRanker(iterations=1, random_state=0).fit(problem()).save(tmp_path)
    file = next(folder.glob("data-*/weights.npy"))
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    assert len(LinearRanker.load(folder).coefficients) == 4
    for load in (LinearRanker.load, LinearStore.load):
        with refuses(ValueError, place="weights.npy", remedy="restore it"):
            load(folder, verify=True)


def test_more_or_other_things_than_a_rankers_are_damage(tmp_path: Path) -> None:
    folder = LinearRanker(iterations=1, random_state=0).fit(problem()).save(tmp_path / "ranker")
    whole = read(folder, FORMAT)
    for changes, message in (
        ({"feature_names": ["a", "b", "c", "d"]}, None),
        ({"feature_names": ["a", "b"]}, "feature_names must name each weight"),
        ({"feature_names": ["a", "b", "c", 4]}, "feature_names must name each weight"),
        ({"feature_names": "abcd"}, "feature_names must name each weight"),
        ({"history": 3}, "is damaged"),
        ({"fitter": []}, "is damaged"),
        ({"more": 1}, "unknown keys: 'more'"),
    ):
        write(folder, replace(whole, metadata={**whole.metadata, **changes}), FORMAT)
        if message is None:
            assert LinearRanker.load(folder).store.feature_names == ("a", "b", "c", "d")
            continue
        with pytest.raises(ValueError, match=message):
            LinearRanker.load(folder)
    more = {**whole.arrays, "more": np.zeros(4)}
    write(folder, replace(whole, arrays=more), FORMAT)
    with refuses(ValueError, place="ranker", remedy="restore it"):
        LinearRanker.load(folder)


def test_progress_is_shown_if_asked(capfd: pytest.CaptureFixture[str]) -> None:
    LinearRanker(iterations=2).fit(problem())
    assert capfd.readouterr().err == ""
    LinearRanker(iterations=2).fit(problem(), show_progress=True)
    told = capfd.readouterr().err
    assert "fit" in told
    assert "2/2" in told


def test_documents_that_score_alike_keep_their_order() -> None:
    ranker = LinearRanker(iterations=1, random_state=0).fit(problem())
    features = np.tile([[1.0, 2, 3, 4], [4.0, 3, 2, 1], [0.0, 0, 1, 1]], (2000, 1))
    order = ranker.rank(features)
    for kind in range(3):
        assert (np.diff(order[order % 3 == kind]) > 0).all()


def test_columns_of_tables_are_found_by_name() -> None:
    pandas = pytest.importorskip("pandas", reason="makes the tables with pandas")
    judged = problem()
    names = ["a", "b", "c", "d"]
    table = pandas.DataFrame(judged.features, columns=names)
    ranker = LinearRanker(iterations=2, random_state=0)
    plain = ranker.fit(judged).score(judged)
    with refuses(ValueError, "features"):
        ranker.score(table)
    ranker.fit(Judged(table, judged.relevance, judged.query_rows))
    assert ranker.store.feature_names == tuple(names)
    np.testing.assert_allclose(ranker.score(table[["c", "a", "d", "b"]]), plain, 1e-9, 1e-12)
    for others in (
        table.rename(columns={"c": "e"}),
        table.rename(columns={"a": "e", "b": "f"}),
    ):
        with refuses(ValueError, "features"):
            ranker.score(others)


def test_a_ranker_is_saved_only_if_it_can_be_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass(frozen=True)
    class Own(ListNet):
        pass

    judged = problem()
    with refuses(ValueError, place="the ranker", remedy="define it"):
        LinearRanker(Own(), iterations=1).fit(judged).save(tmp_path / "own")
    assert not [*tmp_path.iterdir()]
    ranker = LinearRanker(iterations=1).fit(judged)
    ranker.iterations = 9
    ranker.save(tmp_path / "ranker")
    assert "iterations=9" in caplog.text
    assert LinearRanker.load(tmp_path / "ranker").iterations == 1


def test_a_folder_imports_nothing_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """from dataclasses import dataclass
from mfrank import ListNet

@dataclass(frozen=True)
class Own(ListNet):
    pass
"""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "own_ranking_loss.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    folder = LinearRanker(iterations=1).fit(problem()).save(tmp_path / "ranker")
    manifest = folder / "manifest.json"
    told = json.loads(manifest.read_text())
    told["metadata"]["fitter"]["options"]["loss"]["name"] = "own_ranking_loss:Own"
    manifest.write_text(json.dumps(told))
    with refuses(ValueError, "classes", remedy="own_ranking_loss"):
        LinearRanker.load(folder)
    assert "own_ranking_loss" not in sys.modules
    assert type(LinearRanker.load(folder, trust=True).loss).__name__ == "Own"
    del sys.modules["own_ranking_loss"]


def test_a_ranker_that_is_not_fitted_says_so(tmp_path: Path) -> None:
    ranker = LinearRanker()
    for ask in (
        lambda: ranker.score([[1.0]]),
        lambda: ranker.coefficients,
        lambda: ranker.save(tmp_path),
    ):
        with pytest.raises(NotFittedError, match="call fit"):
            ask()


@pytest.mark.parametrize(
    ("options", "error", "fault"),
    [
        ({"loss": "ndcg"}, TypeError, {"argument": "loss"}),
        ({"loss": SML()}, ValueError, {"remedy": "use another"}),
        ({"optimizer": 0.1}, TypeError, {"argument": "optimizer"}),
        ({"iterations": 0}, ValueError, {"argument": "iterations"}),
        ({"batch_size": 1.5}, TypeError, {"argument": "batch_size"}),
        ({"weight_decay": -1}, ValueError, {"argument": "weight_decay"}),
        ({"scale": 1}, TypeError, {"argument": "scale"}),
        ({"random_state": "x"}, TypeError, {"argument": "random_state", "remedy": "pass a seed"}),
    ],
)
def test_bad_options_are_refused(
    options: dict[str, Any], error: type[Exception], fault: dict[str, str]
) -> None:
    with refuses(error, **fault):
        LinearRanker(**options)


def test_bad_data_are_refused_before_any_work() -> None:
    good, ranker = problem(), LinearRanker(iterations=1)
    nothing = Judged(good.features, 0 * good.relevance, good.query_rows)
    counts = Judged(good.features, 1e4 * good.relevance, good.query_rows)
    with refuses(ValueError, "relevance"):
        ranker.fit(nothing)
    with refuses(ValueError, "relevance", remedy="turn counts into grades"):
        ranker.fit(counts)
    with refuses(TypeError, "judged"):
        ranker.fit(good.features)  # type: ignore[arg-type]
    for large in (1e308, 1e200):
        with refuses(ValueError, "start", remedy="scale them down"):
            ranker.fit(good, start=[large, 1, 1, 1])
    ranker.fit(Judged(good.features, 1000 * (good.relevance > 0), good.query_rows))
    ranker.iterations = 0
    with refuses(ValueError, "iterations"):
        ranker.fit(good)
    ranker.iterations = 1
    with refuses(ValueError, "start"):
        ranker.fit(good, start=[1, 2])
    for start in ([10**400] * 4, "four", [object()]):
        with refuses(TypeError, "start"):
            ranker.fit(good, start=start)
    with refuses(TypeError, "callback"):
        ranker.fit(good, callback=3)  # type: ignore[arg-type]
    ranker.fit(good)
    with refuses(ValueError, "features"):
        ranker.score([[1.0, 2]])
    with refuses(ValueError, "features", remedy="replace missing values first"):
        ranker.score([[1.0, 2, np.nan, 4]])


def test_mq2008_is_ranked_far_better_than_by_chance(data_dir: Path) -> None:
    path = data_dir / "mq2008-fold1" / "ltr.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path) as arrays:
        x, label, query, split = (arrays[name] for name in ("X", "label", "qid", "split"))
    train, test = (Judged(x[split == s], label[split == s], query[split == s]) for s in (0, 2))
    ranker = LinearRanker(iterations=10, random_state=0).fit(train)
    chance = np.random.default_rng(0).normal(size=test.n_documents)
    blind = evaluate_queries(test, chance, GRADED)[GRADED].value
    found = evaluate_queries(test, ranker.score(test), GRADED)[GRADED].value
    assert found > blind + 0.12
