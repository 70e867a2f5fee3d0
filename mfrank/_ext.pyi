"""Native kernels (cext/module.cpp). Arrays are borrowed, never copied or converted.

Every array must be C-contiguous and of the stated dtype, else TypeError or ValueError is raised;
arrays typed ``Any`` are all float32 or all float64 in a call. An index out of range raises
IndexError. ``n_threads`` 0 uses every core this process may use. Kernels release the GIL and can be
interrupted by Ctrl-C.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_Rows = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any] | None]
"""indptr, indices and data of a CSR, the data in the factors' dtype."""

_Lists = tuple[NDArray[np.int64], NDArray[np.int32]]
"""indptr and indices of rows of items."""

_Sketch = tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]
"""codes, scales and rooms of :class:`mfrank.backends.cpu.search_order.Sketch`."""

_Terms = tuple[tuple[NDArray[np.float64], float], ...]
"""(offset, slope) of the curvature, pull and constant of observed cells."""

def isa() -> str:
    """Instruction set in use; ValueError if MFRANK_ISA names one that cannot run here."""

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
    prior: NDArray[Any] | None = None,
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

    The shared matrix is diagonal: ``eigenvalues`` ascend, and those that count as zero are exactly
    0. Iterations start from ``start @ turn``; ``start`` may be ``out``. ``gain`` is set to
    2 x'b - x'A x of each row's system.
    """

def summed_from(
    *,
    in_float64: bool,
    k: int,
    solver: str,
    cg_steps: int,
    cg_tolerance: float,
    to_tolerance: bool,
    curved: bool,
) -> int:
    """Entries from which rows are solved from sums over ranges of columns.

    ``curved`` is whether any cell of the half-step has curvature.
    """

def column_ranges(n_columns: int) -> NDArray[np.int64]:
    """Where those ranges begin, and the end."""

def sum_rows(
    *,
    rows: _Rows,
    observed: _Terms,
    users_are_rows: bool,
    fixed: NDArray[Any],
    curved: bool,
    n_threads: int,
) -> NDArray[Any]:
    """Sums over the entries of every row, in the layout of ``solve_summed``."""

def solve_summed(
    *,
    sums: NDArray[Any],
    curved: bool,
    weight: NDArray[np.float64],
    ridge: NDArray[np.float64],
    fixed: NDArray[Any],
    eigenvalues: NDArray[np.float64],
    vector: NDArray[np.float64],
    prior: NDArray[Any] | None = None,
    out: NDArray[Any],
    gain: NDArray[np.float64],
    n_threads: int,
) -> NDArray[np.int64]:
    """Solve rows, all with entries, from their sums; return those that need more precision."""

def score(
    queries: NDArray[Any],
    items: NDArray[Any],
    ids: NDArray[np.int64],
    out: NDArray[Any],
    distances: bool,
    n_threads: int,
) -> None:
    """Dot products, or negative squared distances, of queries and ``items[ids[b, i]]``."""

def sum_items(
    items: NDArray[Any],
    ids: NDArray[np.int64],
    gradients: NDArray[Any],
    out: NDArray[Any],
    n_threads: int,
) -> None:
    """Sum over i of ``gradients[q, i] items[ids[b, i]]`` into ``out[q]``, for list b of query q."""

def sum_queries(
    queries: NDArray[Any],
    n_items: int,
    ids: NDArray[np.int64],
    gradients: NDArray[Any],
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Items with nonzero gradients, ascending; their sums of gradients * queries, of gradients."""

def adam(
    *,
    table: NDArray[Any],
    rows: NDArray[np.int64],
    gradients: NDArray[Any],
    means: NDArray[Any],
    squares: NDArray[Any],
    updates: NDArray[np.int64],
    learning_rate: float,
    decay_1: float,
    decay_2: float,
    epsilon: float,
    n_threads: int,
) -> None:
    """Update some rows, none twice, of ``table`` and its Adam state ``means`` to ``updates``."""

def sum_ramps(
    ramp: str,
    scores: NDArray[Any],
    weights: NDArray[Any],
    thresholds: NDArray[Any],
    sums: NDArray[Any],
    gradients: NDArray[Any],
    n_threads: int,
) -> None:
    """Write the sums over places of ``weights * f(scores - threshold)`` and of ``weights * f'``.

    f is the ``ramp``: ``hinge``, ``squared_hinge``, ``sigmoid`` or ``softplus``.
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
    """Write ``weights * sum(by_sums * f')`` over the thresholds: gradients by the scores."""

def row_hinges(
    *,
    scores: NDArray[Any],
    thresholds: NDArray[Any],
    row_weights: NDArray[Any],
    weights: NDArray[Any],
    sums: NDArray[Any],
    slope_sums: NDArray[Any],
    gradients: NDArray[Any],
    n_threads: int,
) -> None:
    """See losses/sums/ramps.py; only the last axis of ``scores`` must be contiguous."""

def sum_sorted_hinges(
    scores: NDArray[Any],
    weights: NDArray[Any],
    thresholds: NDArray[Any],
    order: NDArray[np.int32],
    reached: NDArray[np.int32],
    sums: NDArray[Any],
    gradients: NDArray[Any],
    n_threads: int,
) -> None:
    """``sum_ramps`` of squared hinges; also write the thresholds' order and the ``reached`` counts.

    ``reached`` is how many thresholds each score reaches. Thresholds of inf are padding.
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
    """``push_ramps`` of squared hinges, from the results of :func:`sum_sorted_hinges`."""

def pairs(
    scores: NDArray[Any],
    gains: NDArray[Any],
    filled: NDArray[Any],
    scales: NDArray[np.float64] | None,
    steepness: float,
    gradients: NDArray[Any],
    losses: NDArray[Any],
    n_threads: int,
) -> None:
    """Gradients and losses of pairs, unweighted without ``scales``; losses/sums/pair_losses.py."""

def top_thresholds(
    scores: NDArray[Any],
    weights: NDArray[Any],
    shares: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    smoothing_1: float,
    smoothing_2: float,
    n_threads: int,
) -> None:
    """See losses/sums/ramps.py; ``thresholds`` are the starts on entry."""

def normals(key: int, out: NDArray[Any], n_threads: int) -> None:
    """See :func:`mfrank.arrays.random.random_normals`."""

def smoothed(
    centers: NDArray[Any],
    noise: NDArray[Any],
    worths: NDArray[Any],
    filled: NDArray[np.bool_],
    whole: NDArray[Any],
    weights: NDArray[Any],
    above: str,
    sigma: float,
    share: bool,
    gradients: NDArray[Any],
    values: NDArray[Any],
    n_threads: int,
) -> None:
    """See losses/sums/written_out.py; ``weights`` of the ranks that count, and of the next rank."""

def soft_ndcg(
    scores: NDArray[Any],
    filled: NDArray[np.bool_],
    gains: NDArray[Any],
    ideal: NDArray[np.float64],
    temperature: float,
    rounds: int,
    gradients: NDArray[Any],
    losses: NDArray[Any],
    n_threads: int,
) -> None:
    """Write the gradients and losses of :func:`mfrank.losses.sums.soft_ndcg.soft_ndcg`."""

def tangent(
    table: NDArray[Any], rows: NDArray[np.int64], sums: NDArray[Any], n_threads: int
) -> None:
    """Project ``sums`` to the tangent spaces of their table rows, which have length 1."""

def ball_gradients(
    table: NDArray[Any],
    rows: NDArray[np.int64],
    totals: NDArray[Any],
    sums: NDArray[Any],
    n_threads: int,
) -> None:
    """Replace ``sums`` by ``2 (sums - totals * table[rows])``."""

def project_rows(
    table: NDArray[Any], rows: NDArray[np.int64], in_ball: bool, n_threads: int
) -> None:
    """Divide table rows by their lengths, except rows of length 0 or, ``in_ball``, up to 1."""

def project(
    scores: NDArray[Any],
    filled: NDArray[np.bool_],
    tops: NDArray[Any],
    values: NDArray[Any],
    out: NDArray[Any],
    n_threads: int,
) -> None:
    """Write each list's projection to the simplex; see losses/sums/softmax_sums.py."""

def softmax(
    scores: NDArray[Any],
    filled: NDArray[np.bool_],
    less: NDArray[Any] | None,
    totals: NDArray[Any],
    out: NDArray[Any],
    n_threads: int,
) -> None:
    """Write the softmax of ``scores - less`` over filled places, and log-sums to ``totals``."""

def draw_positives(
    *,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    n_columns: int,
    users: NDArray[np.int64],
    key: int,
    cells: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Write entries of each user's row into a row of ``cells``, padded with -1."""

def draw_negatives(
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
    """Write items that are not in the users' rows; ``filled`` if ``rounds`` tries found one."""

def rotate(
    factors: NDArray[Any],
    basis: NDArray[Any],
    n_null: int,
    out: NDArray[Any],
    n_threads: int,
    rows: NDArray[np.int64] | None = None,
) -> None:
    """``factors @ basis``, of these rows or of all, into ``out``.

    Without ``rows``, ``out`` may be ``factors``. Rounding errors in the first ``n_null`` columns of
    the product become 0.
    """

def extrapolate(
    solved: NDArray[Any],
    weight: float,
    before: NDArray[Any],
    basis: NDArray[Any],
    displacements: NDArray[Any],
    turn: NDArray[Any],
    n_threads: int,
) -> None: ...
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
    allowed: NDArray[np.bool_] | None = None,
    exclude: _Lists | None,
    ids: NDArray[np.int32],
    scores: NDArray[Any],
    n_threads: int,
) -> None:
    """Write each query's best items into ``ids`` and ``scores``; unfilled places are unchanged.

    ``shelves`` are the items that a query may get, one row for all or one per query; ``exclude``,
    ascending, those that it may not. ``lengths`` are the lengths of a single row's items, which are
    then sorted longest first; a bias counts as a coordinate. With a ``sketch`` of the items,
    ``shelves`` and ``lengths`` are None, and a query may get every item. Where items are not
    ``allowed``, no query gets them.
    """

def sketch(items: NDArray[Any], parts: _Sketch, n_threads: int) -> None:
    """Sketch the items into ``parts``, zero on entry; see backends/cpu/search_order.py."""

def regress(
    *,
    rows: _Rows,
    users: _Rows,
    near: _Rows,
    diagonal: NDArray[np.float64],
    place: NDArray[np.int32],
    common: NDArray[np.float64],
    out: NDArray[np.float64],
    failed: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Write into ``out`` what solves each row of ``near`` in the Gram matrix of its columns.

    ``diagonal`` is that of the matrix of all columns of ``rows``, whose transpose is ``users``, and
    ``common`` has the matrix where ``place`` is not -1. ``failed`` are the rows whose matrix is not
    positive definite.
    """

def largest_products(
    *,
    left: _Rows,
    right: _Rows,
    rows: NDArray[np.int64],
    most: int,
    divisor: NDArray[np.float64] | None,
    is_signed: bool,
    n_columns: int,
    begins: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float64],
    counts: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Write the largest entries of some rows of the product of ``left`` and ``right``.

    Those of row ``rows[i]`` begin at ``begins[i]`` in ``columns``, which ascend, and ``values``;
    ``counts[i]`` is their number, and the column ``rows[i]`` is none of them. ``divisor`` divides
    the columns. Entries below 0 count by their magnitude if ``is_signed``, else not.
    """

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

    Write each block's ``changes`` and ``steps``.
    """

def stationary(
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
    """Write the stationary distribution for each restart in ``starts``, by node, into ``values``.

    ``shares`` are those of :class:`mfrank.backends.arguments.Moves` times ``keep``; with
    ``rounded``, contributions along edges are in float32.
    """

def split_rows(
    raw: bytes,
    *,
    separator: bytes,
    quote: bytes,
    columns: NDArray[np.int32],
    n_needed: int,
    name: bytes | None,
    n_first: int,
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    lines: NDArray[np.int64],
    odd: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Write the places of fields by column and row, the lines of rows, and the odd lines.

    ``raw`` has 24 bytes, lines, and a byte. ``columns`` has that of each field, or -1. The first
    ``n_needed`` are not empty; the first of all is that of users, who are not called ``name``. The
    first ``n_first`` lines are odd. Return how many rows, odd lines and lines there are; -1 rows if
    there is no room for them.
    """

def whole_numbers(
    raw: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64], out: NDArray[np.int64]
) -> bool:
    """Write the fields as int64; False if one is not spelled as Python prints an int64."""

def decimals(
    raw: bytes,
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    out: NDArray[np.float64],
    valid: NDArray[np.bool_],
) -> None:
    """Write the numbers of at most 19 digits with a sign and a point, and which fields are such."""

def dates(
    raw: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64], out: NDArray[np.int64]
) -> int:
    """Write dates in seconds since 1970; -1 if one is not of a usual form.

    Else 1 if some have a time of day without its zone, plus 2 if some have one with it.
    """

def number_fields(
    raw: bytes,
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    table: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint8]],
    n: int,
    out: NDArray[np.int32],
) -> tuple[int, int]:
    """Number the distinct fields in ``table``, which has ``n``, in the order of the first of each.

    The table is slots of three numbers, where each field ends (after an 8), and their bytes. Return
    how many fields are numbered, up to the first without room, and the number of distinct ones.
    """

def fill_slots(
    table: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint8]], n: int
) -> None:
    """Write the slots of a table that has n fields; all are 0 before."""

def cell_keys(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    of_item: int,
    of_place: int,
    out: NDArray[np.uint64],
) -> None:
    """Write a number for each entry: its user, and so many bits of its item and of its place."""

def merge_cells(
    keys: NDArray[np.uint64],
    *,
    of_item: int,
    of_place: int,
    n_items: int,
    duplicates: str,
    values: NDArray[np.floating],
    times: NDArray[np.int64] | None,
    indptr: NDArray[np.int64],
    items: NDArray[np.int32],
    merged: NDArray[np.float32],
    latest: NDArray[np.int64] | None,
) -> tuple[int, int, bool]:
    """Write the cells of ascending ``keys``, which :func:`cell_keys` wrote, as rows of a CSR.

    Cells whose sum is above their largest entry are written over the keys: the cell, and the entry
    as float64. Return how many cells there are, how many such sums, and whether all values are 1.
    """

def mark_numbers(
    numbers: NDArray[np.int32] | NDArray[np.int64], lowest: int, out: NDArray[np.bool_]
) -> None:
    """Mark which numbers occur, of those from ``lowest`` on."""

def look_up_numbers(
    numbers: NDArray[np.int32] | NDArray[np.int64],
    lowest: int,
    table: NDArray[np.int32],
    out: NDArray[np.int32],
) -> None:
    """Write what the table has for each number; it begins with that of ``lowest``."""
