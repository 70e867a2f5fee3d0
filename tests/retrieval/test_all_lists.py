"""The lists of all users in files are those of ``recommend``, each once, however often it stops."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from children import kill_when_there
from engines import Shuffled
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.arrays import usable_cores
from mfrank.retrieval import Table, all_lists
from tests.support.errors import refuses

pandas = pytest.importorskip("pandas", reason="reads the files with pandas")
parquet = pytest.importorskip("pyarrow.parquet", reason="reads the files with pyarrow")

DATA = mfrank.synthetic(60, 40, 900, names=True, random_state=2)
SOME = DATA.take(np.arange(DATA.nnz) % 3 > 0)


@pytest.fixture(scope="module")
def model() -> mfrank.ALS:
    return mfrank.ALS(factors=4, iterations=2, random_state=0).fit(DATA)


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 14 users each where lists have 5 items."""
    monkeypatch.setattr(all_lists, "_PLACES_AT_ONCE", 70)


def expected(model: Any, n: int = 5, **options: Any) -> Any:
    users = model.user_ids.labels
    ids, scores = model.recommend(users, N=n, **options)
    listed = ~np.isnan(scores)
    of, rank = np.nonzero(listed)
    return {"user": users[of], "rank": rank + 1, "item": ids[listed], "score": scores[listed]}


def read(folder: Path, format: str = "parquet") -> Any:
    """All files, in their order."""
    one = pandas.read_parquet if format == "parquet" else pandas.read_csv
    return pandas.concat([one(path) for path in sorted(folder.glob(f"part-*.{format}"))])


def assert_same(found: Any, wanted: Table, *, exactly: bool = True) -> None:
    assert list(found.columns) == ["user", "rank", "item", "score"]
    for name in ("user", "rank", "item"):
        assert found[name].tolist() == wanted[name].tolist()
    if exactly:
        np.testing.assert_array_equal(found["score"].to_numpy(), wanted["score"])
    else:
        np.testing.assert_allclose(found["score"].to_numpy(), wanted["score"], rtol=1e-6)


@pytest.mark.parametrize("name", ["ALS", "Popularity", "EASE", "ItemKNN", "SupervisedPageRank"])
def test_every_model_writes_what_it_recommends(tmp_path: Path, name: str) -> None:
    model = getattr(mfrank, name)().fit(DATA)
    folder = model.recommend_all(tmp_path / "lists", N=5)
    assert folder == tmp_path / "lists"
    assert_same(read(folder), expected(model))
    assert (folder / "_SUCCESS").exists()


def test_programs_read_the_whole_folder(tmp_path: Path, model: mfrank.ALS) -> None:
    folder = model.recommend_all(tmp_path / "lists", N=5)
    assert len(list(folder.glob("part-*.parquet"))) == 5
    assert_same(pandas.read_parquet(folder), expected(model))


def test_csv_reads_back_the_same_numbers(tmp_path: Path, model: mfrank.ALS) -> None:
    folder = model.recommend_all(tmp_path / "lists", N=5, format="csv")
    assert_same(read(folder, "csv"), expected(model), exactly=False)


@pytest.mark.parametrize(
    "ids", [None, [f"u{n}" for n in range(60)], list(range(-1, 59))], ids=["rows", "text", "-1"]
)
def test_all_files_have_the_same_columns(tmp_path: Path, ids: Any) -> None:
    model = mfrank.ALS(factors=2, iterations=1).fit(
        mfrank.Interactions.from_sparse(DATA.user_items, user_ids=ids)
    )
    nothing_for_the_first = [[] if row < 20 else [0, 1] for row in range(60)]
    folder = model.recommend_all(tmp_path / "lists", N=5, items=nothing_for_the_first)
    schemas = [parquet.read_schema(path) for path in sorted(folder.glob("part-*"))]
    assert all(schema.equals(schemas[0]) for schema in schemas)
    assert not len(pandas.read_parquet(folder / "part-00000.parquet"))
    assert_same(read(folder), expected(model, items=nothing_for_the_first))


def _options(model: Any) -> dict[str, dict[str, Any]]:
    items = model.item_ids.labels
    rng = np.random.default_rng(0)
    by_user = [items[rng.choice(40, 3, replace=False)].tolist() for _ in range(60)]
    pattern = DATA.to_scipy()
    return {
        "one list": {"filter_items": items[:7].tolist()},
        "a list a user": {"filter_items": by_user},
        "only": {"items": items[5:30]},
        "only, by user": {"items": by_user},
        "a matrix": {"filter_items": pattern, "filter_already_liked_items": False},
        "another format": {"items": pattern.tocoo(), "filter_already_liked_items": False},
        "seen": {"filter_already_liked_items": False},
        "given": {"user_items": pattern[::-1]},
        "given by id": {"user_items": SOME},
        "solved anew": {"user_items": SOME, "recalculate_user": True},
        "unknown": {"filter_items": ["nothing", items[0]], "on_unknown": "skip"},
    }


@pytest.mark.parametrize("name", _options(mfrank.Popularity().fit(DATA)))
def test_options_are_those_of_recommend(tmp_path: Path, model: mfrank.ALS, name: str) -> None:
    options = _options(model)[name]
    folder = model.recommend_all(tmp_path / "lists", N=5, **options)
    assert_same(read(folder), expected(model, **options), exactly="anew" not in name)


def test_row_numbers_in_and_out(tmp_path: Path, model: mfrank.ALS) -> None:
    folder = model.recommend_all(tmp_path / "lists", N=5, by_row=True, filter_items=[3])
    users = np.arange(60)
    ids, _ = model.recommend(users, N=5, by_row=True, filter_items=[3])
    found = read(folder)
    assert found["user"].tolist() == users.repeat(5).tolist()
    assert found["item"].tolist() == ids.reshape(-1).tolist()


def test_interactions_may_be_mapped(tmp_path: Path, model: mfrank.ALS) -> None:
    opened = mfrank.Interactions.open(DATA.to_folder(tmp_path / "data"))
    mapped = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(opened)
    assert_same(read(mapped.recommend_all(tmp_path / "a", N=5)), expected(model))
    bare = mfrank.Recommender.of(model.store)
    found = read(bare.recommend_all(tmp_path / "b", opened, N=5))
    assert_same(found, expected(model))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 60), st.integers(1, 45), st.integers(1, 400))
def test_each_user_once_for_any_sizes(
    tmp_path_factory: pytest.TempPathFactory, users: int, n: int, at_once: int
) -> None:
    rows = mfrank.Interactions.from_sparse(DATA.user_items[:users])
    model = mfrank.Popularity().fit(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_lists, "_PLACES_AT_ONCE", at_once)
        folder = model.recommend_all(tmp_path_factory.mktemp("any") / "lists", N=n)
    assert_same(read(folder), expected(model, n))


def stopping_after(files: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writing of a later file fail."""
    write, written = all_lists.write_table, []

    def counted(path: Path, table: Table) -> None:
        if len(written) == files:
            raise KeyboardInterrupt
        write(path, table)
        written.append(path)

    monkeypatch.setattr(all_lists, "write_table", counted)


def test_a_stopped_run_is_resumed(
    tmp_path: Path, model: mfrank.ALS, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stopping_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            model.recommend_all(tmp_path / "lists", N=5)
    assert not (tmp_path / "lists" / "_SUCCESS").exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "lists").glob("part-*")}
    assert len(before) == 2
    model.save(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model", mmap=True)  # the same model, by another way
    assert_same(read(loaded.recommend_all(tmp_path / "lists", N=5)), expected(model))
    assert {path: path.stat().st_mtime_ns for path in before} == before
    with monkeypatch.context() as patch:
        stopping_after(0, patch)
        model.recommend_all(tmp_path / "lists", N=5)  # nothing is left to write


CHILD = """
import time
from pathlib import Path
import mfrank
from mfrank.retrieval import all_lists
from test_all_lists import DATA
all_lists._PLACES_AT_ONCE = 70
write = all_lists.write_table
def slow(path, table):
    write(path, table)
    time.sleep(0.05)
all_lists.write_table = slow
mfrank.ALS(factors=4, iterations=2, random_state=0).fit(DATA).recommend_all(Path({folder!r}), N=5)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_run_is_resumed(tmp_path: Path, model: mfrank.ALS) -> None:
    folder = tmp_path / "lists"
    kill_when_there(CHILD.format(folder=str(folder)), folder / "part-00001.parquet")
    assert not (folder / "_SUCCESS").exists()
    assert_same(read(model.recommend_all(folder, N=5)), expected(model))
    assert not [
        path.name for path in folder.iterdir() if path.name.startswith(".") and "part" in path.name
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"N": 6}, "begun with N=5, not 6; resume it as it was begun, or pass another folder"),
        ({"filter_already_liked_items": False}, "begun with"),
        ({"filter_items": ["drama-0001"]}, "begun with another filter_items"),
        ({"user_items": SOME}, "begun with another user_items"),
        ({"format": "csv"}, "begun with format='parquet', not 'csv'"),
        ({"fallback": "popularity"}, "begun with no fallback, now 'popularity'"),
    ],
)
def test_other_options_are_refused(
    tmp_path: Path, model: mfrank.ALS, change: dict[str, Any], message: str
) -> None:
    model.recommend_all(tmp_path / "lists", N=5)
    with refuses(ValueError, place="lists", remedy="resume it"):
        model.recommend_all(tmp_path / "lists", **{"N": 5, **change})
    assert_same(read(tmp_path / "lists"), expected(model))


def test_another_model_is_refused(tmp_path: Path, model: mfrank.ALS) -> None:
    model.recommend_all(tmp_path / "lists", N=5)
    for other in (
        mfrank.ALS(factors=4, iterations=3, random_state=0).fit(DATA),
        mfrank.ALS(factors=4, iterations=2, random_state=0).fit(SOME),
        mfrank.Popularity().fit(DATA),
    ):
        with refuses(ValueError, place="lists", remedy="resume it"):
            other.recommend_all(tmp_path / "lists", N=5)


def _a_file(path: Path) -> None:
    path.write_text("mine")


def _notes(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_text("mine")


def _someone_elses_lists(path: Path) -> None:
    path.mkdir()
    (path / "part-00000.parquet").write_bytes(b"theirs")


@pytest.mark.parametrize("make", [_a_file, _notes, _someone_elses_lists])
def test_what_else_is_there_is_refused_and_stays(
    tmp_path: Path, model: mfrank.ALS, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "lists")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with refuses(ValueError, place="lists", remedy="pass a (folder|new or an empty folder)"):
        model.recommend_all(tmp_path / "lists", N=5)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"N": 0}, "N"),
        ({"format": "json"}, "format"),
        ({"filter_items": ["nothing"]}, "filter_items"),
        ({"filter_items": [["drama-0001"]]}, "filter_items"),
        ({"user_items": DATA.to_scipy()[:9]}, "user_items"),
        ({"recalculate_user": True}, "recalculate_user"),
        ({"on_unknown": "maybe"}, "on_unknown"),
    ],
)
def test_bad_options_are_refused_before_anything_is_there(
    tmp_path: Path, model: mfrank.ALS, options: dict[str, Any], argument: str
) -> None:
    with refuses(ValueError, argument):
        model.recommend_all(tmp_path / "lists", **options)
    assert not list(tmp_path.iterdir())


def test_ids_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    pairs = mfrank.Interactions.from_arrays([("a", 1), ("b", 2)], [1, 2])
    with refuses(ValueError, remedy="use str or int ids"):
        mfrank.Popularity().fit(pairs).recommend_all(tmp_path / "lists")


def test_ids_of_two_kinds_are_no_column_of_parquet(tmp_path: Path) -> None:
    """One file would have numbers and the next one text; a text file may have both."""
    labels = np.array([*range(29), "x"], dtype=object)
    cells = sp.csr_array(np.random.default_rng(0).random((30, 30)) < 0.3, dtype=np.float32)
    data = mfrank.Interactions.from_sparse(cells, user_ids=labels)
    mixed = mfrank.ALS(factors=4, iterations=1, random_state=0).fit(data)
    with refuses(ValueError, remedy="convert all to text"):
        mixed.recommend_all(tmp_path / "lists", N=5)
    assert not [*tmp_path.iterdir()]
    assert mixed.recommend_all(tmp_path / "rows", N=5, by_row=True).exists()
    assert mixed.recommend_all(tmp_path / "text", N=5, format="csv").exists()


def test_a_failed_run_without_a_file_can_begin_anew(
    tmp_path: Path, model: mfrank.ALS, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stopping_after(0, patch)
        with pytest.raises(KeyboardInterrupt):
            model.recommend_all(tmp_path / "lists", N=7)
    assert_same(read(model.recommend_all(tmp_path / "lists", N=5)), expected(model))


def test_progress_is_shown_if_asked(
    tmp_path: Path, model: mfrank.ALS, capfd: pytest.CaptureFixture[str]
) -> None:
    model.recommend_all(tmp_path / "a", N=5)
    assert capfd.readouterr().err == ""
    model.recommend_all(tmp_path / "b", N=5, show_progress=True)
    assert "60/60" in capfd.readouterr().err


def test_progress_of_a_resumed_run_begins_where_the_first_stopped(
    tmp_path: Path,
    model: mfrank.ALS,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        stopping_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            model.recommend_all(tmp_path / "lists", N=5)
    capfd.readouterr()
    model.recommend_all(tmp_path / "lists", N=5, show_progress=True)
    assert "60/60" in capfd.readouterr().err


def test_all_files_are_of_the_model_as_it_was_when_the_call_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(DATA)
    before, write = expected(of), all_lists.write_table

    def then_updated(path: Path, table: Table) -> None:
        write(path, table)
        if path.name == "part-00000.parquet":
            of.partial_fit(SOME)

    monkeypatch.setattr(all_lists, "write_table", then_updated)
    assert_same(read(of.recommend_all(tmp_path / "lists", N=5)), before)
    assert (expected(of)["score"] != before["score"]).any()


@pytest.mark.parametrize("fallback", ["none", "popularity"])
def test_users_with_nothing_are_counted_over_all_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fallback: Any
) -> None:
    users = [*DATA.user_ids.labels.tolist(), "y1", "y2", "z"]
    pairs = DATA.user_ids.labels[DATA.entry_users], DATA.item_ids.labels[DATA.user_items.indices]
    cold = mfrank.Interactions.from_arrays(*pairs, user_ids=users)
    of = mfrank.ALS(factors=4, iterations=2, random_state=0).fit(cold)
    caplog.clear()
    of.recommend_all(tmp_path / "lists", N=5, fallback=fallback)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("3 of 63 users")
    assert ("are empty" in caplog.messages[0]) == (fallback == "none")
    assert ('fallback="popularity"' in caplog.messages[0]) == (fallback == "none")


def test_parquet_without_its_package_is_refused_before_anything_is_there(
    tmp_path: Path, model: mfrank.ALS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match="parquet"):
        model.recommend_all(tmp_path / "lists", N=5)
    assert not list(tmp_path.iterdir())


OPTIONS: dict[str, Any] = {
    "user_items": None,
    "filter_already_liked_items": True,
    "filter_items": None,
    "recalculate_user": False,
    "items": None,
    "by_row": False,
    "on_unknown": "error",
    "fallback": "none",
    "n_threads": 0,
    "steer": None,
}


@pytest.mark.parametrize("tried", [7, 30, 1000])
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_plan_is_what_the_run_then_takes(
    tmp_path: Path, model: mfrank.ALS, monkeypatch: pytest.MonkeyPatch, tried: int, format: Any
) -> None:
    monkeypatch.setattr(all_lists, "_TRIED", tried)
    lists = all_lists.AllLists(model, 5, format, OPTIONS)
    plan, folder = lists.plan(tmp_path / "lists"), tmp_path / "lists"
    assert not folder.exists()
    assert (plan.users, plan.files, plan.rows) == (60, 5, 300)
    assert plan.bytes_of_memory > 70 * (8 + 8 + 8)  # ids and scores of a file's 70 places
    lists.write(folder)
    size = sum(path.stat().st_size for path in folder.glob(f"part-*.{format}"))
    if format == "csv":  # a file of parquet has parts of one size, whatever its rows
        assert size / 1.3 < plan.bytes_on_disk < size * 1.3
    assert lists.plan(folder).files == 0
    next(folder.glob("part-00003.*")).unlink()
    assert lists.plan(folder).files == 1


def test_a_plan_for_one_user_is_his_list(tmp_path: Path) -> None:
    one = mfrank.Interactions.from_sparse(DATA.user_items[:1])
    options = OPTIONS | {"filter_already_liked_items": False}
    lists = all_lists.AllLists(mfrank.Popularity().fit(one), 5, "csv", options)
    lists.write(tmp_path / "a")
    found = read(tmp_path / "a", "csv")
    assert lists.plan(tmp_path / "b").rows == len(found) == 5


def test_lists_have_ten_places_by_default(tmp_path: Path, model: mfrank.ALS) -> None:
    found = read(model.recommend_all(tmp_path / "lists", format="csv"), "csv")
    assert found["rank"].max() == 10


def test_what_is_no_cluster_is_refused_before_anything_is_made(
    tmp_path: Path, model: mfrank.ALS
) -> None:
    for wrong in (0, -1, True, "", object()):
        with refuses((TypeError, ValueError), "cluster"):
            model.recommend_all(tmp_path / "lists", cluster=wrong)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_lists_are_made_on_the_cluster_that_is_given(tmp_path: Path, model: mfrank.ALS) -> None:
    engine, submitted, threads = Shuffled(2), [], []
    submit = engine.submit

    def noted(function: Any, *args: Any) -> Any:
        submitted.append(function.__name__)
        threads.extend(one.options["n_threads"] for one in args if hasattr(one, "options"))
        return submit(function, *args)

    engine.submit = noted  # type: ignore[method-assign]
    model.recommend_all(tmp_path / "lists", N=5, cluster=engine)
    assert threads == [max(1, usable_cores() // 2)]  # two workers share the cores
    assert submitted.count("_written") == len(list((tmp_path / "lists").glob("part-*")))
    assert_same(read(tmp_path / "lists"), expected(model))


def test_a_plan_tries_users_of_the_whole_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first half of the users has everything, and so no list."""
    rows = np.repeat(np.arange(20), 10)
    pairs = mfrank.Interactions.from_arrays(
        np.concatenate([rows, np.arange(20, 40)]),
        np.concatenate([np.tile(np.arange(10), 20), rows[:20]]),
    )
    monkeypatch.setattr(all_lists, "_TRIED", 10)
    plan = all_lists.AllLists(mfrank.Popularity().fit(pairs), 5, "csv", OPTIONS).plan(
        tmp_path / "a"
    )
    assert plan.rows == 100


@pytest.mark.parametrize("recalculates", [False, True])
def test_other_values_are_another_run_where_users_are_folded_in(
    tmp_path: Path, model: mfrank.ALS, recalculates: bool
) -> None:
    more: dict[str, Any] = {"N": 5, "recalculate_user": recalculates}
    matrix = SOME.user_items.copy()
    model.recommend_all(tmp_path / "lists", user_items=matrix, **more)
    other = matrix.copy()
    other.data = other.data * 2
    if not recalculates:
        model.recommend_all(tmp_path / "lists", user_items=other, **more)
        return
    with refuses(ValueError, place="lists", remedy="resume it"):
        model.recommend_all(tmp_path / "lists", user_items=other, **more)
