"""A small valid call of every function of the extension, with sizes by the names of their axes.

``n`` rows, users or lists; ``m`` items or columns; ``k`` factors; ``p`` places of a list; ``t``
likes, thresholds, rows of a table that are asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import ext as _ext
from mfrank.backends import half_of
from mfrank.backends.cpu.search_order import Sketch

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """How to make the arguments of a function, from the sizes of its axes."""

    function: str
    make: Callable[..., Arguments]
    dtype: str

    @property
    def axes(self) -> dict[str, int]:
        """Sizes by the names of the axes."""
        given = inspect.signature(self.make).parameters
        return {name: axis.default for name, axis in given.items() if name in "nmkpt"}

    def arguments(self, **sizes: int) -> Arguments:
        """New arrays at every call."""
        return self.make(self.dtype, **sizes)


def csr(n: int, m: int, dtype: str) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """Rows of two entries each, of none where there is no column."""
    indices = np.tile(np.arange(m, dtype=np.int32)[[0, -1]], n) if m else np.zeros(0, np.int32)
    return np.linspace(0, len(indices), n + 1).astype(int), indices, np.ones(len(indices), dtype)


def one_each(n: int, dtype: str) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """A row for each column, with an entry there."""
    return np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n, dtype)


def some(dtype: str, *shape: int) -> NDArray[Any]:
    """Numbers in (0, 1)."""
    return np.random.default_rng(0).uniform(0.1, 0.9, shape).astype(dtype)


def ids(m: int, *shape: int) -> NDArray[np.int64]:
    """Items, or zeros where there is none."""
    return np.arange(int(np.prod(shape))).reshape(shape) % max(m, 1)


def terms(n: int) -> tuple[tuple[NDArray[np.float64], float], ...]:
    """Curvature, pull and constant of cells."""
    return ((np.ones(n), 1.0),) * 3


def solve_rows(
    solver: str, turned: bool, of_users: bool, dtype: str, n: int = 3, m: int = 5, k: int = 4
) -> Arguments:
    return {
        "rows": csr(n, m, dtype),
        "observed": terms(n if of_users else m),
        "users_are_rows": of_users,
        "weight": np.ones(n),
        "ridge": np.ones(n),
        "fixed": some(dtype, m, k),
        "eigenvalues": np.ones(k),
        "vector": np.ones(k),
        "start": some(dtype, n, k),
        "turn": np.eye(k, dtype=dtype) if turned else None,
        "out": some(dtype, n, k),
        "gain": np.zeros(n),
        "solver": solver,
        "cg_steps": 2,
        "cg_tolerance": 1e-4,
        "to_tolerance": turned,
        "n_threads": 2,
    }


def sum_rows(curved: bool, dtype: str, n: int = 3, m: int = 5, k: int = 4) -> Arguments:
    return {
        "rows": csr(n, m, dtype),
        "observed": terms(n),
        "users_are_rows": True,
        "fixed": some(dtype, m, k),
        "curved": curved,
        "n_threads": 2,
    }


def solve_summed(curved: bool, dtype: str, n: int = 3, m: int = 5, k: int = 4) -> Arguments:
    sums = _ext.sum_rows(**sum_rows(curved, dtype, n, m, max(k, 1)))
    return {
        "sums": sums,
        "curved": curved,
        "weight": np.ones(n),
        "ridge": np.ones(n),
        "fixed": some(dtype, m, k),
        "eigenvalues": np.ones(k),
        "vector": np.ones(k),
        "out": some(dtype, n, k),
        "gain": np.zeros(n),
        "n_threads": 2,
    }


def observed_value(dtype: str, n: int = 3, m: int = 5, k: int = 4) -> Arguments:
    return {
        "rows": csr(n, m, dtype),
        "observed": terms(n),
        "users_are_rows": True,
        "row_factors": some(dtype, n, k),
        "fixed": some(dtype, m, k),
        "n_threads": 2,
    }


def rotate(some_rows: bool, dtype: str, n: int = 3, k: int = 4) -> Arguments:
    factors, basis = some(dtype, n, k), np.eye(k, dtype=dtype)
    return {
        "factors": factors,
        "basis": basis,
        "n_null": min(1, k),
        "out": factors.copy(),
        "n_threads": 2,
        "rows": np.arange(n)[::-1].copy() if some_rows else None,
    }


def extrapolate(dtype: str, n: int = 3, k: int = 4) -> Arguments:
    return {
        "solved": some(dtype, n, k),
        "weight": 0.5,
        "before": some(dtype, n, k),
        "basis": np.eye(k, dtype=dtype),
        "displacements": np.zeros((n, k), half_of(dtype)),
        "turn": np.eye(k, dtype=dtype),
        "n_threads": 2,
    }


def gram(dtype: str, n: int = 3, k: int = 4) -> Arguments:
    return {"factors": some(dtype, n, k), "weights": np.ones(n), "n_threads": 2}


def score(dtype: str, n: int = 3, m: int = 5, k: int = 4, p: int = 6) -> Arguments:
    return {
        "queries": some(dtype, n, k),
        "items": some(dtype, m, k),
        "ids": ids(m, n, p),
        "out": some(dtype, n, p),
        "distances": True,
        "n_threads": 2,
    }


def sum_items(dtype: str, n: int = 3, m: int = 5, k: int = 4, p: int = 6) -> Arguments:
    return {
        "items": some(dtype, m, k),
        "ids": ids(m, n, p),
        "gradients": some(dtype, n, p),
        "out": some(dtype, n, k),
        "n_threads": 2,
    }


def sum_queries(
    width: int, dtype: str, n: int = 3, m: int = 5, k: int = 4, p: int = 6
) -> Arguments:
    return {
        "queries": some(dtype, n * width, k),
        "n_items": m,
        "ids": ids(m, n, p),
        "gradients": some(dtype, n * width, p),
        "n_threads": 2,
    }


def sum_queries_of_many(
    width: int, dtype: str, n: int = 3, m: int = 5, k: int = 4, p: int = 6
) -> Arguments:
    """So many items that the places are sorted, not counted."""
    return sum_queries(width, dtype, n, m, k, p) | {"n_items": 1000 * m}


def adam(dtype: str, n: int = 5, k: int = 4, t: int = 3) -> Arguments:
    tables = {name: some(dtype, n, k) for name in ("table", "means", "squares")}
    rates = {"learning_rate": 0.1, "decay_1": 0.9, "decay_2": 0.9, "epsilon": 1e-8}
    return {
        **tables,
        **rates,
        "updates": np.zeros(n, int),
        "rows": np.arange(t),
        "gradients": some(dtype, t, k),
        "n_threads": 2,
    }


def tangent(dtype: str, n: int = 5, k: int = 4, t: int = 3) -> Arguments:
    return {
        "table": some(dtype, n, k),
        "rows": np.arange(t),
        "sums": some(dtype, t, k),
        "n_threads": 2,
    }


def ball_gradients(dtype: str, n: int = 5, k: int = 4, t: int = 3) -> Arguments:
    return tangent(dtype, n, k, t) | {"totals": some(dtype, t)}


def project_rows(in_ball: bool, dtype: str, n: int = 5, k: int = 4, t: int = 3) -> Arguments:
    return {
        "table": some(dtype, n, k),
        "rows": np.arange(t),
        "in_ball": in_ball,
        "n_threads": 2,
    }


def normals(dtype: str, n: int = 5) -> Arguments:
    return {"key": 7, "out": some(dtype, n), "n_threads": 2}


def draw_positives(dtype: str, n: int = 3, m: int = 5, p: int = 4, t: int = 2) -> Arguments:
    indptr, indices, _ = csr(n, m, dtype)
    return {
        "indptr": indptr,
        "indices": indices,
        "n_columns": m,
        "users": np.arange(t),
        "key": 7,
        "cells": np.zeros((t, p), int),
        "n_threads": 2,
    }


def draw_negatives(
    by_chance: bool, dtype: str, n: int = 3, m: int = 5, p: int = 4, t: int = 2
) -> Arguments:
    drawn = draw_positives(dtype, n, m, p, t)
    return drawn | {
        "cumulative": np.linspace(1 / max(m, 1), 1, m) if by_chance else None,
        "guide": np.arange(m) if by_chance else None,
        "rounds": 3,
        "items": drawn.pop("cells"),
        "filled": np.zeros((t, p), bool),
    }


def sum_ramps(ramp: str, dtype: str, n: int = 3, p: int = 6, t: int = 2) -> Arguments:
    return {
        "ramp": ramp,
        "scores": some(dtype, n, p),
        "weights": some(dtype, n, p),
        "thresholds": some(dtype, n, t),
        "sums": some(dtype, n, t),
        "gradients": some(dtype, n, t),
        "n_threads": 2,
    }


def push_ramps(ramp: str, dtype: str, n: int = 3, p: int = 6, t: int = 2) -> Arguments:
    given = sum_ramps(ramp, dtype, n, p, t)
    del given["sums"], given["gradients"]
    return given | {"by_sums": some(dtype, n, t), "out": some(dtype, n, p)}


def sum_sorted_hinges(dtype: str, n: int = 3, p: int = 6, t: int = 2) -> Arguments:
    given = sum_ramps("hinge", dtype, n, p, t)
    del given["ramp"]
    return given | {"order": np.zeros((n, t), np.int32), "reached": np.zeros((n, p), np.int32)}


def push_sorted_hinges(dtype: str, n: int = 3, p: int = 6, t: int = 2) -> Arguments:
    given = push_ramps("hinge", dtype, n, p, t)
    del given["ramp"]
    order = np.tile(np.arange(t, dtype=np.int32), (n, 1))
    return given | {"order": order, "reached": np.full((n, p), t, np.int32)}


def row_hinges(dtype: str, n: int = 3, p: int = 6, t: int = 2) -> Arguments:
    by_rows = ("thresholds", "row_weights", "sums", "slope_sums")
    return {
        "scores": some(dtype, n, t, p),
        **{name: some(dtype, n, t) for name in by_rows},
        "weights": some(dtype, n, p),
        "gradients": some(dtype, n, t, p),
        "n_threads": 2,
    }


def pairs(scaled: bool, dtype: str, n: int = 3, p: int = 6, t: int = 2) -> Arguments:
    return {
        "scores": some(dtype, n, p),
        "gains": np.ones((n, t), dtype),
        "filled": np.ones((n, p), dtype),
        "scales": np.ones(n) if scaled else None,
        "steepness": 1.0,
        "gradients": some(dtype, n, p),
        "losses": some(dtype, n),
        "n_threads": 2,
    }


def top_thresholds(dtype: str, n: int = 3, p: int = 6) -> Arguments:
    return {
        "scores": some(dtype, n, p),
        "weights": np.ones((n, p), dtype),
        "shares": np.full(n, 0.5),
        "thresholds": np.zeros(n),
        "smoothing_1": 0.1,
        "smoothing_2": 0.1,
        "n_threads": 2,
    }


def softmax(less: bool, dtype: str, n: int = 3, p: int = 6) -> Arguments:
    return {
        "scores": some(dtype, n, p),
        "filled": np.ones((n, p), bool),
        "less": some(dtype, n, p) if less else None,
        "totals": some(dtype, n),
        "out": some(dtype, n, p),
        "n_threads": 2,
    }


def project(dtype: str, n: int = 3, p: int = 6) -> Arguments:
    given = softmax(False, dtype, n, p)
    del given["less"], given["totals"]
    return given | {"tops": some(dtype, n), "values": some(dtype, n)}


def smoothed(above: str, share: bool, dtype: str, n: int = 3, p: int = 6, t: int = 2) -> Arguments:
    return {
        "centers": some(dtype, n, p),
        "noise": some(dtype, n, p),
        "worths": some(dtype, n, p),
        "filled": np.ones((n, p), bool),
        "whole": np.ones(n, dtype),
        "weights": some(dtype, t),
        "above": above,
        "sigma": 1.0,
        "share": share,
        "gradients": some(dtype, n, p),
        "values": some(dtype, n),
        "n_threads": 2,
    }


def soft_ndcg(rounds: int, dtype: str, n: int = 3, p: int = 6, t: int = 2) -> Arguments:
    return {
        "scores": some(dtype, n, p),
        "filled": np.ones((n, p), bool),
        "gains": np.ones((n, t), dtype),
        "ideal": np.ones(n),
        "temperature": 1.0,
        "rounds": rounds,
        "gradients": some(dtype, n, p),
        "losses": some(dtype, n),
        "n_threads": 2,
    }


def top_k(
    shelf: str, biased: bool, dtype: str, n: int = 3, m: int = 40, k: int = 4, p: int = 6
) -> Arguments:
    items = some(dtype, m, k)
    shelves = csr(1 if shelf == "one" else n, m, dtype)[:2]
    sketch = Sketch.of(items, 1) if shelf == "sketch" else None
    return {
        "queries": some(dtype, n, k),
        "items": items,
        "item_bias": some(dtype, m) if biased else None,
        "shelves": None if shelf == "sketch" else shelves,
        "sketch": sketch and (sketch.codes, sketch.scales, sketch.rooms),
        "lengths": np.full(len(shelves[1]), 9.0) if shelf == "one" else None,
        "allowed": np.arange(m) % 2 == 0 if biased else None,
        "exclude": csr(n, m, dtype)[:2] if biased else None,
        "ids": np.zeros((n, p), np.int32),
        "scores": some(dtype, n, p),
        "n_threads": 2,
    }


def sketch(dtype: str, m: int = 40, k: int = 4) -> Arguments:
    items = some(dtype, m, k)
    made = Sketch.of(items, 1)
    return {"items": items, "parts": (made.codes, made.scales, made.rooms), "n_threads": 2}


def walk(lefts: int | None, tolerant: bool, dtype: str, n: int = 5, k: int = 4) -> Arguments:
    blocks = np.array([0, 2, n]) if n > 2 else np.arange(n + 1)
    b = len(blocks) - 1
    return {
        "rows": one_each(n, dtype),
        "blocks": blocks,
        "left": None if lefts is None else some(dtype, n, lefts or k),
        "right": None if lefts is None else some(dtype, n),
        "base": some(dtype, n, k),
        "scale": 0.5,
        "x": some(dtype, n, k),
        "n_steps": 3,
        "tolerance": np.ones(b) if tolerant else None,
        "spread": tolerant,
        "changes": np.zeros(b),
        "steps": np.zeros(b, int),
        "n_threads": 2,
    }


def stationary(rounded: bool, weighted: bool, dtype: str, n: int = 3, m: int = 5) -> Arguments:
    indptr, indices, data = one_each(m, "float64")
    return {
        "rows": (indptr, indices, data if weighted else None),
        "shares": np.full(m, 0.5),
        "waves": np.arange(m + 1),
        "order": np.arange(m),
        "place": np.arange(m),
        "starts": csr(n, m, "float64"),
        "begin": some("float64", n, m) if weighted else None,
        "keep": 0.5,
        "tolerance": 1e-3,
        "n_steps": 9,
        "values": np.zeros((n, m)),
        "errors": np.zeros(n),
        "steps": np.zeros(n, int),
        "rounded": rounded,
        "n_threads": 2,
    }


def regress(tabled: bool, dtype: str, n: int = 3, m: int = 5, p: int = 2, t: int = 4) -> Arguments:
    return {
        "rows": csr(n, m, "float64"),
        "users": csr(m, n, "float64"),
        "near": csr(t, m, "float64"),
        "diagonal": np.full(m, 9.0),
        "place": np.where(np.arange(m) < p * tabled, np.arange(m), -1).astype(np.int32),
        "common": some("float64", p, p),
        "out": np.zeros(2 * t),
        "failed": np.zeros(t, int),
        "n_threads": 2,
    }


def largest_products(
    divided: bool, dtype: str, n: int = 4, m: int = 5, p: int = 6, r: int = 3
) -> Arguments:
    return {
        "left": csr(n, m, "float64"),
        "right": csr(m, p, "float64"),
        "rows": np.minimum(np.arange(r), max(n - 1, 0)),
        "most": 2,
        "divisor": np.full(p, 2.0) if divided else None,
        "is_signed": divided,
        "n_columns": p,
        "begins": 2 * np.arange(r + 1),
        "columns": np.zeros(2 * r, np.int32),
        "values": np.zeros(2 * r),
        "counts": np.zeros(r, int),
        "n_threads": 2,
    }


def unaligned(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, beginning at an odd address."""
    raw = np.empty(array.nbytes + 2, np.uint8)
    at = 1 - raw.ctypes.data % 2
    moved = raw[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def fields_of_text(n: int) -> Arguments:
    """Fields of one digit, between commas."""
    begins = 24 + 2 * np.arange(n)
    return {"raw": b"\0" * 24 + b"7," * n + b"\0", "begins": begins, "ends": begins + 1}


def whole_numbers(dtype: str, n: int = 3) -> Arguments:
    return fields_of_text(n) | {"out": np.zeros(n, np.int64)}


def decimals(dtype: str, n: int = 3) -> Arguments:
    return fields_of_text(n) | {"out": np.zeros(n), "valid": np.zeros(n, bool)}


def dates(dtype: str, n: int = 3) -> Arguments:
    return whole_numbers(dtype, n)


def _table(m: int) -> tuple[NDArray[Any], ...]:
    return np.zeros(24, np.uint64), np.append(8, np.zeros(m, np.int64)), np.zeros(96, np.uint8)


def number_fields(dtype: str, n: int = 3, m: int = 4) -> Arguments:
    table, first = _table(m), min(m, 1)
    known = _ext.number_fields(
        **fields_of_text(first), table=table, n=0, out=np.zeros(first, np.int32)
    )
    return fields_of_text(n) | {"table": table, "n": known[1], "out": np.zeros(n, np.int32)}


def fill_slots(dtype: str, n: int = 3) -> Arguments:
    known = number_fields(dtype, 1, n)
    return {"table": (np.zeros(24, np.uint64), *known["table"][1:]), "n": known["n"]}


def split_rows(dtype: str, n: int = 3, m: int = 2) -> Arguments:
    line = b",".join([b"7"] * m) + b"\n"
    return {
        "raw": b"\0" * 24 + line * n + b"\0",
        "separator": b",",
        "quote": b'"',
        "columns": np.arange(m, dtype=np.int32),
        "n_needed": m,
        "name": None,
        "n_first": 0,
        "begins": np.zeros((m, n + 1), np.int64),
        "ends": np.zeros((m, n + 1), np.int64),
        "lines": np.zeros(n + 1, np.int64),
        "odd": np.zeros(n + 1, np.int64),
    }


def _entries(n: int) -> Arguments:
    rows = np.arange(n, dtype=np.int32)
    return {"users": rows // 2, "items": rows % 2, "of_item": 1, "of_place": 4}


def cell_keys(dtype: str, n: int = 5) -> Arguments:
    return _entries(n) | {"out": np.zeros(n, np.uint64)}


def merge_cells(times: bool, dtype: str, n: int = 5, m: int = 3) -> Arguments:
    keys = cell_keys(dtype, n)
    _ext.cell_keys(**keys)
    return {
        "keys": keys["out"],
        "of_item": 1,
        "of_place": 4,
        "n_items": 2,
        "duplicates": "sum",
        "values": np.ones(n, dtype),
        "times": np.zeros(n, np.int64) if times else None,
        "indptr": np.zeros(m + 1, np.int64),
        "items": np.zeros(n, np.int32),
        "merged": np.zeros(n, np.float32),
        "latest": np.zeros(n, np.int64) if times else None,
    }


def mark_numbers(dtype: str, n: int = 3, m: int = 4) -> Arguments:
    return {"numbers": np.arange(n), "lowest": 0, "out": np.zeros(m, bool)}


def look_up_numbers(dtype: str, n: int = 3, m: int = 4) -> Arguments:
    table = np.zeros(m, np.int32)
    found = np.zeros(n, np.int32)
    return {"numbers": np.arange(n, dtype=np.int32), "lowest": 0, "table": table, "out": found}


OF_TEXT = (whole_numbers, decimals, dates, number_fields, fill_slots, split_rows)
OF_CELLS = (cell_keys, mark_numbers, look_up_numbers)


def _makes() -> Iterator[tuple[str, Callable[..., Arguments]]]:
    for solver in ("auto", "cholesky", "cg"):
        yield "solve_rows", partial(solve_rows, solver, solver == "cg", solver != "auto")
    for curved in (True, False):
        yield "sum_rows", partial(sum_rows, curved)
        yield "solve_summed", partial(solve_summed, curved)
    for make in (
        observed_value,
        extrapolate,
        gram,
        score,
        sum_items,
        adam,
        tangent,
        ball_gradients,
        normals,
    ):
        yield make.__name__, make
    for width in (1, 2):
        yield "sum_queries", partial(sum_queries, width)
        yield "sum_queries", partial(sum_queries_of_many, width)
    for ramp in ("hinge", "squared_hinge", "sigmoid", "softplus"):
        yield "sum_ramps", partial(sum_ramps, ramp)
        yield "push_ramps", partial(push_ramps, ramp)
    for make in (draw_positives, sum_sorted_hinges, push_sorted_hinges, row_hinges, top_thresholds):
        yield make.__name__, make
    for either in (False, True):
        yield "rotate", partial(rotate, either)
        yield "project_rows", partial(project_rows, either)
        yield "draw_negatives", partial(draw_negatives, either)
        yield "pairs", partial(pairs, either)
        yield "softmax", partial(softmax, either)
        yield "soft_ndcg", partial(soft_ndcg, 3 * either)
        for above in ("nothing", "count", "chance"):
            yield "smoothed", partial(smoothed, above, either)
        for shelf in ("one", "each", "sketch"):
            yield "top_k", partial(top_k, shelf, either)
        for lefts in (None, 0, 1):
            yield "walk", partial(walk, lefts, either)
        yield "stationary", partial(stationary, either, True)
        yield "stationary", partial(stationary, either, False)
        yield "regress", partial(regress, either)
        yield "largest_products", partial(largest_products, either)
    yield "project", project
    yield "sketch", sketch
    for times in (False, True):
        yield "merge_cells", partial(merge_cells, times)
    for make in OF_TEXT + OF_CELLS:
        yield make.__name__, make


CALLS = [
    Call(function, make, dtype)
    for function, make in _makes()
    for dtype in ("float32", "float64")
    if dtype == "float64"
    or function
    not in ("regress", "largest_products", "stationary", *(make.__name__ for make in OF_TEXT))
]
