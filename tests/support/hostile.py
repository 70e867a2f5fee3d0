"""Values that no argument should get: what a caller gets wrong, and what he would do on purpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from ext_calls import unaligned

Rng = np.random.Generator
Damage = Callable[[Any, Rng], Any]


class UsersOwnError(Exception):
    """What an object of the caller raises: it may pass through."""


class Raising:
    """An object that raises whatever is asked of it."""

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise UsersOwnError

    __array__ = __call__ = __eq__ = __float__ = __getitem__ = _raise
    __hash__ = __index__ = __int__ = __iter__ = __len__ = __lt__ = _raise


class WrongLength:
    """A sequence that is shorter than it says."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, at: int) -> int:
        if at > 3:
            raise IndexError
        return at


class WrongArray:
    """An object whose array is none."""

    shape, dtype, ndim = (10**9, 10**9), np.dtype(np.float32), 2

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.array([object()])


class WrongDLPack:
    """An array of another library that cannot be exchanged."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        return None


def in_itself() -> list[Any]:
    """A list that contains itself."""
    endless: list[Any] = []
    endless.append(endless)
    return endless


def nested(depth: int = 2000) -> Any:
    """A list within lists, deeper than Python recurses."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


NUMBERS: list[Any] = [
    *(-1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30),
    *(10**400, 0.0, -0.0, 0.5, 1.0, 1.5, -0.1, 1e-320, 1e-30, 1e30, 1e308),
    *(math.nan, math.inf, -math.inf, 1j, True, False, Decimal("NaN"), Fraction(1, 3)),
    *(np.int8(-1), np.uint64(2**63), np.float16("nan"), np.float32(0.5), np.bool_(True)),
    *(np.longdouble("1e4000"), np.complex64(1), np.datetime64("NaT", "s"), np.timedelta64(1, "s")),
]
TEXTS: list[Any] = [
    *("", " ", "x", "nan", "1", "auto", "\0", "\ud800", "é", "😀" * 100, "x" * 5000, "a/b", "../"),
    *(b"bytes", b"\xff", np.str_("x"), np.bytes_(b"x"), "NDCG@0", "NDCG@10", "ndcg@-1", "@"),
    *("f4", "O", "(", "i8,", "float32", "<M8[s]"),
]
OTHERS: list[Callable[[], Any]] = [
    *(lambda: None, object, lambda: ..., lambda: int, lambda: len, lambda: NotImplemented),
    *(list, tuple, dict, set, lambda: [[]], lambda: [None], lambda: [math.nan], lambda: ["a", 1]),
    *(lambda: [[1, 2], [3]], lambda: {"x": 1}, lambda: range(3), lambda: range(10**12)),
    *(lambda: iter([1, 2]), lambda: (n for n in range(3)), lambda: {0, 1}, lambda: slice(None)),
    *(Raising, WrongLength, WrongArray, WrongDLPack, in_itself, nested, lambda: date(2000, 1, 1)),
    *(lambda: memoryview(b"abc"), lambda: bytearray(3), lambda: [2**63, -1], lambda: [10**400]),
    *(lambda: [True, False], lambda: ["\ud800"], lambda: [[1, [2]]], lambda: Path("absent")),
]
ARRAYS: list[Callable[[], Any]] = [
    *(lambda: np.zeros(0), lambda: np.zeros((0, 3)), lambda: np.zeros((3, 0)), lambda: np.array(0)),
    *(lambda: np.array(None), lambda: np.array([1, None]), lambda: np.array(["a", "b"])),
    *(lambda: np.array([math.nan, 1.0]), lambda: np.array([math.inf]), lambda: np.arange(3)),
    *(lambda: np.arange(3, dtype=np.int8), lambda: np.array([2**64 - 1], np.uint64)),
    *(lambda: np.array([-1]), lambda: np.array([2**62]), lambda: np.array([1j])),
    *(lambda: np.zeros((2, 2, 2)), lambda: np.eye(3), lambda: np.ones(3, bool)),
    *(lambda: np.zeros(2, [("a", int)]), lambda: np.array(["NaT"], "M8[s]")),
    *(lambda: np.zeros(3, "V4"), lambda: np.array([b"x"]), lambda: np.zeros(3, np.longdouble)),
    *(lambda: np.broadcast_to(np.float32(1), (10**9, 10**6)), lambda: np.ones(3, "f2")),
    *(lambda: np.broadcast_to(np.int64(1), 10**15), lambda: np.ma.masked_array([1, 2], [1, 0])),
    *(lambda: np.eye(2).view(np.matrix), lambda: np.array([[], []], object), lambda: np.array(b"")),
    *(lambda: sp.csr_array((0, 0)), lambda: sp.csr_array((0, 5)), lambda: sp.coo_array((5, 0))),
    *(lambda: sp.csr_array((2**31, 3)), lambda: sp.coo_array(np.ones(3)), lambda: sp.eye_array(12)),
    *(lambda: sp.csr_array((2**40, 2**40)), lambda: sp.csc_matrix(np.eye(3))),
]


def anything(rng: Rng) -> Any:
    """A value of any kind."""
    pools: list[Any] = [NUMBERS, TEXTS, OTHERS, ARRAYS, OTHERS, NUMBERS]
    which = int(rng.integers(len(pools)))
    chosen = pools[which][rng.integers(len(pools[which]))]
    return chosen() if pools[which] is OTHERS or pools[which] is ARRAYS else chosen


# --- what was right, damaged


def _one(kinds: list[Any], rng: Rng) -> Any:
    return kinds[rng.integers(len(kinds))]


def _with(array: Any, value: Any, rng: Rng) -> Any:
    """The array with a value somewhere, in a dtype that has it."""
    changed = np.array(array, dtype=np.result_type(array, np.asarray(value)))
    if changed.size:
        changed.flat[rng.integers(changed.size)] = value
    return changed


ARRAY_DAMAGES: list[Damage] = [
    lambda a, rng: a.astype(_one(["i1", "u8", "f2", "f4", "f8", "c8", "O", "S3", "U3", "?"], rng)),
    lambda a, rng: a.astype(a.dtype.newbyteorder()),
    lambda a, rng: a.astype("M8[s]") if a.dtype.kind in "iu" else a.astype("O"),
    lambda a, rng: np.asfortranarray(a),
    lambda a, rng: np.repeat(a, 2, axis=0)[::2] if a.ndim else a,
    lambda a, rng: a[::-1] if a.ndim else a,
    lambda a, rng: unaligned(a) if a.dtype.kind in "iuf" else a,
    lambda a, rng: a.T,
    lambda a, rng: a[..., None],
    lambda a, rng: a[None],
    lambda a, rng: a.reshape(-1),
    lambda a, rng: a[:-1] if a.ndim else a,
    lambda a, rng: a[:0] if a.ndim else a,
    lambda a, rng: np.concatenate([a, a]) if a.ndim else np.stack([a, a]),
    lambda a, rng: np.broadcast_to(a.reshape(-1)[:1], a.shape) if a.size else a,
    lambda a, rng: np.ma.masked_array(a, rng.random(a.shape) < 0.5),
    lambda a, rng: a.tolist(),
    lambda a, rng: tuple(a.tolist()) if a.ndim else a.tolist(),
    lambda a, rng: iter(a.tolist()) if a.ndim else a.item(),
    lambda a, rng: [*a.tolist(), None] if a.ndim else [a.item()],
    lambda a, rng: [*a.tolist(), [1]] if a.ndim else [[a.item()]],
    *(
        lambda a, rng, value=value: _with(a, value, rng) if a.dtype.kind in "iufb" else a
        for value in (math.nan, math.inf, -1, 0, 2**31, 2**62, 1e308, 1e-320, -0.5, None, "x", 1j)
    ),
]


def _set(part: str, value: int) -> Damage:
    def damaged(matrix: Any, rng: Rng) -> Any:
        array = getattr(matrix, part)
        if len(array):
            array[rng.integers(len(array))] = value
        return matrix

    return damaged


def _cut(part: str) -> Damage:
    def damaged(matrix: Any, rng: Rng) -> Any:
        setattr(matrix, part, getattr(matrix, part)[:-1])
        return matrix

    return damaged


def _turned(part: str) -> Damage:
    def damaged(matrix: Any, rng: Rng) -> Any:
        setattr(matrix, part, getattr(matrix, part)[::-1])
        return matrix

    return damaged


def _typed(part: str, *dtypes: str) -> Damage:
    def damaged(matrix: Any, rng: Rng) -> Any:
        setattr(matrix, part, getattr(matrix, part).astype(_one([*dtypes], rng)))
        return matrix

    return damaged


def _value(value: Any) -> Damage:
    def damaged(matrix: Any, rng: Rng) -> Any:
        matrix.data = _with(matrix.data, value, rng)
        return matrix

    return damaged


SPARSE_DAMAGES: list[Damage] = [
    *(
        _set(part, value)
        for part in ("indptr", "indices")
        for value in (-1, -(2**31), 0, 5, 10**6, 2**31 - 1)
    ),
    *(_cut(part) for part in ("indptr", "indices", "data")),
    *(_turned(part) for part in ("indptr", "indices", "data")),
    _typed("indptr", "i8", "f8", "u1", "O", "?"),
    _typed("indices", "i8", "f8", "u1", "O", "?"),
    _typed("data", "i1", "u8", "f2", "f8", "c8", "O", "?", "S3", "g"),
    *(_value(v) for v in (math.nan, math.inf, -math.inf, 0, -1, 1e308, 1e-320, 2**62, 1j, None)),
    lambda m, rng: m.asformat(_one(["csc", "coo", "lil", "dok", "dia", "bsr"], rng)),
    lambda m, rng: sp.csr_matrix(m),
    lambda m, rng: m.T,
    lambda m, rng: m[:-1],
    lambda m, rng: m[:, :-1],
    lambda m, rng: m[:0],
    lambda m, rng: sp.vstack([m, m]).tocsr(),
    lambda m, rng: m * 0,
    lambda m, rng: -m,
    lambda m, rng: m.toarray(),
    lambda m, rng: m.toarray().tolist(),
]


def damaged(value: Any, rng: Rng) -> Any:
    """The value after something happened to it, or anything if it is of no known kind."""
    if sp.issparse(value) and value.ndim == 2:
        return _one(SPARSE_DAMAGES, rng)(value.tocsr(copy=True), rng)
    if isinstance(value, list | tuple | range | np.ndarray):
        try:
            array = np.array(value)
        except ValueError:
            return anything(rng)
        try:
            return _one(ARRAY_DAMAGES, rng)(array, rng)
        except (OverflowError, TypeError, ValueError):  # the damage needs other numbers
            return array
    if isinstance(value, int | float):
        return _one(NUMBERS, rng)
    if isinstance(value, str):
        return _one(TEXTS, rng)
    return anything(rng)


def texts(rng: Rng) -> Iterator[bytes]:
    """Lines of a file, endless: numbers, ids and what is neither."""
    fields = [
        *(b"1", b"2", b"a", b"", b" ", b"1.5", b"nan", b"inf", b"1e400", b"-1", b"9" * 40, b'"'),
        *(b'"a,b"', b"\0", b"\xff", "é".encode(), b"user_id", b"item_id", b"rating", b"007"),
        *(b"2020-01-01", b"1:2", b"qid:1", b"3:", b"#", b"\xef\xbb\xbf", b"x" * 3000),
    ]
    separators = [b",", b"\t", b"::", b" ", b";", b"|"]
    separator, end = _one(separators, rng), _one([b"\n", b"\r\n", b"\r"], rng)
    while True:
        n = int(rng.integers(1, 6)) if rng.random() < 0.2 else 4
        if rng.random() < 0.1:
            separator = _one(separators, rng)
        yield separator.join(_one(fields, rng) for _ in range(n)) + end
