"""Langevin steps: what rows miss is made up for by one draw of the same law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.arrays import directions_of
from mfrank.backends import choose
from mfrank.descent import SCORINGS, FactorTables, Langevin, Touched
from tests.support.errors import refuses

N = 100_000


def shaken(rule: Langevin, begin: float, steps: int) -> np.ndarray[Any, Any]:
    """A row of many weights after explicit steps without slopes."""
    table = np.full((1, N), begin)
    state = rule.state(table)
    for _ in range(steps):
        rule.update(Touched(table, np.array([0]), np.zeros((1, N)), state, choose()))
    return table[0]


def untouched(rule: Langevin, begin: float, steps: int) -> np.ndarray[Any, Any]:
    """Many rows beside which another was updated, settled at the end."""
    table = np.full((1 + N, 1), begin)
    state = rule.state(table)
    for _ in range(steps):
        rule.update(Touched(table, np.array([0]), np.zeros((1, 1)), state, choose()))
    np.testing.assert_array_equal(table[1:], begin)
    rule.catch_up(table, state, np.arange(len(table)), choose())
    caught_up = table.copy()
    rule.catch_up(table, state, np.arange(len(table)), choose())  # nothing is missing any more
    np.testing.assert_array_equal(table, caught_up)
    return table[1:, 0]


@pytest.mark.parametrize("shrinkage", [0.0, 1e-12, 0.7])
@pytest.mark.parametrize("steps", [1, 2, 25])
def test_settled_rows_have_the_law_of_explicit_steps(shrinkage: float, steps: int) -> None:
    rule = Langevin(0.2, shrinkage, 10.0)
    kept, noise = 1 - 0.2 * shrinkage, 2 * 0.2 / 10
    variance = noise * sum(kept ** (2 * step) for step in range(steps))
    for table in (shaken(rule, 1.5, steps), untouched(rule, 1.5, steps)):
        assert table.mean() == pytest.approx(1.5 * kept**steps, abs=5 * np.sqrt(variance / N))
        assert table.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / N))
        kurtosis = np.mean((table - table.mean()) ** 4) / table.var() ** 2
        assert kurtosis == pytest.approx(3, abs=5 * np.sqrt(24 / N))


def test_the_law_of_a_row_does_not_depend_on_when_it_is_settled() -> None:
    rule = Langevin(0.2, 0.7, 10.0)
    table = np.full((2, N), 1.5)
    state = rule.state(table)
    for step in range(12):
        rows = np.array([0, 1]) if step in (4, 9) else np.array([0])
        rule.update(Touched(table, rows, np.zeros((len(rows), N)), state, choose()))
        if step == 6:
            rule.catch_up(table, state, np.arange(len(table)), choose())
    rule.catch_up(table, state, np.arange(len(table)), choose())
    kept, noise = 1 - 0.2 * 0.7, 2 * 0.2 / 10
    variance = noise * (1 - kept**24) / (1 - kept**2)
    for row in table:
        assert row.mean() == pytest.approx(1.5 * kept**12, abs=5 * np.sqrt(variance / N))
        assert row.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / N))
    assert abs(np.corrcoef(table)[0, 1]) < 5 / np.sqrt(N)


def test_weights_without_slopes_come_to_rest_at_the_stated_variance() -> None:
    rule = Langevin(learning_rate=0.01, shrinkage=2.0, temperature=50.0)
    kept, noise = 1 - 0.01 * 2.0, 2 * 0.01 / 50
    table = untouched(rule, 3.0, 1200)
    assert table.var() == pytest.approx(noise / (1 - kept**2), rel=5 * np.sqrt(2 / N))
    assert table.var() == pytest.approx(1 / (50 * 2.0), rel=0.03)


def test_a_quadratic_loss_is_drawn_from_its_density() -> None:
    curvature, rule = 3.0, Langevin(0.02, 1.0, 20.0)
    table = np.zeros((1, N))
    state = rule.state(table)
    for _ in range(200):
        rule.update(Touched(table, np.array([0]), curvature * (table - 1), state, choose()))
    # exp(-T (c (w - 1)^2 / 2 + shrinkage w^2 / 2)) is normal, apart from the steps' size.
    assert table.mean() == pytest.approx(curvature / (curvature + 1), abs=0.003)
    assert table.var() == pytest.approx(1 / (20 * (curvature + 1)), rel=0.06)


def test_a_step_without_noise_is_a_step_of_descent() -> None:
    rule = Langevin(0.5, 0.1, 1e300)
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    state = rule.state(table)
    rule.update(Touched(table, np.array([2, 0]), np.array([[1.0, 0], [0, -1]]), state, choose()))
    expected = [[0.95, 1.9 + 0.5], [3, 4], [4.75 - 0.5, 5.7]]
    np.testing.assert_allclose(table, expected)
    rule.update(Touched(table, np.array([1]), np.array([[2.0, 2]]), state, choose()))
    np.testing.assert_allclose(table[1], 0.95 * (0.95 * np.array([3, 4])) - 1)


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tables_of_biases_and_factors_in_their_dtype(
    shape: tuple[int, ...], dtype: type[np.floating[Any]]
) -> None:
    rule = Langevin()
    table = np.ones(shape, dtype)
    state = rule.state(table)
    rule.update(Touched(table, np.array([1, 3]), np.zeros((2, *shape[1:])), state, choose()))
    rule.update(Touched(table, np.array([0, 3]), np.zeros((2, *shape[1:])), state, choose()))
    rule.catch_up(table, state, np.arange(len(table)), choose())
    assert table.dtype == dtype
    assert len(np.unique(table)) == table.size


def test_noise_is_the_same_again_and_apart_for_tables_and_seeds() -> None:
    rule, size = Langevin(random_state=3), 50

    def run(begin: float, rule: Langevin = rule) -> np.ndarray[Any, Any]:
        table = np.full((2, size), begin)
        state = rule.state(table)
        rule.update(Touched(table, np.array([0]), np.zeros((1, size)), state, choose()))
        state = {name: array.copy() for name, array in state.items()}  # as from a checkpoint
        rule.update(Touched(table, np.array([1]), np.zeros((1, size)), state, choose()))
        return table - table.mean(axis=1, keepdims=True)

    np.testing.assert_array_equal(run(0.0), run(0.0))
    assert abs(np.corrcoef(run(0.0)[0], run(1.0)[0])[0, 1]) < 0.6
    assert abs(np.corrcoef(run(0.0)[0], run(0.0, Langevin(random_state=4))[0])[0, 1]) < 0.6


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"shrinkage": -1.0}, "shrinkage"),
        ({"temperature": np.inf}, "temperature"),
        ({"learning_rate": 2.0, "shrinkage": 0.5}, "learning_rate"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], argument: str) -> None:
    with refuses(ValueError, argument):
        Langevin(**options)  # type: ignore[arg-type]


def test_rows_are_caught_up_at_the_rate_of_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that late batches leave alone shake no more than those that they touch."""
    rates: list[float] = []
    catch_up = Langevin.catch_up

    def seen(rule: Langevin, *given: Any) -> None:
        rates.append(rule.learning_rate)
        catch_up(rule, *given)

    monkeypatch.setattr(Langevin, "catch_up", seen)
    data = mfrank.synthetic(30, 20, 300, random_state=0)
    rule = Langevin(learning_rate=0.5)
    mfrank.Descent(mfrank.BPR(), 2, 4, rule, batch_size=10, random_state=0).fit(data)
    assert rates[0] == 0.5
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1


def test_rows_caught_up_are_drawn_back_to_the_sphere_and_biases_are_not() -> None:
    rng, rule = np.random.default_rng(0), Langevin(temperature=1e12)
    users, items = (directions_of(rng.normal(size=(n, 3))) for n in (4, 5))
    biases = rng.normal(size=(5, 1))
    tables = FactorTables(users, items, biases.copy(), choose("reference"), SCORINGS["cosine"])
    tables.begin(rule)
    for state in tables.states.values():
        state["steps"] += 3
    tables.catch_up(rule)
    for rows in (tables.users, tables.items):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(tables.biases, biases * (1 - 0.1 * 1e-3) ** 3, atol=1e-5)
