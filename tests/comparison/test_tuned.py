"""Comparisons of tuned models: each gets the same search, and none of them sees the test part."""

from __future__ import annotations

import logging
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.arrays import OutOfTimeError, time_limit
from mfrank.comparison import OPPONENTS, ImplicitALS, ItemWeights, _Recipe, compare
from mfrank.comparison import tuned as module
from mfrank.data import Interactions, Split
from mfrank.tuning import Budget, Facts, SearchResult, Setting, named, search
from tests.support.errors import refuses

TRIALS = 3
METRICS = ["ndcg@10", "recall@20"]

quick = partial(compare, repeats=1, n_threads=1, peak_memory=False, metrics=METRICS)


@pytest.fixture(scope="module")
def split() -> Split:
    data = mfrank.synthetic(120, 60, 2400, random_state=1)
    return mfrank.by_ratio(data, train=0.7, valid=0.0, test=0.3)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Interactions]:
    """What was searched on; searches are counted by trials, so that they repeat."""
    seen = list[Interactions]()

    def counted(data: Interactions, metric: Any, clock: Budget, **options: Any) -> SearchResult:
        seen.append(data)
        assert 0 < clock.left() <= 60
        return search(data, metric, Budget(None), trials=TRIALS, **options)

    monkeypatch.setattr(module, "search", counted)
    return seen


def models() -> dict[str, Any]:
    return {
        "all": mfrank.tune,
        "als": mfrank.ALS(mfrank.RG2(), factors=8),
        "softmax": mfrank.Descent(mfrank.SampledSoftmax(), factors=8),
        "ease": mfrank.EASE(),
        "knn": mfrank.ItemKNN(),
        "bpr": mfrank.Descent(mfrank.BPR(), factors=4, iterations=1),
    }


def test_every_model_with_a_space_is_searched_on_the_training_part(
    split: Split, searched: list[Interactions], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "mfrank"):
        comparison = quick(split, models=models(), tune=1.0, factors=16)
    assert "up to 5 minutes, 1 for each of 5 models" in caplog.text
    assert [row.model for row in comparison.rows] == list(models())
    assert list(comparison.leaderboards) == ["all", "als", "softmax", "ease", "knn"]
    assert len(searched) == 5
    assert all(data is split.train for data in searched)
    for name, family in (("als", "RG2"), ("softmax", "SampledSoftmax"), ("ease", "EASE")):
        board = comparison.leaderboards[name]
        assert {row["family"] for row in board} == {family}
        assert len(board) == TRIALS
    assert {row["metric"] for row in comparison.leaderboards["all"]} == {"NDCG@10"}
    assert "tuned for 1 min each by NDCG@10" in str(comparison)
    assert "not tuned: bpr" in str(comparison)
    assert comparison.to_dict()["leaderboards"]["als"] == list(comparison.leaderboards["als"])


@pytest.mark.usefixtures("searched")
def test_what_was_popular_of_late_is_fitted_to_times() -> None:
    """Each week has its own items, which all take."""
    rng = np.random.default_rng(0)
    days = np.repeat(np.arange(20), 200)
    items = 30 * (days // 7) + rng.integers(0, 30, len(days))
    data = mfrank.Interactions.from_arrays(
        rng.integers(0, 90, len(days)), items, None, 86_400 * days, duplicates="last"
    )
    found = quick(mfrank.by_time(data, test=0.1), models={"all": mfrank.tune}, tune=1.0, factors=4)
    row = found.leaderboards["all"][0]
    assert "RecentPopularity" in row["model"] + row["family"]
    assert found["all"].evaluation["recall@20"].value > 0.5


@pytest.mark.usefixtures("searched")
def test_what_was_found_is_fitted_to_the_whole_training_part(split: Split) -> None:
    comparison = quick(split, models=models(), tune=1.0, factors=16)
    options: dict[str, Any] = {"trials": TRIALS, "n_threads": 1, "metric": "ndcg@10"}
    whole = mfrank.tune(split.train, factors=16, **options).model
    expected = mfrank.evaluate(whole, split.test, train=split.train, metrics=METRICS)
    assert comparison["all"].evaluation["ndcg@10"].value == expected["ndcg@10"].value
    for name in ("als", "softmax"):
        best = comparison.leaderboards[name][0]
        model = eval(best["model"], {each: getattr(mfrank, each) for each in mfrank.__all__})
        model.fit(split.train, callback=lambda epoch, *_, last=best["epochs"] - 1: epoch == last)
        expected = mfrank.evaluate(model, split.test, train=split.train, metrics=METRICS)
        value = comparison[name].evaluation["ndcg@10"].value
        assert value == pytest.approx(expected["ndcg@10"].value, abs=1e-3)


@pytest.mark.usefixtures("searched")
def test_what_is_chosen_does_not_depend_on_the_test_part(split: Split) -> None:
    other = mfrank.Interactions.from_sparse(split.test.user_items[:, ::-1])
    of_both = [
        quick(split.train, test.user_items, models=models(), tune=1.0, factors=16)
        for test in (split.test, other)
    ]
    for name in of_both[0].leaderboards:
        one, two = ([{**row, "seconds": 0} for row in each.leaderboards[name]] for each in of_both)
        assert one == two


@pytest.mark.usefixtures("searched")
def test_implicit_gets_the_same_search_and_keeps_its_other_options(split: Split) -> None:
    als = pytest.importorskip("implicit.cpu.als", reason="implicit is the extra compare")
    threads = pytest.importorskip("threadpoolctl", reason="a dependency of implicit")
    fixed = {"use_cg": False, "num_threads": 1, "random_state": 5}
    with threads.threadpool_limits(1, "blas"):  # it warns about more
        given = als.AlternatingLeastSquares(factors=8, iterations=99, **fixed)
    comparison = quick(split, models={"theirs": given, "ours": mfrank.EASE()}, tune=1.0)
    assert comparison.baseline == "theirs"
    board = comparison.leaderboards["theirs"]
    assert len(board) == TRIALS
    assert all(row["factors"] <= 8 for row in board)
    best = board[0]
    assert best["model"].startswith("implicit AlternatingLeastSquares(factors=")
    options = dict(item.split("=") for item in best["model"][:-1].split("(")[1].split(", "))
    factors = int(options.pop("factors"))
    found = {name: float(value) for name, value in options.items()}
    with threads.threadpool_limits(1, "blas"):
        alone = als.AlternatingLeastSquares(
            factors=factors, iterations=best["epochs"], **found, **fixed
        )
        alone.fit(split.train.to_scipy(), show_progress=False)
    expected = mfrank.evaluate(alone, split.test, train=split.train, metrics=METRICS)
    value = comparison["theirs"].evaluation["ndcg@10"].value
    assert value == pytest.approx(expected["ndcg@10"].value, abs=1e-3)
    assert (given.factors, given.iterations, given.user_factors) == (8, 99, None)


@pytest.mark.usefixtures("searched")
def test_a_model_that_does_not_fit_is_left_out(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mfrank.tuning.search_result.memory_free_now", lambda: 100.0)
    comparison = quick(split, models=models(), tune=1.0, factors=16)
    assert "ease" not in [row.model for row in comparison.rows]
    assert "  ease: left out: a fit would take about" in str(comparison)


def test_models_for_which_there_is_no_time_are_left_out(split: Split) -> None:
    found = {"als": mfrank.ALS(mfrank.RG2(), factors=4), "all alike": mfrank.Popularity()}
    comparison = quick(split, models=found, tune=1e-9)
    assert [row.model for row in comparison.rows] == ["all alike"]
    assert "  als: left out: there was no time for it" in str(comparison)


@pytest.mark.usefixtures("searched")
def test_the_usual_models_of_a_tuned_comparison(split: Split) -> None:
    comparison = quick(split, tune=1.0, factors=8)
    names = [row.model for row in comparison.rows]
    mine = ["tune", "EASE", "ItemKNN", "Popularity", "recent popularity"]
    assert names[:5] == ["mfrank.tune", *(f"mfrank {name}" for name in mine[1:])]
    theirs = [f"implicit {name}" for name in ("ALS", "BPR", "LMF") if find_spec("implicit")]
    others = {f"{one.package} {one.__name__}": one for one in OPPONENTS}
    theirs += [name for name, one in others.items() if one.is_installed()]
    assert names[5:] == theirs
    assert [name for name in names if name not in comparison.leaderboards] == ["mfrank Popularity"]
    for one in OPPONENTS:
        missing = f"{one.package} is not installed, so {one.__name__} is left out"
        assert (missing in str(comparison)) != one.is_installed()


@pytest.mark.parametrize(
    ("options", "error", "argument"),
    [
        ({"tune": 0}, ValueError, "tune"),
        ({"tune": "ten"}, ValueError, "tune"),
        ({"random_state": None}, TypeError, "random_state"),
        ({"factors": 0}, ValueError, "factors"),
        ({"metrics": ["coverage@10"]}, ValueError, "metric"),
        ({"models": {"a": mfrank.Popularity()}}, ValueError, "tune"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_any_work(
    split: Split,
    options: dict[str, Any],
    error: type[Exception],
    argument: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "search", lambda *_, **__: pytest.fail("searched"))
    with refuses(error, argument):
        quick(split, **({"tune": 1.0} | options))


def test_dislikes_are_refused_by_the_name_of_the_argument(split: Split) -> None:
    matrix = split.train.user_items.copy()
    matrix.data = np.where(np.arange(matrix.nnz) == 0, -1.0, matrix.data)
    with refuses(ValueError, "train"):
        quick(matrix, split.test.user_items, tune=1.0)


class Theirs:
    """As implicit's ALS, with the same factors after every epoch; its fits are noted."""

    fits: list[tuple[int, list[int]]]
    worst = 1.0

    def __init__(self, fits: list[tuple[int, list[int]]]) -> None:
        self.fits = fits
        self.factors, self.iterations, self.alpha, self.regularization = 4, 99, 1.0, 0.01
        self.user_factors: Any = None
        self.item_factors: Any = None

    def __deepcopy__(self, memo: Any) -> Theirs:
        made = type(self)(self.fits)
        made.__dict__ |= self.__dict__
        return made

    def fit(self, user_items: Any, show_progress: bool = True, callback: Any = None) -> None:
        assert not show_progress
        epochs = list[int]()
        self.fits.append((self.iterations, epochs))
        for epoch in range(self.iterations):
            epochs.append(epoch)
            self.user_factors = np.ones((user_items.shape[0], self.factors))
            self.item_factors = np.full((user_items.shape[1], self.factors), self.worst)
            callback(epoch, 0.125, 0.0)


@pytest.mark.usefixtures("searched")
def test_the_search_judges_every_epoch_of_implicit(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Theirs, "__module__", "implicit.made")
    fits = list[tuple[int, list[int]]]()
    comparison = quick(split, models={"theirs": Theirs(fits)}, tune=1.0)
    board = comparison.leaderboards["theirs"]
    assert {row["family"] for row in board} == {"implicit ALS"}
    assert f"  theirs: {board[0]['model']}" in comparison.notes
    *searched, last = fits
    assert [epochs for _, epochs in searched] == [[0, 1, 2]] * TRIALS  # nothing comes of more
    assert last == (board[0]["epochs"], [0])
    family = ImplicitALS.of(Theirs(fits))
    setting = Setting(Facts.of(split.train), factors=8, seed=0, n_threads=1)
    watched = family.model((0.5, 0.5), 0, setting)
    ours = named("WRMF").model((0.5, 0.5, 0.0), 0, setting).objective  # type: ignore[attr-defined]
    assert ours.nu == 0
    theirs = watched.model
    assert (theirs.alpha, theirs.regularization) == (ours.alpha, ours.regularization)
    told = list[Any]()
    watched.fit(split.train, callback=lambda *step: told.append(step) or step[0] == 4)
    assert told == [(epoch, 0.125, None) for epoch in range(5)]
    assert watched.fit(split.train, callback=lambda *_: True) is watched
    with time_limit(0.0), pytest.raises(OutOfTimeError):
        watched.fit(split.train)
    monkeypatch.setattr(Theirs, "worst", np.nan)
    diverged = quick(split, models={"theirs": Theirs(fits), "knn": mfrank.ItemKNN()}, tune=1.0)
    assert "FloatingPointError: the fit diverged" in str(diverged)


@pytest.mark.usefixtures("searched")
@pytest.mark.parametrize(
    "kind", ["bpr.BayesianPersonalizedRanking", "lmf.LogisticMatrixFactorization"]
)
def test_other_models_of_implicit_are_judged_ten_times(split: Split, kind: str) -> None:
    made = pytest.importorskip("implicit.cpu", reason="implicit is the extra compare")
    threads = pytest.importorskip("threadpoolctl", reason="a dependency of implicit")
    assert made
    with threads.threadpool_limits(1, "blas"):
        given = resolve_name(f"implicit.cpu.{kind}")(factors=8, num_threads=1, random_state=3)
    usual = given.iterations
    comparison = quick(split, models={"theirs": given}, tune=1.0)
    board = comparison.leaderboards["theirs"]
    assert len(board) == TRIALS
    assert all(row["epochs"] <= 10 and row["factors"] <= 8 for row in board)
    learned = {row["model"].split("learning_rate=")[1].split(",")[0] for row in board}
    assert len(learned) > 1
    assert given.iterations == usual
    assert given.user_factors is None
    assert comparison["theirs"].evaluation["ndcg@10"].value > 0


class Cosines(ItemWeights):
    """Another package's model, of which only the weights are its own."""

    package = "numpy"

    def _weights(self, likes: Any) -> tuple[Any, ...]:
        return (mfrank.ItemKNN(neighbors=60).fit(likes).similarity,)


def test_weights_of_another_package_rank_as_they_do_here(split: Split) -> None:
    train = split.train.to_scipy()
    theirs, ours = Cosines().fit(train), mfrank.ItemKNN(neighbors=60).fit(train)
    of_both = [
        mfrank.evaluate(model, split.test.user_items, train=train, metrics=METRICS)
        for model in (theirs, ours)
    ]
    for metric in METRICS:
        np.testing.assert_allclose(of_both[0][metric].per_user, of_both[1][metric].per_user)
    ids, scores = theirs.recommend(np.arange(3), train[:3], N=100)
    assert ids.shape == (3, 60)
    for user in range(3):
        assert not set(ids[user]) & set(train[[user]].indices)
        assert np.isneginf(scores[user][ids[user] < 0]).all()


@pytest.mark.usefixtures("searched")
@pytest.mark.parametrize("opponent", OPPONENTS, ids=lambda one: one.__name__)
def test_opponents_of_other_packages_are_searched(split: Split, opponent: Any) -> None:
    if not opponent.is_installed():
        pytest.skip(f"{opponent.package} is not installed; see docs/evaluation.md")
    handlers = list(logging.getLogger().handlers)
    comparison = quick(split, models={"theirs": opponent()}, tune=1.0)
    board = comparison.leaderboards["theirs"]
    assert {row["family"] for row in board} == {opponent.__name__}
    assert board[0]["model"].startswith(f"{opponent.package} {opponent.__name__}(")
    assert comparison["theirs"].library.startswith(f"{opponent.package} ")
    popular = quick(split, models={"popular": mfrank.Popularity()})
    values = [
        found[name].evaluation["recall@20"].value
        for found, name in ((comparison, "theirs"), (popular, "popular"))
    ]
    assert values[0] > 0.8 * values[1]
    assert logging.getLogger().handlers == handlers


@pytest.mark.parametrize("several", [False, True])
def test_a_recipe_of_several_models_is_their_blend(split: Split, several: bool) -> None:
    models: list[Any] = [
        mfrank.ALS(factors=4, iterations=9, random_state=0),
        mfrank.Descent(factors=4, iterations=9, random_state=0),
    ][: 1 + several]
    told = list[int]()
    epochs, weights = [2, 1][: 1 + several], [0.75, 0.25][: 1 + several]
    recipe = _Recipe(models, epochs, weights)
    made = recipe.fit(split.train, callback=lambda epoch, *_: told.append(epoch))
    alone = [
        model.set_params(iterations=n).fit(split.train)
        for model, n in zip(models, epochs, strict=True)
    ]
    whole = mfrank.Blend.from_models(alone, weights) if several else alone[0]
    np.testing.assert_array_equal(made.item_factors, whole.item_factors)
    np.testing.assert_array_equal(made.seen.matrix.indices, split.train.user_items.indices)
    assert told == ([] if several else [0, 1])


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "first", [mfrank.ALS(factors=4, iterations=2, random_state=0), mfrank.EASE()]
)
def test_all_parts_of_what_was_found_are_fitted(
    split: Split, first: Any, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, weights = [first, mfrank.Descent(factors=4, iterations=1, random_state=0)], [0.5, 0.5]
    parts = [
        SimpleNamespace(outcome=SimpleNamespace(trial=model, epochs=epochs), weight=0.5)
        for model, epochs in zip(models, [2, 1], strict=True)
    ]
    found = SimpleNamespace(
        trees=None,
        runner=SimpleNamespace(model=deepcopy),
        parts=parts[: 1 + several],
        leaderboard=[{"model": "both", "error": None}],
    )
    monkeypatch.setattr(module, "search", lambda *_, **__: found)
    compared = quick(split, models={"all": mfrank.tune}, tune=1.0, random_state=0)
    fitted = [deepcopy(model).fit(split.train) for model in models]
    whole = mfrank.Blend.from_models(fitted, weights) if several else fitted[0]
    expected = mfrank.evaluate(whole, split.test, train=split.train, metrics=METRICS)
    assert compared["all"].evaluation["ndcg@10"].value == expected["ndcg@10"].value


@pytest.mark.usefixtures("searched")
def test_progress_names_each_search(split: Split, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (False, True):
        quick(split, models={"ease": mfrank.EASE()}, tune=0.5, show_progress=shown)
        read = capsys.readouterr()
        assert not read.out
        assert ("compare: tuning ease, 0.5 min\n" in read.err) == shown


@pytest.mark.parametrize(("factors", "most"), [(None, 512), (32, 32)])
def test_mfrank_tune_tries_at_most_the_factors_given(
    split: Split, factors: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Any]()

    def noted(*_: Any, **options: Any) -> Any:
        asked.append([options[name] for name in ("factors", "seed", "n_threads", "show_progress")])
        raise InterruptedError

    monkeypatch.setattr(module, "search", noted)
    given: Any = {"factors": factors, "random_state": 5, "show_progress": True}
    with pytest.raises(InterruptedError):
        quick(split, models={"all": mfrank.tune}, tune=1.0, **given)
    assert asked == [[most, 5, 1, True]]
