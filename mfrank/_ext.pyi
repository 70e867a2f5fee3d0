"""Native kernels (cext/module.cpp). Arrays are borrowed, never copied or converted.

Every array must be C-contiguous and of the dtype stated, else TypeError or ValueError; ``fixed``,
``factors`` and what goes with them are all float32 or all float64. A column out of range raises
IndexError. ``n_threads`` 0 is every core this process may use. The GIL is released, Ctrl-C heard.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any] | None]
"""indptr, indices, data of a CSR; the data are of the factors' dtype."""

_Lists = tuple[NDArray[np.int64], NDArray[np.int32]]
_Sketch = tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]
"""indptr, indices of rows of items."""

_Terms = tuple[tuple[NDArray[np.float64], float], ...]
"""(offset, slope) of the curvature, the pull and the constant of observed cells."""

def isa() -> str:
    """Name of the instruction set in use; ValueError while MFRANK_ISA names one that cannot be."""

def usable_cores() -> int: ...
def solve_rows(
    *,
    rows: _Rows,
    observed: _Terms,
    users_are_rows: bool,
    weight: NDArray[np.float64],
    ridge: NDArray[np.float64],
    fixed: NDArray[Any],
    eigenvalues: NDArray[np.float64],
    vector: NDArray[np.float64],
    start: NDArray[Any],
    turn: NDArray[Any] | None,
    out: NDArray[Any],
    gain: NDArray[np.float64],
    solver: str,
    cg_steps: int,
    cg_tolerance: float,
    to_tolerance: bool,
    n_threads: int,
) -> NDArray[np.int64]:
    """Solve a half-step into ``out``; return the rows that need more precision, left unwritten.

    The matrix that rows share is diagonal: ``eigenvalues`` ascend and are exactly 0 where they
    count as zero. Iterations start from ``start @ turn``; ``start`` may be ``out``. ``gain`` is
    written: 2 x'b - x'A x of each row's system.
    """

def score(
    queries: NDArray[Any],
    items: NDArray[Any],
    ids: NDArray[np.int64],
    out: NDArray[Any],
    distances: bool,
    n_threads: int,
) -> None:
    """Dot products, or squared distances, negative, of queries and ``items[ids[b, i]]``."""

def sum_items(
    items: NDArray[Any],
    ids: NDArray[np.int64],
    slopes: NDArray[Any],
    out: NDArray[Any],
    n_threads: int,
) -> None:
    """Sum over i of ``slopes[b, i] items[ids[b, i]]`` into ``out[b]``."""

def sum_queries(
    queries: NDArray[Any],
    n_items: int,
    ids: NDArray[np.int64],
    slopes: NDArray[Any],
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Items with a slope, ascending; sums of ``slopes[b, i] queries[b]`` at each, and of slopes."""

def adam(
    *,
    table: NDArray[Any],
    rows: NDArray[np.int64],
    slopes: NDArray[Any],
    means: NDArray[Any],
    squares: NDArray[Any],
    updates: NDArray[np.int64],
    learning_rate: float,
    decay_1: float,
    decay_2: float,
    epsilon: float,
    n_threads: int,
) -> None:
    """Adam's step of some rows, none twice, of ``table`` and of what is kept beside it."""

def sum_ramps(
    ramp: str,
    scores: NDArray[Any],
    weights: NDArray[Any],
    thresholds: NDArray[Any],
    sums: NDArray[Any],
    slopes: NDArray[Any],
    n_threads: int,
) -> None:
    """Write sums over places of ``weights * f(scores - threshold)``, and of ``weights * f'``.

    f is ``hinge``, ``squared_hinge``, ``sigmoid`` or ``softplus``.
    """

def push_ramps(
    ramp: str,
    scores: NDArray[Any],
    weights: NDArray[Any],
    thresholds: NDArray[Any],
    by_sums: NDArray[Any],
    out: NDArray[Any],
    n_threads: int,
) -> None:
    """Write ``weights * sum(by_sums * f')`` over the thresholds: slopes by the scores."""

def row_hinges(
    *,
    scores: NDArray[Any],
    thresholds: NDArray[Any],
    row_weights: NDArray[Any],
    weights: NDArray[Any],
    sums: NDArray[Any],
    slope_sums: NDArray[Any],
    slopes: NDArray[Any],
    n_threads: int,
) -> None:
    """Write what :func:`mfrank.row_hinges.row_hinges` gives."""

def sum_sorted_hinges(
    scores: NDArray[Any],
    weights: NDArray[Any],
    thresholds: NDArray[Any],
    order: NDArray[np.int32],
    reached: NDArray[np.int32],
    sums: NDArray[Any],
    slopes: NDArray[Any],
    n_threads: int,
) -> None:
    """Write ``sum_ramps`` of squared hinges, and the order of thresholds and who reaches how many.

    Thresholds of inf are padding: nothing reaches them.
    """

def push_sorted_hinges(
    scores: NDArray[Any],
    weights: NDArray[Any],
    thresholds: NDArray[Any],
    order: NDArray[np.int32],
    reached: NDArray[np.int32],
    by_sums: NDArray[Any],
    out: NDArray[Any],
    n_threads: int,
) -> None:
    """Write ``push_ramps`` of squared hinges, from the order and who reaches how many."""

def pairs(
    scores: NDArray[Any],
    gains: NDArray[Any],
    filled: NDArray[Any],
    scales: NDArray[np.float64] | None,
    steepness: float,
    slopes: NDArray[Any],
    losses: NDArray[Any],
    n_threads: int,
) -> None:
    """Write slopes and losses of pairs (mfrank/pairs.py); without ``scales`` they count alike."""

def top_thresholds(
    scores: NDArray[Any],
    weights: NDArray[Any],
    shares: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    smoothing_1: float,
    smoothing_2: float,
    n_threads: int,
) -> None:
    """See :func:`mfrank.top_thresholds.top_thresholds`; ``thresholds`` come as the starts."""

def normals(key: int, out: NDArray[Any], n_threads: int) -> None:
    """See :func:`mfrank.streams.random_normals`."""

def smoothed(
    centres: NDArray[Any],
    noise: NDArray[Any],
    worths: NDArray[Any],
    filled: NDArray[np.bool_],
    whole: NDArray[Any],
    weights: NDArray[Any],
    above: str,
    sigma: float,
    share: bool,
    slopes: NDArray[Any],
    values: NDArray[Any],
    n_threads: int,
) -> None:
    """See :func:`mfrank.smoothing.smoothed`; ``weights`` are of the places that count, and one."""

def soft_ndcg(
    scores: NDArray[Any],
    filled: NDArray[np.bool_],
    gains: NDArray[Any],
    ideal: NDArray[np.float64],
    temperature: float,
    rounds: int,
    slopes: NDArray[Any],
    losses: NDArray[Any],
    n_threads: int,
) -> None:
    """Write slopes and losses of :func:`mfrank.soft_ndcg.soft_ndcg`."""

def slide(table: NDArray[Any], rows: NDArray[np.int64], sums: NDArray[Any], n_threads: int) -> None:
    """Take from the sums what goes along their rows of the table, which have length 1."""

def pull(
    table: NDArray[Any],
    rows: NDArray[np.int64],
    totals: NDArray[Any],
    sums: NDArray[Any],
    n_threads: int,
) -> None:
    """Put ``2 (sums - totals * rows)`` in the place of the sums."""

def confine(table: NDArray[Any], rows: NDArray[np.int64], in_ball: bool, n_threads: int) -> None:
    """Divide rows of the table by their lengths, but those of length 0, or ``in_ball`` up to 1."""

def project(
    scores: NDArray[Any],
    filled: NDArray[np.bool_],
    tops: NDArray[Any],
    values: NDArray[Any],
    out: NDArray[Any],
    n_threads: int,
) -> None:
    """Write each list's projection to the simplex; see mfrank/simplex.py."""

def softmax(
    scores: NDArray[Any],
    filled: NDArray[np.bool_],
    less: NDArray[Any] | None,
    totals: NDArray[Any],
    out: NDArray[Any],
    n_threads: int,
) -> None:
    """Write the softmax of ``scores - less`` over filled places, and the logs of its sums."""

def draw_likes(
    *,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    n_columns: int,
    users: NDArray[np.int64],
    key: int,
    cells: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Write entries of each user's row, -1 beyond it, into a row of ``cells``."""

def draw_others(
    *,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    n_columns: int,
    users: NDArray[np.int64],
    key: int,
    cumulative: NDArray[np.float64] | None,
    guide: NDArray[np.int64] | None,
    rounds: int,
    items: NDArray[np.int64],
    filled: NDArray[np.bool_],
    n_threads: int,
) -> None:
    """Write items that are not in the users' rows, and where ``rounds`` tries found one."""

def rotate(
    factors: NDArray[Any], basis: NDArray[Any], n_null: int, out: NDArray[Any], n_threads: int
) -> None:
    """``factors @ basis`` into ``out``, which may be ``factors``.

    What rounding left in the first ``n_null`` columns becomes 0.
    """

def gram(
    factors: NDArray[Any], weights: NDArray[np.float64], n_threads: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def observed_value(
    *,
    rows: _Rows,
    observed: _Terms,
    users_are_rows: bool,
    row_factors: NDArray[Any],
    fixed: NDArray[Any],
    n_threads: int,
) -> float: ...
def top_k(
    *,
    queries: NDArray[Any],
    items: NDArray[Any],
    item_bias: NDArray[Any] | None,
    shelves: _Lists | None,
    sketch: _Sketch | None,
    lengths: NDArray[np.float64] | None,
    exclude: _Lists | None,
    ids: NDArray[np.int32],
    scores: NDArray[Any],
    n_threads: int,
) -> None:
    """Write each query's best items into ``ids`` and ``scores``, leaving places that stay empty.

    ``shelves`` holds the items a query may get, one row for all or a row per query; ``exclude``,
    ascending, those of them it may not. ``lengths`` are those of the single shelf's items, which
    then come longest first; a bias counts as one of an item's coordinates. With a ``sketch`` of the
    items, ``shelves`` and ``lengths`` are None: a query may get every item.
    """

def sketch(items: NDArray[Any], parts: _Sketch, n_threads: int) -> None:
    """Write the items at a byte a factor into arrays of zeros; see mfrank/sketches.py."""

def walk(
    *,
    rows: _Rows,
    blocks: NDArray[np.int64],
    left: NDArray[Any] | None,
    right: NDArray[Any] | None,
    base: NDArray[Any],
    scale: float,
    x: NDArray[Any],
    n_steps: int,
    tolerance: NDArray[np.float64] | None,
    spread: bool,
    changes: NDArray[np.float64],
    steps: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Iterate x := base + scale (W x + left (right . x)) in each block, in place.

    ``changes`` and ``steps`` of each block are written.
    """

def settle(
    *,
    rows: _Rows,
    shares: NDArray[np.float64],
    waves: NDArray[np.int64],
    order: NDArray[np.int64],
    place: NDArray[np.int64],
    starts: _Rows,
    begin: NDArray[np.float64] | None,
    keep: float,
    tolerance: float,
    n_steps: int,
    values: NDArray[np.float64],
    errors: NDArray[np.float64],
    steps: NDArray[np.int64],
    rounded: bool,
    n_threads: int,
) -> None:
    """Write the stationary distribution of each row of ``starts``, by nodes, into ``values``.

    ``shares`` are of what nodes give, times ``keep``; with ``rounded`` it is given in float32.
    """
