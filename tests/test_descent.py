"""Descent follows the loss: steps in the factors are derivatives, the same whatever the threads."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from fits import BACKENDS
from problems import toy

import mfrank
from mfrank.backends import choose
from mfrank.csr import CSR
from mfrank.descent import Batches, Course, Tables, descend, on_sphere
from mfrank.langevin import Langevin
from mfrank.optimisers import SGD, Adagrad, Adam, Optimiser
from mfrank.sampling import Drawn, ListDrawer, Sampling
from mfrank.schedules import Constant, CosineDecay, Schedule, StepDecay
from mfrank.steps import Step
from mfrank.trainers import Loss
from mfrank.trainers.bpr import BPR
from mfrank.trainers.softmax import SampledSoftmax, Softmax
from mfrank.trainers.song import SONG

N_USERS, N_ITEMS = 20, 15


def rows() -> CSR:
    return CSR.from_scipy(toy(N_USERS, N_ITEMS), None)


def tables(backend: str = "reference", *, cosine: bool = False) -> Tables:
    rng = np.random.default_rng(1)
    users, items = rng.normal(size=(N_USERS, 3)), rng.normal(size=(N_ITEMS, 3))
    if cosine:
        users, items = on_sphere(users), on_sphere(items)
    made = Tables(users, items, rng.normal(size=(N_ITEMS, 1)), choose(backend), cosine, 0.7)
    made.begin(SGD())
    return made


def lists(cells: CSR, of: str) -> Drawn:
    if of == "users":
        drawer = ListDrawer(cells, Sampling(None, None), choose())
        return drawer.of_users(np.flatnonzero(cells.counts), 0)
    # Some users and items twice.
    return ListDrawer(cells, Sampling(1, 9), choose()).of_cells(np.arange(0, 30, 2), 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("of", ["users", "positives"])
@pytest.mark.parametrize("loss", [BPR(), Softmax(), SONG(decay=1.0)])
def test_a_step_goes_down_the_derivative_of_the_loss(loss: Loss, of: str, backend: str) -> None:
    cells, rate, decay = rows(), 1e-3, 0.3
    drawn = lists(cells, of)

    def value(at: Tables) -> float:
        memory = loss.memory(len(cells.indices), N_USERS)
        return float(loss.slopes(drawn.lists, *at.scores(drawn), memory).loss.mean())

    before, after = tables(backend), tables(backend)
    found = loss.slopes(drawn.lists, *after.scores(drawn), loss.memory(len(cells.indices), N_USERS))
    after.move(drawn, found, SGD(learning_rate=rate), decay, clip=None)
    for name, table in before.by_name().items():
        moved = (table - after.by_name()[name]) / rate
        for place in list(np.ndindex(moved.shape))[::7]:
            up, down = tables(backend), tables(backend)
            up.by_name()[name][place] += 1e-6
            down.by_name()[name][place] -= 1e-6
            slope = (value(up) - value(down)) / 2e-6
            if moved[place] != 0:  # rows that no list touches do not decay
                slope += decay * table[place]
            assert moved[place] == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("of", ["users", "positives"])
def test_cosines_go_down_their_derivative_along_the_sphere(of: str) -> None:
    cells, rate, loss = rows(), 1e-5, SampledSoftmax()
    drawn = lists(cells, of)

    def value(at: Tables) -> float:
        turned = replace(at, users=on_sphere(at.users), items=on_sphere(at.items))
        return float(loss.slopes(drawn.lists, *turned.scores(drawn), {}).loss.mean())

    before, after = tables(cosine=True), tables(cosine=True)
    after.move(drawn, loss.slopes(drawn.lists, *after.scores(drawn), {}), SGD(rate), 0.0, None)
    for name in ("users", "items"):
        table = after.by_name()[name]
        np.testing.assert_allclose((table**2).sum(1), 1)
        moved = (before.by_name()[name] - table) / rate
        for place in list(np.ndindex(moved.shape))[::5]:
            up, down = tables(), tables()
            up.by_name()[name][:] = down.by_name()[name][:] = before.by_name()[name]
            other = "items" if name == "users" else "users"
            up.by_name()[other][:] = down.by_name()[other][:] = before.by_name()[other]
            up.by_name()[name][place] += 1e-6
            down.by_name()[name][place] -= 1e-6
            assert moved[place] == pytest.approx((value(up) - value(down)) / 2e-6, abs=1e-4)


def test_clipping_bounds_every_slope() -> None:
    cells, loss = rows(), BPR()
    drawn = lists(cells, "users")
    free, cut = tables(), tables()
    for at, clip in ((free, None), (cut, 0.01)):
        found = loss.slopes(drawn.lists, *at.scores(drawn), {})
        at.move(drawn, found, SGD(1.0), 0.0, clip)
    before = tables()
    moved = before.items - free.items
    np.testing.assert_allclose(before.items - cut.items, np.clip(moved, -0.01, 0.01))
    assert np.abs(moved).max() > 0.01


def run(
    loss: Loss, rule: Optimiser, seed: int = 0, threads: int = 1, **options: object
) -> list[Step]:
    data = mfrank.synthetic(150, 60, 2000, random_state=0)
    cells = data.user_rows(None)
    rng = np.random.default_rng(seed)
    users, items = 0.1 * rng.normal(size=(150, 8)), 0.1 * rng.normal(size=(60, 8))
    course = Course(loss, rule, Constant(), 6, Batches("users", 32), 0.0, None, seed)
    return list(
        descend(
            ListDrawer(cells, Sampling(5, 20), choose(), n_threads=threads),
            cells.counts,
            replace(course, **options),
            Tables(users, items, None, choose(), n_threads=threads),
            loss.memory(len(cells.indices), 150),
        )
    )


RULES = SGD(0.5), SGD(0.2, momentum=0.5), Adagrad(0.1), Adam(0.02)
PAIRS = [(loss, rule) for loss in (BPR(), SampledSoftmax()) for rule in RULES]
PAIRS += [(SONG(), SGD(30.0)), (SONG(), Adam(0.02))]  # its slopes are small


@pytest.mark.parametrize(("loss", "rule"), PAIRS)
def test_the_loss_falls(loss: Loss, rule: Optimiser) -> None:
    values = [step.objective for step in run(loss, rule)]
    assert values[-1] < values[0]


def test_one_seed_gives_one_result() -> None:
    a, b, c = (run(SONG(), Adam(0.02), seed)[-1] for seed in (3, 3, 4))
    np.testing.assert_array_equal(a.user_factors, b.user_factors)
    np.testing.assert_array_equal(a.item_factors, b.item_factors)
    assert not np.array_equal(a.item_factors, c.item_factors)


def test_the_number_of_threads_changes_no_bit() -> None:
    one, three = (run(SONG(), Adam(0.02), threads=n)[-1] for n in (1, 3))
    np.testing.assert_array_equal(one.user_factors, three.user_factors)
    np.testing.assert_array_equal(one.item_factors, three.item_factors)


def test_steps_are_not_touched_again() -> None:
    steps = run(BPR(), SGD(0.5))
    for a, b in pairwise(steps):
        assert not np.array_equal(a.user_factors, b.user_factors)


def test_too_large_a_learning_rate_is_said() -> None:
    with pytest.raises(FloatingPointError, match="the learning rate 1e"), np.errstate(all="ignore"):
        run(BPR(), SGD(1e200))


def test_adam_of_one_touch_takes_a_step_of_the_learning_rate() -> None:
    table, rule = np.zeros((4, 2)), Adam(0.1)
    state = rule.state(table)
    slopes = np.array([[2.0, -1.0], [1e-3, 5.0]])
    rule.update(table, np.array([1, 3]), slopes, state, choose())
    np.testing.assert_allclose(table[[1, 3]], [[-0.1, 0.1], [-0.1, -0.1]], rtol=1e-4)
    assert not table[[0, 2]].any()


@pytest.mark.parametrize("schedule", [StepDecay((0.5,), 0.1), CosineDecay(), CosineDecay(0.2)])
def test_a_schedule_slows_the_steps_down(schedule: Schedule) -> None:
    paces = [schedule.pace(part) for part in np.linspace(0, 0.999, 50)]
    assert paces[0] == 1
    assert all(late <= early for early, late in pairwise(paces))
    still, slowed = (run(BPR(), SGD(0.5), schedule=kind) for kind in (Constant(), schedule))

    def last_step(steps: list[Step]) -> float:
        return float(np.abs(steps[-1].user_factors - steps[-2].user_factors).mean())

    assert last_step(slowed) < 0.7 * last_step(still)


def test_a_schedule_of_halves_has_the_stated_factors() -> None:
    schedule = StepDecay((0.25, 0.5), 0.5)
    assert [schedule.pace(part) for part in (0.0, 0.24, 0.25, 0.49, 0.5, 0.99)] == [
        1,
        1,
        0.5,
        0.5,
        0.25,
        0.25,
    ]
    assert CosineDecay(0.2).pace(0.5) == pytest.approx(0.6)


def test_langevin_shakes_users_who_like_nothing_and_descent_leaves_them() -> None:
    cells = CSR.from_scipy(sp.csr_array(np.eye(4, 5, k=1) * [[1], [0], [1], [1]]), None)
    for rule, moves in ((Langevin(0.1, 0.5, 1e3), True), (SGD(0.1), False)):
        rng = np.random.default_rng(0)
        users, items = rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
        at = Tables(users.copy(), items, None, choose("reference"))
        course = Course(BPR(), rule, Constant(), 1, Batches("users", 2), 0.0, None, 0)
        drawer = ListDrawer(cells, Sampling(1, 2), choose("reference"))
        (step,) = descend(drawer, cells.counts, course, at, {})
        assert (step.user_factors[1] != users[1]).all() == moves
        assert (step.user_factors[0] != users[0]).all()


@pytest.mark.parametrize("of", ["users", "positives"])
def test_the_number_of_threads_changes_no_bit_of_langevin(of: str) -> None:
    one, three = (
        run(BPR(), Langevin(0.1, 0.5, 1e3), threads=n, batches=Batches(of, 32), iterations=2)[-1]  # type: ignore[arg-type]
        for n in (1, 3)
    )
    np.testing.assert_array_equal(one.user_factors, three.user_factors)
    np.testing.assert_array_equal(one.item_factors, three.item_factors)
