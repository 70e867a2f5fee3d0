"""Descent as an estimator: fits, starts, checkpoints, and refuses what it cannot use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from hostile import nested
from hypothesis import HealthCheck, assume, given, settings
from problems import matrices

import mfrank
from mfrank.descent import Optimizer
from mfrank.losses import Loss
from mfrank.models import loss_classes
from tests.support.errors import refuses

DATA = mfrank.synthetic(120, 60, 2000, random_state=0)
LOSSES = [kind() for name, kind in sorted(loss_classes().items())]
BY_CELL = [loss for loss in LOSSES if not loss.remembers_users]


def made(loss: Loss | None = None, **options: Any) -> mfrank.Descent:
    settings = {"factors": 6, "iterations": 4, "batch_size": 32, "negatives": 20, "random_state": 0}
    return mfrank.Descent(loss or mfrank.SONG(), **(settings | options))  # type: ignore[arg-type]


def fitted_auc(model: mfrank.Descent) -> float:
    """How well the model ranks what it was fitted to."""
    of_all = mfrank.evaluate(model, DATA, filter_already_liked_items=False, metrics=mfrank.AUC)
    return float(of_all[mfrank.AUC].value)


def named(loss: Loss) -> str:
    return type(loss).__name__


def test_every_file_of_losses_is_found() -> None:
    files = {file.stem for file in Path(mfrank.__path__[0], "losses").glob("[a-z]*.py")} - {
        "contract"
    }
    assert {kind.__module__.rsplit(".", 1)[1] for kind in loss_classes().values()} == files
    assert loss_classes()["SONG"] is mfrank.SONG


@pytest.mark.parametrize("loss", LOSSES, ids=named)
def test_every_loss_fits_saves_and_loads(loss: Loss, tmp_path: Path) -> None:
    model = made(loss, optimizer=mfrank.Adam(0.01)).fit(DATA)
    assert np.isfinite(model.user_factors).all()
    assert [record["epoch"] for record in model.store.history] == [1, 2, 3, 4]
    model.save(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model")
    assert isinstance(loaded, mfrank.Descent)
    assert loaded.get_params() == model.get_params()
    users = DATA.user_ids.raw(np.arange(5))
    for one, other in zip(loaded.recommend(users), model.recommend(users), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("loss", LOSSES, ids=named)
def test_every_loss_learns_more_than_chance(loss: Loss) -> None:
    """The observed items of users come up: AUC far above a half on what was fitted."""
    model = made(loss, optimizer=mfrank.Adam(0.05), iterations=25).fit(DATA)
    assert fitted_auc(model) > 0.6


MANY = mfrank.synthetic(300, 1200, 30_000, random_state=0)


def check_threads(loss: Loss, **options: Any) -> None:
    """Seeds make the bits, threads do not, where a batch has work for three in every kernel."""
    cheap = loss.largest_array(150, 300) < 10**4  # long enough for sums over sorted thresholds, too
    settings: dict[str, Any] = {"factors": 256, "iterations": 1, "init": "random", **options}
    settings["negatives"] = 300 if cheap else 40
    if options.get("batches") != "positives":  # of which each is a list of its own
        settings["positives"] = 150 if cheap else 10
    one, same, other = (
        mfrank.Descent(loss, random_state=seed, n_threads=threads, **settings).fit(MANY)
        for seed, threads in ((1, 1), (1, 3), (2, 1))
    )
    for name in ("user_factors", "item_factors", "item_biases"):
        np.testing.assert_array_equal(getattr(one.store, name), getattr(same.store, name))
    assert not np.array_equal(one.item_factors, other.item_factors)


@pytest.mark.parametrize("loss", LOSSES, ids=named)
def test_the_same_seed_gives_the_same_bits_whatever_the_threads(loss: Loss) -> None:
    check_threads(loss)


@pytest.mark.parametrize(
    "options",
    [
        {"batches": "positives", "batch_size": 4096},
        {"shared_negatives": True},
        {"scores": "cosine", "negative_sampling": "popularity"},
        {"scores": "distance", "negative_sampling": "in-batch"},
        {"optimizer": mfrank.Langevin(0.1, 0.5, 1e3)},
        {"optimizer": mfrank.SGD(0.5, momentum=0.5)},
    ],
    ids=str,
)
def test_threads_change_no_bit_whatever_the_engine_is_told(options: dict[str, Any]) -> None:
    check_threads(mfrank.BPR(), item_biases=True, **options)


@pytest.mark.parametrize("backend", sorted(set(BACKENDS) - {"reference"}))
@pytest.mark.parametrize("loss", LOSSES, ids=named)
def test_backends_follow_one_course(loss: Loss, backend: str) -> None:
    options: dict[str, Any] = {
        "dtype": "float64",
        "optimizer": mfrank.SGD(0.05),
        "item_biases": True,
    }
    found, truth = (
        made(loss, backend=name, **options).fit(DATA) for name in (backend, "reference")
    )
    np.testing.assert_allclose(found.user_factors, truth.user_factors, atol=1e-9)
    np.testing.assert_allclose(found.item_factors, truth.item_factors, atol=1e-9)


def test_options_are_checked_when_they_are_set_and_at_a_fit() -> None:
    with refuses(ValueError, "n_threads"):
        made(n_threads=-1)
    with refuses(TypeError, "random_state"):
        made(random_state="x")
    model = made()
    model.iterations = 0
    with refuses(ValueError, "iterations"):
        model.fit(DATA)


def test_a_fit_shows_nothing_unless_it_is_asked_to(capfd: pytest.CaptureFixture[str]) -> None:
    made().fit(DATA)
    assert capfd.readouterr().err == ""


def test_cosine_factors_have_length_one() -> None:
    model = made(mfrank.SOPRC()).fit(DATA)
    np.testing.assert_allclose((model.item_factors**2).sum(1), 1, rtol=1e-5)
    liked = DATA.counts.users > 0
    np.testing.assert_allclose((model.user_factors[liked] ** 2).sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("scores", "temperature", "item_biases"),
    [("cosine", 0.1, True), ("dot", 1.0, False), ("distance", 1.0, False)],
)
def test_temperature_and_biases_follow_the_scores(
    scores: str, temperature: float, item_biases: bool
) -> None:
    options = {"scores": scores, "iterations": 1}
    found = made(mfrank.BPR(), **options).fit(DATA).store
    stated = (
        made(mfrank.BPR(), temperature=temperature, item_biases=item_biases, **options)
        .fit(DATA)
        .store
    )
    np.testing.assert_array_equal(found.item_factors, stated.item_factors)
    np.testing.assert_array_equal(found.item_biases, stated.item_biases)
    assert (found.item_biases is None) == (scores == "dot")


@pytest.mark.parametrize("loss", [mfrank.BPR(), mfrank.SONG(), mfrank.SampledSoftmax()], ids=named)
def test_losses_learn_distances(loss: Loss) -> None:
    options = {"scores": "distance", "temperature": 0.2, "iterations": 25}
    model = made(loss, optimizer=mfrank.Adam(0.05), **options).fit(DATA)
    assert fitted_auc(model) > 0.6


def test_a_model_of_distances_recommends_what_is_nearest() -> None:
    model = made(mfrank.SML(), optimizer=mfrank.Adam(0.05), dtype="float64").fit(DATA)
    p, q = model.user_factors, model.item_factors
    assert max((p**2).sum(1).max(), (q**2).sum(1).max()) <= 1 + 1e-12
    squares = ((p[:, None] - q) ** 2).sum(2)
    rows = np.arange(20)
    answers = (
        model.recommend(rows, N=20, filter_already_liked_items=False, by_row=True),
        model.recommend_users(rows, N=20, filter_already_liked_users=False, by_row=True),
    )
    for (ids, scores), distances in zip(answers, (squares[:20], squares.T[:20]), strict=True):
        np.testing.assert_array_equal(ids, np.argsort(distances, axis=1)[:, :20])
        np.testing.assert_allclose(scores, -np.sort(distances, axis=1)[:, :20] / 2, atol=1e-12)


@pytest.mark.parametrize("scores", ["dot", "distance"])
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_the_store_ranks_by_the_scores_that_were_trained(temperature: float, scores: str) -> None:
    """Biases weigh against dot products as in the loss, p . q / T + b; whatever the start's."""
    start = made(iterations=1).fit(DATA)
    biased = replace(start.store, item_biases=np.linspace(-1, 1, DATA.n_items))
    options = {"temperature": temperature, "scores": scores, "item_biases": True}
    model = made(optimizer=mfrank.SGD(1e-30), iterations=1, **options)
    model.fit(DATA, start=biased)
    np.testing.assert_allclose(model.store.item_biases, biased.item_biases, rtol=1e-6)


def test_lengths_of_a_start_of_distances_are_not_taken_for_trained_biases() -> None:
    few = DATA.user_items[:, :50]
    start = made(mfrank.SML(), optimizer=mfrank.Adam(0.05)).fit(few)
    model = made(mfrank.SML(), optimizer=mfrank.SGD(1e-30), iterations=1, item_biases=True)
    model.fit(DATA.user_items, start=start)
    np.testing.assert_array_equal(model.store.item_biases[:50], start.store.item_biases)
    untrained = -(model.item_factors**2).sum(1) / 2  # of new items too
    np.testing.assert_allclose(model.store.item_biases, untrained, rtol=1e-6)


def test_a_start_is_where_the_fit_begins() -> None:
    start = mfrank.ALS(factors=6, random_state=0).fit(DATA)
    model = made(optimizer=mfrank.SGD(1e-30), iterations=1).fit(DATA, start=start)
    np.testing.assert_allclose(model.user_factors, start.user_factors)
    np.testing.assert_allclose(model.item_factors, start.item_factors)
    with refuses(ValueError, "start"):
        made(factors=7).fit(DATA, start=start)


def first_factors(matrix: Any, **options: Any) -> mfrank.FactorStore:
    """Where a fit begins, for its steps are too small to be seen."""
    still = mfrank.SGD(1e-30)
    return made(mfrank.BPR(), optimizer=still, iterations=1, **options).fit(matrix).store


def test_a_random_start_depends_on_the_seed_and_a_spectral_one_on_the_data() -> None:
    dense = np.random.default_rng(0).random((40, 30))
    one, other = (sp.csr_array(each) for each in (dense * (dense > 0.5), dense * (dense < 0.5)))
    of_seed = [first_factors(each, init="random") for each in (one, other)]
    of_data = [first_factors(each) for each in (one, other)]
    np.testing.assert_array_equal(*[store.item_factors for store in of_seed])
    assert not np.allclose(*[store.item_factors for store in of_data])
    for store in of_seed:  # of variance .01 / K
        np.testing.assert_allclose(np.linalg.norm(store.item_factors, axis=1).mean(), 0.1, rtol=0.1)
        np.testing.assert_allclose(np.linalg.norm(store.user_factors, axis=1).mean(), 0.1, rtol=0.1)


def test_a_random_start_knows_nothing_of_users_without_likes() -> None:
    matrix = sp.csr_array(np.array([[0.5, 0, 2], [0, 0, 0], [0, 0.25, 0]]))
    factors = first_factors(matrix, init="random").user_factors
    assert factors.any(axis=1).tolist() == [True, False, True]
    with refuses(ValueError, "user_items"):
        made().fit(sp.csr_array((3, 4)))


def test_a_warm_up_is_another_descent() -> None:
    warm = made(mfrank.SOLC(), iterations=3).fit(DATA)
    model = made(mfrank.SONG(), iterations=1, optimizer=mfrank.Adam(1e-6)).fit(DATA, start=warm)
    np.testing.assert_allclose(model.item_factors, warm.item_factors, atol=1e-4)


def test_early_stopping_keeps_the_best_epoch() -> None:
    split = mfrank.by_ratio(DATA, random_state=0)
    model = made(iterations=30, optimizer=mfrank.Adam(0.05), schedule=mfrank.Constant())
    model.fit(split.train, stopping=mfrank.EarlyStopping(split.valid, patience=3))
    values = [record["valid"] for record in model.store.history]
    best = mfrank.evaluate(model, split.valid, train=split.train, metrics=mfrank.NDCG @ 10)
    assert best[mfrank.NDCG @ 10].value == pytest.approx(max(values))
    assert len(values) < 30


def test_a_start_that_ranks_best_is_kept() -> None:
    split = mfrank.by_ratio(DATA, random_state=0)
    start = mfrank.ALS(mfrank.RG2(), factors=6, random_state=0).fit(split.train)
    stopping = mfrank.EarlyStopping(split.valid)
    spoiling = mfrank.Adam(0.5)  # a rate at which no epoch ranks
    model = made(optimizer=spoiling, iterations=3).fit(split.train, start=start, stopping=stopping)
    np.testing.assert_array_equal(model.item_factors, start.item_factors)
    np.testing.assert_array_equal(model.user_factors, start.user_factors)
    first, *others = model.store.history
    assert first["epoch"] == 0
    assert first["valid"] == stopping.value(start, split.train, "auto", 0)
    assert all(other["valid"] < first["valid"] for other in others)


def test_the_biases_of_a_start_that_is_kept_are_its_own() -> None:
    split = mfrank.by_ratio(DATA, random_state=0)
    start = made(mfrank.SML(), scores="distance", iterations=4).fit(split.train)
    model = made(mfrank.SML(), scores="distance", optimizer=mfrank.SGD(100.0), iterations=1)
    model.fit(split.train, start=start, stopping=mfrank.EarlyStopping(split.valid))
    assert model.store.history[0]["valid"] > model.store.history[1]["valid"]
    for name in ("user_biases", "item_biases"):
        np.testing.assert_array_equal(getattr(model.store, name), getattr(start.store, name))


@pytest.mark.parametrize(
    ("schedule", "epochs"),
    [(mfrank.Constant(), 1), (mfrank.StepDecay((0.45,)), 6), (mfrank.CosineDecay(), 10)],
    ids=str,
)
def test_patience_waits_for_the_learning_rate_to_come_down(
    schedule: mfrank.descent.optimizers.Schedule, epochs: int
) -> None:
    """With a start that no epoch reaches, patience of 1 ends the fit at the first that counts."""
    split = mfrank.by_ratio(DATA, random_state=0)
    start = mfrank.ALS(mfrank.RG2(), factors=6, random_state=0).fit(split.train)
    model = made(optimizer=mfrank.Adam(0.5), iterations=10, schedule=schedule)
    stopping = mfrank.EarlyStopping(split.valid, patience=1)
    model.fit(split.train, start=start, stopping=stopping)
    assert [record["epoch"] for record in model.store.history] == list(range(epochs + 1))


def test_a_fit_that_diverges_keeps_the_last_epoch() -> None:
    kept: list[np.ndarray] = []
    model = made(mfrank.BCE(), optimizer=mfrank.SGD(1.0, momentum=0.9), iterations=50)
    model.set_params(optimizer__learning_rate=1e12)

    def after(epoch: int, seconds: float, loss: float | None) -> None:
        kept.append(model.item_factors)

    with pytest.raises(FloatingPointError, match=r"diverged in epoch \d+: the learning"):
        model.fit(DATA, callback=after)
    assert kept
    np.testing.assert_array_equal(model.item_factors, kept[-1])


@pytest.mark.parametrize(
    "rule",
    [mfrank.SGD(1e30), mfrank.Adam(1e30), mfrank.Langevin(1e3, 0.0, 1e-300)],
    ids=lambda rule: type(rule).__name__,
)
@pytest.mark.parametrize("loss", LOSSES, ids=named)
def test_no_loss_ends_in_anything_but_numbers(loss: Loss, rule: Optimizer) -> None:
    """Whatever the rate: factors are finite, or the error tells of it; no warning comes first."""
    for backend in BACKENDS:
        model = made(loss, optimizer=rule, backend=backend, scores="dot", negatives=None)
        try:
            model.fit(DATA)
        except FloatingPointError as error:
            assert "the learning rate" in str(error)  # noqa: PT017
        else:
            assert np.isfinite(model.item_factors).all()


@pytest.mark.parametrize("loss", BY_CELL, ids=named)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(matrices())
def test_any_matrix_of_likes_is_fitted(loss: Loss, matrix: sp.csr_array) -> None:
    assume(matrix.nnz)
    for batches in ("users", "positives"):
        model = made(loss, batches=batches, iterations=1, negatives=3).fit(matrix)
        assert np.isfinite(model.user_factors).all()
        assert np.isfinite(model.item_factors).all()


@pytest.mark.parametrize("loss", LOSSES, ids=named)
@pytest.mark.parametrize(
    "dense",
    [
        np.ones((3, 4)),  # nothing is left to be another item
        np.ones((4, 1)),  # one item
        np.diag([1.0, 0, 1, 0]),  # users and items without any likes
    ],
    ids=["all liked", "one item", "some empty"],
)
def test_odd_data_are_fitted(loss: Loss, dense: np.ndarray) -> None:
    for negatives in (5, None):
        model = made(loss, negatives=negatives, iterations=2).fit(sp.csr_array(dense))
        assert np.isfinite(model.user_factors).all()
        assert np.isfinite(model.item_factors).all()


@pytest.mark.parametrize(
    ("options", "error", "argument"),
    [
        ({"loss": "song"}, TypeError, "loss"),
        ({"optimizer": 0.1}, TypeError, "optimizer"),
        ({"schedule": None}, TypeError, "schedule"),
        ({"factors": 0}, ValueError, "factors"),
        ({"iterations": 0}, ValueError, "iterations"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batches": "items"}, ValueError, "batches"),
        ({"scores": "euclidean"}, ValueError, "scores"),
        ({"item_biases": "yes"}, ValueError, "item_biases"),
        ({"positives": 0}, ValueError, "positives"),
        ({"negative_sampling": "hard"}, ValueError, "negative_sampling"),
        ({"init": "zeros"}, ValueError, "init"),
        ({"temperature": 0}, ValueError, "temperature"),
        ({"weight_decay": -1}, ValueError, "weight_decay"),
        ({"clip": 0.0}, ValueError, "clip"),
        ({"dtype": "int8"}, ValueError, "dtype"),
        ({"backend": 3}, TypeError, "backend"),
        ({"loss": mfrank.UIB(), "batches": "positives"}, ValueError, "batches"),
        ({"loss": mfrank.SML(), "batches": "positives"}, ValueError, "batches"),
    ],
)
def test_bad_options_are_refused(options: Any, error: type[Exception], argument: str) -> None:
    with refuses(error, argument):
        mfrank.Descent(**options)


def test_bad_rates_are_refused() -> None:
    for make, argument in (
        (lambda: mfrank.Adam(0.0), "learning_rate"),
        (lambda: mfrank.Adam(decay_1=1.0), "decay_1"),
        (lambda: mfrank.SGD(momentum=1.0), "momentum"),
        (lambda: mfrank.SGD(momentum="0.9"), "momentum"),  # type: ignore[arg-type]
        (lambda: mfrank.Adagrad(float("nan")), "learning_rate"),
        (lambda: mfrank.StepDecay((0.0,)), "at"),
        (lambda: mfrank.StepDecay((1.0,)), "at"),
        (lambda: mfrank.StepDecay(("half",)), "at"),  # type: ignore[arg-type]
        (lambda: mfrank.StepDecay(nested()), "at"),
        (lambda: mfrank.CosineDecay(-1.0), "last"),
    ):
        with refuses(ValueError, argument):
            make()
    with refuses(TypeError, "at"):
        mfrank.StepDecay(0.5)  # type: ignore[arg-type]
    assert mfrank.StepDecay([0.5]) == mfrank.StepDecay((0.5,))  # type: ignore[arg-type]


def test_dislikes_and_bad_arguments_are_refused_before_any_work(tmp_path: Path) -> None:
    disliked = sp.csr_array(np.array([[1.0, -1.0], [0.0, 1.0]]))
    with refuses(ValueError, "user_items", remedy="drop them"):
        made().fit(disliked)
    with refuses(TypeError, "callback"):
        made().fit(DATA, callback=3)  # type: ignore[arg-type]
    split = mfrank.by_ratio(DATA, random_state=0)
    with refuses(ValueError, "checkpoint"):
        made().fit(
            split.train, checkpoint=tmp_path / "state", stopping=mfrank.EarlyStopping(split.valid)
        )
    assert not (tmp_path / "state").exists()


def test_batches_that_no_memory_holds_are_refused_before_any_work() -> None:
    rows = mfrank.synthetic(2000, 3000, 200_000, random_state=0)
    for loss in (mfrank.NeuralNDCG(), mfrank.SML()):
        whole = mfrank.Descent(loss, factors=2, positives=None, negatives=None, batch_size=10**6)
        with refuses(ValueError, "batch_size"):
            whole.fit(rows, callback=lambda *_: pytest.fail("it began"))
    mfrank.Descent(mfrank.Softmax(), 2, 1, positives=None, negatives=None, batch_size=10**6).fit(
        rows
    )


def test_the_default_optimizer_is_as_stated() -> None:
    assert mfrank.Descent().optimizer == mfrank.Adam(0.01, decay_1=0.5) != mfrank.Adam(0.01)
