"""Mapped interactions are split and evaluated by blocks: the same numbers, in bounded memory."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import run
from hypothesis import given, settings
from hypothesis import strategies as st
from test_interaction_folder import same

import mfrank
from mfrank.data import (
    divided,
    interaction_folder,
    kth_largest,
    number_below,
    rank_in_rows,
)
from mfrank.evaluation import inputs as evaluation
from tests.support.errors import refuses

DATA = mfrank.synthetic(70, 40, 1200, names=True, random_state=5)

SPLITS: dict[str, Callable[..., Any]] = {
    "by_ratio": partial(mfrank.by_ratio, train=0.7, test=0.2, random_state=3),
    "leave_last": partial(mfrank.leave_last, k=2, valid_k=1, random_state=3),
    "leave_k_out": partial(mfrank.leave_k_out, k=2, valid_k=1, random_state=3),
    "by_time": partial(mfrank.by_time, test=0.2, valid=0.3),
    "held_out_users": partial(mfrank.held_out_users, test=0.3, valid=7, random_state=3),
    "by_session": partial(mfrank.by_session, test=0.2, valid=0.3, last=2, random_state=3),
}


def parts(split: Any) -> list[mfrank.Interactions]:
    if hasattr(split.test, "target"):
        held_out = (split.valid, split.test)
        return [split.train, *(p for part in held_out for p in (part.fold_in, part.target))]
    return [split.train, split.valid, split.test]


@pytest.mark.parametrize("at_once", [1, 37, 1 << 22])
@pytest.mark.parametrize("name", SPLITS)
def test_parts_are_the_same_mapped_and_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, at_once: int
) -> None:
    whole = parts(SPLITS[name](DATA))
    opened = mfrank.Interactions.open(DATA.to_folder(tmp_path / "data"))
    monkeypatch.setattr(divided, "_ENTRIES_AT_ONCE", at_once)
    folder = tmp_path / "new" / "parts"
    for made in (SPLITS[name](opened), SPLITS[name](opened, folder=folder)):
        for part, wanted in zip(parts(made), whole, strict=True):
            same(part, wanted)
    assert not list(folder.glob(".parts.*"))


@pytest.mark.parametrize("name", SPLITS)
def test_what_is_only_seen_is_divided_by_blocks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rated = mfrank.Interactions.from_arrays(
        DATA.entry_users, DATA.user_items.indices, np.arange(DATA.nnz) % 5 + 1, DATA.timestamps
    )
    data = rated.at_least(3)
    whole = parts(SPLITS[name](data))
    assert any(part.seen_only is not None for part in whole)
    monkeypatch.setattr(divided, "_ENTRIES_AT_ONCE", 37)
    for folder in (None, tmp_path, tmp_path):  # the second time, in the place of the first
        for part, wanted in zip(parts(SPLITS[name](data, folder=folder)), whole, strict=True):
            same(part, wanted)
            assert (part.seen_only is None) == (wanted.seen_only is None)
            if wanted.seen_only is not None:
                same(part.seen_only, wanted.seen_only)


def test_a_generator_is_left_where_it_was(tmp_path: Path) -> None:
    for name in ("by_ratio", "held_out_users", "by_session"):
        states = []
        for folder in (None, tmp_path / name):
            rng = np.random.default_rng(8)
            SPLITS[name](DATA, random_state=rng, folder=folder)
            states.append(rng.bit_generator.state)
        assert states[0] == states[1]


def test_entries_are_drawn_as_in_one_go() -> None:
    """The numbers of splits before they went by blocks."""
    rng = np.random.default_rng(3)
    rank = rank_in_rows(DATA.user_items.indptr, rng.random(DATA.nnz))
    last = rank >= np.repeat(DATA.counts.users - 2, DATA.counts.users)
    same(mfrank.leave_k_out(DATA, 2, random_state=3).test, DATA.take(last))
    rng = np.random.default_rng(3)
    rng.random(DATA.n_users + DATA.nnz)  # for the rounding and the entries, before the users
    users = rng.permutation(np.flatnonzero(DATA.counts.users))[:21]
    assert SPLITS["held_out_users"](DATA).test.users.tolist() == sorted(users)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_keep_their_type(tmp_path: Path, dtype: Any) -> None:
    data = mfrank.Interactions.from_sparse(DATA.user_items.astype(dtype))
    split = mfrank.leave_k_out(data, folder=tmp_path / "parts")
    assert split.train.user_items.dtype == dtype


def test_a_folder_of_something_else_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "notes.txt").write_text("mine")
    with refuses(ValueError, place="test", remedy="pass a new or an empty folder"):
        mfrank.by_ratio(DATA, folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test"]


def test_parts_of_two_splits_at_once_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another seed's test part beside this one's training part would be learned in part."""
    write_arrays, others = interaction_folder.write_arrays, list[threading.Thread]()

    def split(seed: int, folder: Path | None = tmp_path) -> Any:
        return mfrank.by_ratio(DATA, random_state=seed, folder=folder)

    def write(*args: Any, **named: Any) -> Any:
        made = write_arrays(*args, **named)
        if not others:  # the first part is written
            others.append(threading.Thread(target=split, args=[2]))
            others[0].start()
            end = time.monotonic() + 20
            while "waiting for another save" not in caplog.text and time.monotonic() < end:
                time.sleep(0.01)
        return made

    monkeypatch.setattr(interaction_folder, "write_arrays", write)
    with caplog.at_level("INFO", "mfrank"):
        mine = split(1)
        others[0].join()
    for name in ("train", "valid", "test"):
        same(getattr(mine, name), getattr(split(1, None), name))
        same(mfrank.Interactions.open(tmp_path / name), getattr(split(2, None), name))


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("n_written", [0, 1, 2, 9])
def test_parts_of_two_splits_are_told_where_one_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, name: str, n_written: int
) -> None:
    write_arrays, made = interaction_folder.write_arrays, list[Any]()

    def write(*args: Any, **named: Any) -> Any:
        if len(made) == n_written:
            raise KeyboardInterrupt
        made.append(write_arrays(*args, **named))
        return made[-1]

    SPLITS[name](DATA, folder=tmp_path)
    monkeypatch.setattr(interaction_folder, "write_arrays", write)
    is_whole = n_written == 9
    with nullcontext() if is_whole else pytest.raises(KeyboardInterrupt):
        SPLITS[name](DATA, folder=tmp_path)
    caplog.clear()
    written = list(tmp_path.iterdir())
    for part in written:
        mfrank.Interactions.open(part)
    is_mixed = n_written > 0 and not is_whole
    told = sum("parts of two splits" in each for each in caplog.messages)
    assert told == len(written) * is_mixed


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.integers(2**40, 2**40 + 9)


@settings(max_examples=50, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=30), st.data())
def test_the_kth_largest_is_that_of_the_sorted(numbers: list[int], data: st.DataObject) -> None:
    array = np.array(numbers, np.int64)
    below = data.draw(st.none() | st.integers(int(array.min()) + 1, 2**63))
    kept = sorted((n for n in numbers if below is None or n < below), reverse=True)
    k = data.draw(st.integers(1, len(kept)))
    assert kth_largest(array, k, below) == kept[k - 1]
    assert below is None or number_below(array, below) == len(kept)


@pytest.mark.parametrize("at_once", [1, 50, 1 << 22])
@pytest.mark.parametrize("batch_size", [None, 1, 7])
def test_an_evaluation_is_the_same_by_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, batch_size: int | None
) -> None:
    split = mfrank.by_ratio(DATA, random_state=0)
    mapped = mfrank.by_ratio(DATA, random_state=0, folder=tmp_path / "parts")
    model = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(split.train)
    options: dict[str, Any] = {"metrics": ["ndcg@5", "auc", "coverage@5"], "batch_size": batch_size}
    users = DATA.user_ids.labels[::2]
    wanted = mfrank.evaluate(model, split.test, train=DATA.take(DATA.timestamps > 5), users=users)
    values = mfrank.evaluate(model, split.test, **options)
    monkeypatch.setattr(evaluation, "_TEST_ENTRIES_AT_ONCE", at_once)
    found = mfrank.evaluate(model, mapped.test, train=mapped.train, **options)
    assert found.to_dict() == values.to_dict()
    assert found.users.tolist() == values.users.tolist()
    again = mfrank.evaluate(model, mapped.test, train=DATA.take(DATA.timestamps > 5), users=users)
    assert again.to_dict() == wanted.to_dict()
    assert again.n_in_train == wanted.n_in_train > 0


BOUNDED = """
import resource, sys
import numpy as np
import mfrank
from mfrank.data import divided
from mfrank.evaluation import inputs as evaluation
divided._ENTRIES_AT_ONCE = evaluation._TEST_ENTRIES_AT_ONCE = 1 << 15
folder, parts = sys.argv[1:]
rng = np.random.default_rng(0)
def work(data, parts):
    made = [mfrank.by_time(data, test=0.2, folder=parts + "/t"),
            mfrank.held_out_users(data, test=0.2, folder=parts + "/h"),
            mfrank.leave_last(data, folder=parts + "/l"),
            mfrank.by_ratio(data, folder=parts + "/r")]
    split = made[-1]
    store = mfrank.FactorStore(rng.random((data.n_users, 4)), rng.random((data.n_items, 4)))
    return mfrank.evaluate(store, split.test, train=split.train, batch_size=500, n_threads=1)
work(mfrank.synthetic(50, 40, 900, random_state=0), parts + "/warm")
data = mfrank.Interactions.open(folder)
lines = open("/proc/self/status").read().splitlines()
held = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
resource.setrlimit(resource.RLIMIT_DATA, (held + (16 << 20),) * 2)
work(data, parts)
try:
    np.ones(data.nnz * 3)
except MemoryError:
    print("bounded")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what is not mapped")
def test_memory_does_not_hold_the_entries(tmp_path: Path) -> None:
    """16 MiB of private memory for 800,000 entries, of which ranks in one go take twice that."""
    n, rng = 800_000, np.random.default_rng(0)
    users, items = np.repeat(np.arange(2000), n // 2000), np.tile(np.arange(n // 2000), 2000)
    times = rng.integers(0, 10**9, n)
    data = mfrank.Interactions.from_arrays(users, items, timestamps=times)
    folder = data.to_folder(tmp_path / "data")
    code = f"import sys; sys.argv[1:] = [{str(folder)!r}, {str(tmp_path / 'parts')!r}]\n" + BOUNDED
    told = run(code, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    assert told.stdout == "bounded\n", told.stderr
