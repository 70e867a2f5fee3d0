"""Descent follows the loss: steps in the factors are derivatives, the same for a seed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from problems import toy

import mfrank
from mfrank.arrays import CSR, directions_of
from mfrank.backends import choose
from mfrank.descent import (
    SCORINGS,
    SGD,
    Adagrad,
    Adam,
    Batches,
    Constant,
    CosineDecay,
    DescentPlan,
    Drawn,
    FactorRows,
    FactorTables,
    Langevin,
    ListDrawer,
    Optimizer,
    Sampling,
    Schedule,
    StepDecay,
    Touched,
    descend,
)
from mfrank.losses import (
    BPR,
    SML,
    SONG,
    WRITTEN_OUT,
    Gradients,
    Lists,
    Loss,
    SampledSoftmax,
    Scores,
    Sizes,
    Softmax,
)
from mfrank.store import Step

N_USERS, N_ITEMS = 20, 15


def rows() -> CSR:
    return CSR.from_scipy(toy(N_USERS, N_ITEMS), None)


def tables(backend: str = "reference", scores: Scores = "dot") -> FactorTables:
    rng = np.random.default_rng(1)
    users, items = rng.normal(size=(N_USERS, 3)), rng.normal(size=(N_ITEMS, 3))
    biases, scoring = rng.normal(size=(N_ITEMS, 1)), SCORINGS[scores]
    if scores == "distance":
        users, items = users / 4, items / 4  # well within the ball
    for table in (users, items):
        scoring.project_rows(FactorRows(table, np.arange(len(table)), choose(backend)))
    made = FactorTables(users, items, biases, choose(backend), scoring, 0.7)
    made.begin(SGD())
    return made


def found(loss: Loss, at: FactorTables, drawn: Drawn) -> Gradients:
    """What a loss that remembers nothing yet gives."""
    scored = at.scores(drawn, pair_scores=loss.pair_scores)
    lists, sizes = drawn.lists, Sizes(len(rows().indices), N_USERS, N_ITEMS)
    seen = replace(lists, pair_scores=scored.pair_scores)
    return loss.gradients(seen, scored.positives, scored.negatives, loss.memory(sizes))


def lists(cells: CSR, of: str, backend: str = "reference") -> Drawn:
    sampling = {
        "users": Sampling(4, 9),
        "shared": Sampling(4, 9, "popularity", shared=True),
        "whole": Sampling(None, None),
        "positives": Sampling(1, 9),  # some users and items twice
    }[of]
    drawer = ListDrawer(cells, sampling, choose(backend))
    if of == "positives":
        return drawer.of_cells(np.arange(0, 30, 2), 0)
    return drawer.of_users(np.flatnonzero(cells.counts), 0)


def apart(drawn: Drawn) -> Drawn:
    """The same lists, which share nothing."""
    return replace(
        drawn, negatives=np.broadcast_to(drawn.negatives, drawn.lists.negatives.shape).copy()
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("of", ["users", "shared", "whole", "positives"])
@pytest.mark.parametrize(
    ("loss", "scores"),
    [
        (BPR(), "dot"),
        (Softmax(), "dot"),
        (SONG(decay=1.0), "dot"),
        (BPR(), "distance"),
        (SONG(decay=1.0), "distance"),
        (SML(item_weight=0.7, largest_margin=0.4), "distance"),
        (SML(item_weight=0.7, largest_margin=0.4), "dot"),
    ],
)
def test_a_step_goes_down_the_derivative_of_the_loss(
    loss: Loss, scores: Scores, of: str, backend: str
) -> None:
    """Items are liked by some users and others to some, with lists of their own between items."""
    rate, decay = 1e-3, 0.3
    drawn, make = lists(rows(), of, backend), partial(tables, backend, scores)

    def value(at: FactorTables) -> float:
        return float(found(loss, at, drawn).loss.mean())

    before, after = make(), make()
    after.update(drawn, found(loss, after, drawn), SGD(learning_rate=rate), decay, clip=None)
    for name, table in before.by_name().items():
        moved = (table - after.by_name()[name]) / rate
        for place in list(np.ndindex(moved.shape))[::7]:
            up, down = make(), make()
            up.by_name()[name][place] += 1e-6
            down.by_name()[name][place] -= 1e-6
            slope = (value(up) - value(down)) / 2e-6
            if moved[place] != 0:  # rows that no list touches do not decay
                slope += decay * table[place]
            assert moved[place] == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("of", ["users", "shared", "whole", "positives"])
def test_cosines_go_down_their_derivative_along_the_sphere(of: str, backend: str) -> None:
    rate, loss = 1e-5, SampledSoftmax()
    drawn, make = lists(rows(), of, backend), partial(tables, backend)

    def value(at: FactorTables) -> float:
        turned = replace(at, users=directions_of(at.users), items=directions_of(at.items))
        return float(found(loss, turned, drawn).loss.mean())

    before, after = make("cosine"), make("cosine")
    after.update(drawn, found(loss, after, drawn), SGD(rate), 0.0, None)
    for name in ("users", "items"):
        table = after.by_name()[name]
        np.testing.assert_allclose((table**2).sum(1), 1)
        moved = (before.by_name()[name] - table) / rate
        for place in list(np.ndindex(moved.shape))[::5]:
            up, down = make(), make()
            up.by_name()[name][:] = down.by_name()[name][:] = before.by_name()[name]
            other = "items" if name == "users" else "users"
            up.by_name()[other][:] = down.by_name()[other][:] = before.by_name()[other]
            up.by_name()[name][place] += 1e-6
            down.by_name()[name][place] -= 1e-6
            assert moved[place] == pytest.approx((value(up) - value(down)) / 2e-6, abs=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scores", ["dot", "cosine", "distance"])
@pytest.mark.parametrize("of", ["shared", "whole"])
@pytest.mark.parametrize("loss", [SONG(decay=1.0), SML(largest_margin=0.4)])
def test_a_step_is_the_same_where_lists_share_their_others(
    loss: Loss, of: str, scores: Scores, backend: str
) -> None:
    drawn = lists(rows(), of, backend)
    one, other = tables(backend, scores), tables(backend, scores)
    one.update(drawn, found(loss, one, drawn), SGD(0.1), 0.1, 0.05)
    drawn = apart(drawn)
    other.update(drawn, found(loss, other, drawn), SGD(0.1), 0.1, 0.05)
    before = tables(backend, scores)
    for name, table in one.by_name().items():
        np.testing.assert_allclose(table, other.by_name()[name], atol=1e-12)
        assert (table != before.by_name()[name]).any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("of", ["users", "shared"])
@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_scores_are_what_they_are_called(backend: str, of: str, temperature: float) -> None:
    drawn = lists(rows(), of, backend)
    at = replace(tables(backend, "distance"), temperature=temperature)
    items = np.concatenate([drawn.lists.positive_items, apart(drawn).negatives], axis=1)
    p, q = at.users[drawn.lists.users], at.items[items]
    truth = -((p[:, None] - q) ** 2).sum(2) / temperature + at.biases[items, 0]
    of_positives, of_negatives, pair_scores = at.scores(drawn, pair_scores=True)
    np.testing.assert_allclose(
        np.concatenate([of_positives, of_negatives], axis=1), truth, atol=1e-12
    )
    positives, negatives = at.items[drawn.lists.positive_items], apart(drawn).negatives
    truth = -((positives[:, :, None] - at.items[negatives][:, None]) ** 2).sum(3) / temperature
    truth += at.biases[negatives, 0][:, None]
    np.testing.assert_allclose(pair_scores, truth, atol=1e-12)
    assert not at.scores(drawn).pair_scores.size
    dots = replace(tables(backend), temperature=temperature)
    products = (dots.users[drawn.lists.users][:, None] * dots.items[items]).sum(2)
    np.testing.assert_allclose(
        dots.scores(drawn).positives,
        (products / temperature + dots.biases[items, 0])[:, : positives.shape[1]],
        atol=1e-12,
    )


def one_pair() -> Drawn:
    """User 4's list: item 2, liked, and item 3, and padding."""
    one = np.ones(1)
    seen = Lists(
        gains=np.array([[1.0, 0.0]]),
        negatives=np.array([[True, False]]),
        n_positives=one,
        n_items=one,
        ideal=one,
        cells=np.array([[0, -1]]),
        users=np.array([4]),
        sums=WRITTEN_OUT,
        positive_items=np.array([[2, 0]]),
    )
    return Drawn(seen, np.array([[3, 1]]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scores", ["dot", "distance"])
def test_items_that_only_pad_are_not_touched(scores: Scores, backend: str) -> None:
    drawn, at, rule = one_pair(), tables(backend, scores), Adam()
    at.states.clear()
    at.begin(rule)
    at.update(drawn, found(SML(largest_margin=9.0), at, drawn), rule, 0.5, None)
    assert np.flatnonzero(at.states["items"]["updates"]).tolist() == [2, 3]
    before = tables(backend, scores).items
    assert np.flatnonzero((at.items != before).any(axis=1)).tolist() == [2, 3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_like_leaves_an_item_at_the_origin(backend: str) -> None:
    """Its slope is then all of its own row, nothing of the item's."""
    at, scale = tables(backend, "distance"), 0.7
    at.items[3] = 0
    before = at.items.copy()
    none, pair_scores = np.zeros((1, 2)), np.array([[[1.0, 0.0], [0.0, 0.0]]])
    at.update(one_pair(), Gradients(none, none, np.zeros(1), pair_scores), SGD(0.1), 0.0, None)
    np.testing.assert_allclose(at.items[2], before[2] * (1 + 0.2 / scale))
    np.testing.assert_allclose(at.items[3], -0.2 / scale * before[2])


@pytest.mark.parametrize("rule", [SGD(50.0), Langevin(0.1, 0.1, 10.0)])
def test_distances_are_of_rows_in_the_unit_ball(rule: Optimizer) -> None:
    last = run(SML(), rule)[-1]
    for table in (last.user_factors, last.item_factors):
        lengths = np.sqrt((table**2).sum(1))
        assert lengths.max() <= 1 + 1e-12
        assert (lengths > 1 - 1e-9).any()


def test_clipping_bounds_every_slope() -> None:
    drawn = lists(rows(), "users")
    free, cut = tables(), tables()
    for at, clip in ((free, None), (cut, 0.01)):
        at.update(drawn, found(BPR(), at, drawn), SGD(1.0), 0.0, clip)
    before = tables()
    moved = before.items - free.items
    np.testing.assert_allclose(before.items - cut.items, np.clip(moved, -0.01, 0.01))
    assert np.abs(moved).max() > 0.01


def run(loss: Loss, rule: Optimizer, seed: int = 0, **options: object) -> list[Step]:
    data = mfrank.synthetic(150, 60, 2000, random_state=0)
    cells = data.user_rows(None)
    rng = np.random.default_rng(seed)
    users, items = 0.1 * rng.normal(size=(150, 8)), 0.1 * rng.normal(size=(60, 8))
    for table in (users, items):
        SCORINGS[loss.scores].project_rows(FactorRows(table, np.arange(len(table)), choose()))
    plan = DescentPlan(loss, rule, Constant(), 6, Batches("users", 32), 0.0, None, seed)
    return list(
        descend(
            ListDrawer(cells, Sampling(5, 20), choose()),
            cells.counts,
            replace(plan, **options),
            FactorTables(users, items, None, choose(), SCORINGS[loss.scores]),
            loss.memory(Sizes(len(cells.indices), 150, 60)),
        )
    )


RULES = SGD(0.5), SGD(0.2, momentum=0.5), Adagrad(0.1), Adam(0.02)
PAIRS = [(loss, rule) for loss in (BPR(), SampledSoftmax()) for rule in RULES]
PAIRS += [(SONG(), SGD(30.0)), (SONG(), Adam(0.02))]  # its slopes are small
PAIRS += [(SML(margin_learning_rate=0.0), rule) for rule in RULES]


@pytest.mark.parametrize(("loss", "rule"), PAIRS)
def test_the_loss_falls(loss: Loss, rule: Optimizer) -> None:
    values = [step.objective for step in run(loss, rule)]
    assert values[-1] < values[0]


def test_one_seed_gives_one_result() -> None:
    a, b, c = (run(SONG(), Adam(0.02), seed)[-1] for seed in (3, 3, 4))
    np.testing.assert_array_equal(a.user_factors, b.user_factors)
    np.testing.assert_array_equal(a.item_factors, b.item_factors)
    assert not np.array_equal(a.item_factors, c.item_factors)


def test_steps_are_not_touched_again() -> None:
    steps = run(BPR(), SGD(0.5))
    for a, b in pairwise(steps):
        assert not np.array_equal(a.user_factors, b.user_factors)


@pytest.mark.parametrize("iterations", [1, 6])
def test_too_large_a_learning_rate_is_said(iterations: int) -> None:
    said = "diverged in epoch 1: the learning rate 1e"
    with pytest.raises(FloatingPointError, match=said), np.errstate(all="ignore"):
        run(BPR(), SGD(1e200), iterations=iterations)


def test_adam_of_one_touch_takes_a_step_of_the_learning_rate() -> None:
    table, rule = np.zeros((4, 2)), Adam(0.1)
    state = rule.state(table)
    gradients = np.array([[2.0, -1.0], [1e-3, 5.0]])
    rule.update(Touched(table, np.array([1, 3]), gradients, state, choose()))
    np.testing.assert_allclose(table[[1, 3]], [[-0.1, 0.1], [-0.1, -0.1]], rtol=1e-4)
    assert not table[[0, 2]].any()


def textbook(rule: Optimizer, gradients: list[np.ndarray]) -> np.ndarray:
    """Where a weight comes to from 0, step after step as the rule is printed."""
    weight, first, second = (np.zeros_like(gradients[0]) for _ in range(3))
    for step, slope in enumerate(gradients, start=1):
        match rule:
            case SGD(rate, momentum):
                first = momentum * first + slope
                weight = weight - rate * first
            case Adagrad(rate, epsilon):
                second = second + slope**2
                weight = weight - rate * slope / (np.sqrt(second) + epsilon)
            case Adam(rate, decay_1, decay_2, epsilon):
                first = decay_1 * first + (1 - decay_1) * slope
                second = decay_2 * second + (1 - decay_2) * slope**2
                mean, square = first / (1 - decay_1**step), second / (1 - decay_2**step)
                weight = weight - rate * mean / (np.sqrt(square) + epsilon)
    return weight


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "rule", [SGD(0.3), SGD(0.3, 0.8), Adagrad(0.2), Adam(0.1, 0.7, 0.9, 1e-3)], ids=str
)
def test_rows_take_the_steps_of_the_textbook_when_they_are_touched(
    rule: Optimizer, backend: str
) -> None:
    """Each by its own count and its own averages, which stand still in between."""
    table, rng = np.zeros((4, 5)), np.random.default_rng(0)
    state, given = rule.state(table), [list[np.ndarray]() for _ in table]
    for rows in ([1, 3], [3], [0, 1], [3, 1], [1]):
        gradients = rng.normal(size=(len(rows), 5))
        rule.update(Touched(table, np.array(rows), gradients, state, choose(backend)))
        for row, slope in zip(rows, gradients, strict=True):
            given[row].append(slope)
    for row, slopes_of_row in enumerate(given):
        if slopes_of_row:
            np.testing.assert_allclose(table[row], textbook(rule, slopes_of_row), rtol=1e-12)
    assert not table[2].any()


@pytest.mark.parametrize("progress", [0.0, 0.3, 0.999])
def test_a_constant_schedule_changes_no_rate(progress: float) -> None:
    assert Constant().multiplier(progress) == 1


@pytest.mark.parametrize("schedule", [StepDecay((0.5,), 0.1), CosineDecay(), CosineDecay(0.2)])
def test_a_schedule_slows_the_steps_down(schedule: Schedule) -> None:
    paces = [schedule.multiplier(part) for part in np.linspace(0, 0.999, 50)]
    assert paces[0] == 1
    assert all(late <= early for early, late in pairwise(paces))
    still, slowed = (run(BPR(), SGD(0.5), schedule=kind) for kind in (Constant(), schedule))

    def last_step(steps: list[Step]) -> float:
        return float(np.abs(steps[-1].user_factors - steps[-2].user_factors).mean())

    assert last_step(slowed) < 0.7 * last_step(still)


def test_a_schedule_of_halves_has_the_stated_factors() -> None:
    schedule = StepDecay((0.25, 0.5), 0.5)
    assert [schedule.multiplier(part) for part in (0.0, 0.24, 0.25, 0.49, 0.5, 0.99)] == [
        1,
        1,
        0.5,
        0.5,
        0.25,
        0.25,
    ]
    assert CosineDecay(0.2).multiplier(0.5) == pytest.approx(0.6)


def test_langevin_shakes_users_who_like_nothing_and_descent_leaves_them() -> None:
    cells = CSR.from_scipy(sp.csr_array(np.eye(4, 5, k=1) * [[1], [0], [1], [1]]), None)
    for rule, moves in ((Langevin(0.1, 0.5, 1e3), True), (SGD(0.1), False)):
        rng = np.random.default_rng(0)
        users, items = rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
        at = FactorTables(users.copy(), items, None, choose("reference"))
        plan = DescentPlan(BPR(), rule, Constant(), 1, Batches("users", 2), 0.0, None, 0)
        drawer = ListDrawer(cells, Sampling(1, 2), choose("reference"))
        (step,) = descend(drawer, cells.counts, plan, at, {})
        assert (step.user_factors[1] != users[1]).all() == moves
        assert (step.user_factors[0] != users[0]).all()


def test_losses_of_the_first_k_places_have_a_cutoff() -> None:
    assert mfrank.KSONG(k=3).cutoff == 3
    assert mfrank.StochasticRank(k=4).cutoff == 4
    assert BPR().cutoff is None
