"""Tables in several files, as Spark, Hive and split write them: read as one file with all rows."""

from __future__ import annotations

import gzip
import io
import itertools
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_interaction_folder import same

import mfrank
from mfrank.cli.main import main
from mfrank.data import ingest
from tests.support.errors import refuses

Door = Callable[..., mfrank.Interactions]


def _ingested(given: Any, folder: Path, **how: Any) -> mfrank.Interactions:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_ROWS_AT_ONCE", 2)
        return mfrank.Interactions.ingest(given, folder.parent / "ingested", **how)


def _files(folder: Path) -> list[Path]:
    files = [each for each in folder.rglob("*") if each.is_file()]
    return [each for each in files if not {each.name[0], each.parent.name[0]} & {".", "_"}]


DOORS: dict[str, Door] = {
    "a folder": lambda folder, **how: mfrank.Interactions.from_file(folder, **how),
    "a pattern": lambda folder, **how: mfrank.Interactions.from_file(f"{folder}/**/*", **how),
    "a list": lambda folder, **how: mfrank.Interactions.from_file(_files(folder)[::-1], **how),
    "ingest": lambda folder, **how: _ingested(folder, folder, **how),
    "ingest of a list": lambda folder, **how: _ingested(_files(folder), folder, **how),
}

PAIR = "user,item\n"
CASES: dict[str, tuple[dict[str, str], str, dict[str, Any]]] = {
    "of Spark": (
        {
            "part-00000-1f.csv": "user,item,rating\na,7,1\nb,7,2\n",
            "part-00001-1f.csv": "user,item,rating\na,7,3\nc,8,2.5\n",
            "_SUCCESS": "",
            ".part-00000-1f.csv.crc": "crc",
            "_temporary/part-0.csv": "user,item\nz,9\n",
        },
        "user,item,rating\na,7,1\nb,7,2\na,7,3\nc,8,2.5\n",
        {},
    ),
    "without headers": (
        {"1.tsv": "1\t5\t2\n2\t5\t3\n", "2.tsv": "3\t5\t2\n"},
        "1\t5\t2\n2\t5\t3\n3\t5\t2\n",
        {},
    ),
    "a header in the first alone": (
        {"x.csv": "listener,song\nann,5\n", "y.csv": "ben,6\nann,7\n"},
        "listener,song\nann,5\nben,6\nann,7\n",
        {"user": "listener", "item": "song"},
    ),
    "one has text ids": (
        {"1.csv": f"{PAIR}1,5\n2,5\n", "2.csv": f"{PAIR}007,5\n", "3.csv": f"{PAIR}3,6\n"},
        f"{PAIR}1,5\n2,5\n007,5\n3,6\n",
        {},
    ),
    "empty parts": (
        {"0.csv": "", "1.csv": f"{PAIR}1,5\n", "2.csv": PAIR, "3.csv": f"{PAIR}2,5\n"},
        f"{PAIR}1,5\n2,5\n",
        {},
    ),
    "milliseconds in all": (
        {n: f"user,item,ts\n1,{n[0]},170000000{n[0]}000\n" for n in ("1.csv", "2.csv")},
        "user,item,ts\n1,1,1700000001000\n1,2,1700000002000\n",
        {},
    ),
    "columns in another order": (
        {"1.csv": "user,item,rating\n1,5,2\n", "2.csv": "rating,x,item,user\n3,0,5,2\n"},
        "user,item,rating\n1,5,2\n2,5,3\n",
        {},
    ),
    "days of Hive": (
        {
            "date=2024-01-31/p.csv": "user,item\n1,5\n",
            "date=2024-02-01/p.csv": "user,item\n2,5\n1,5\n",
        },
        "user,item,date\n1,5,2024-01-31\n2,5,2024-02-01\n1,5,2024-02-01\n",
        {},
    ),
    "an own time wins over a key": (
        {"date=2024-01-31/p.csv": "user,item,timestamp\n1,5,99\n"},
        "user,item,timestamp\n1,5,99\n",
        {},
    ),
    "JSON of Hive": (
        {
            "date=2024-01-31/1.json": '{"user": "1", "item": 5}\n',
            "date=2024-02-01/1.json": '{"user": "2", "item": 5}\n',
        },
        '{"user": "1", "item": 5, "date": "2024-01-31"}\n'
        '{"user": "2", "item": 5, "date": "2024-02-01"}\n',
        {},
    ),
    "users of Hive": (
        {"user=ann%20b/p.csv": "item,rating\n5,1\n6,2\n", "user=7/p.csv": "item,rating\n5,4\n"},
        "user,item,rating\nann b,5,1\nann b,6,2\n7,5,4\n",
        {},
    ),
    "a named key without headers": (
        {"region=a/shop=5/p.csv": "1,5\n2,5\n", "region=a/shop=6/p.csv": "1,5\n"},
        "5,1,5\n5,2,5\n6,1,5\n",
        {"user": "shop"},
    ),
    "events of Hive": (
        {"event=view/p.csv": "user,item\n1,5\n2,5\n", "event=buy/p.csv": "user,item\n1,5\n"},
        "user,item,event\n1,5,view\n2,5,view\n1,5,buy\n",
        {"weights": {"view": 1, "buy": 5}},
    ),
}  # fmt: skip


def written(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CASES)
def test_parts_are_what_one_file_would_be(tmp_path: Path, case: str, door: str) -> None:
    files, one, how = CASES[case]
    folder = written(tmp_path / "plays", files)
    suffix = Path(next(iter(files))).suffix
    (tmp_path / f"one{suffix}").write_text(one)
    alone = {} if case == "a named key without headers" else how
    same(
        DOORS[door](folder, **how),
        mfrank.Interactions.from_file(tmp_path / f"one{suffix}", **alone),
    )


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("names", [("part-9", "part-10"), ("2024/9/30", "2024/10/1"), ("a", "b")])
def test_parts_are_in_the_order_of_the_numbers_in_their_names(
    tmp_path: Path, names: tuple[str, str], door: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Which counts where the last one of a pair is kept, and times do not tell which it is."""
    rows = "user,item,rating\n1,5,{}\n1,6,3\n"
    files = {f"{name}.csv": rows.format(n) for n, name in enumerate(names, 1)}
    with caplog.at_level("INFO", "mfrank"):
        data = DOORS[door](written(tmp_path / "table", files), duplicates="last")
    assert data.user_items.data.tolist() == [2, 3]
    (told,) = [each for each in caplog.records if "the last one" in each.getMessage()]
    assert f"{Path(names[1]).name}.csv is the last one" in told.getMessage()


@pytest.mark.parametrize("door", DOORS)
def test_two_files_with_the_same_bytes_are_told(
    tmp_path: Path, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They are read, because events may recur; one day that was exported twice counts twice."""
    day = PAIR + "".join(f"{n},{n + 5}\n" for n in range(5))
    other = PAIR + "".join(f"{n},{9 - n}\n" for n in range(5))
    assert len(other) == len(day)
    files = {"1.csv": day, "2.csv": other, "3.csv": day, "4.csv": PAIR, "5.csv": PAIR}
    data = DOORS[door](written(tmp_path / "table", files))
    assert data.user_items.sum() == 15
    (told,) = [each for each in caplog.messages if "the same bytes" in each]
    assert "3.csv has the same bytes as" in told
    caplog.clear()
    DOORS[door](written(tmp_path / "alone", {"1.csv": day, "2.csv": PAIR, "3.csv": PAIR}))
    assert not [each for each in caplog.messages if "the same bytes" in each]


def test_a_list_of_files_in_another_order_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "user,item,rating\n1,5,{}\n"
    folder = written(tmp_path / "t", {"new.csv": rows.format(1), "old.csv": rows.format(2)})
    new, old = folder / "new.csv", folder / "old.csv"
    read, into = mfrank.Interactions.from_file, mfrank.Interactions.ingest
    for last, is_told in (([old, new], True), ([new, old], False), ([str(old), str(new)], True)):
        for call in (
            lambda files=last: read(files, duplicates="last"),
            lambda files=last: into(files, tmp_path / "folder", duplicates="last"),
        ):
            caplog.clear()
            assert call().user_items.data.tolist() == [2]
            told = [each for each in caplog.records if each.levelname == "WARNING"]
            assert len(told) == is_told
            assert all("old.csv is the last one" in each.getMessage() for each in told)
    caplog.clear()
    read([old, new], duplicates="max")
    timed = {"n.csv": "user,item,time\n1,5,2\n", "o.csv": "user,item,time\n1,5,1\n"}
    folder = written(tmp_path / "u", timed)
    read([folder / "o.csv", folder / "n.csv"], duplicates="last")
    assert not caplog.messages


@pytest.mark.parametrize("door", DOORS)
def test_parts_may_be_parquet_in_folders_or_packed(tmp_path: Path, door: str) -> None:
    frame = pandas.DataFrame({"user": [1, 2, 3, 1], "item": list("abca"), "rating": [1, 2, 3, 4.5]})
    frame["day"] = [20240131, 20240131, 20240201, 20240201]
    one = mfrank.Interactions.from_frame(frame, timestamp="day")
    frame.to_parquet(tmp_path / "lake", partition_cols=["day"])
    written(tmp_path / "lake", {"_SUCCESS": ""})
    same(DOORS[door](tmp_path / "lake", timestamp="day"), one)
    texts = {day: part.drop(columns="day").to_csv() for day, part in frame.groupby("day")}
    parts = {f"day={day}/part-0.csv.gz": gzip.compress(texts[day].encode()) for day in texts}
    same(DOORS[door](written(tmp_path / "packed", parts), timestamp="day"), one)


NULL = "__HIVE_DEFAULT_PARTITION__"
PAIRS, RATED = "user,item\n1,2\n", "user,item,rating\n1,2,3\n"
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "other columns": ({"a.csv": RATED, "b.csv": "user,item,plays\n1,2,3\n"}, "files of one"),
    "values in one alone": ({"a.csv": RATED, "b.csv": PAIRS}, "value=False"),
    "times in one alone": ({"a.csv": PAIRS, "b.csv": "user,item,ts\n1,2,3\n"}, "timestamp=False"),
    "another table": ({"a.csv": PAIRS, "b.csv": "film,title\n1,x\n"}, "user="),
    "names that are unknown": ({"a.csv": PAIRS, "b.csv": "hoerer,lied\n1,2\n"}, "user="),
    "fewer fields": ({"a.csv": RATED, "b.csv": "1,2\n"}, "files of one"),
    "unknown files": ({"a.csv": PAIRS, "README": "", "b.xlsx": ""}, "a pattern of the files"),
    "two kinds": ({"a.csv": PAIRS, "b.tsv": "user\titem\n1\t2\n"}, "files of one"),
    "one table twice": ({"a.csv": PAIRS, "a.csv.gz": ""}, "files of one"),
    "nothing": ({"_SUCCESS": ""}, "folder of files"),
    "removed rows": ({"_delta_log/0.json": "{}", "a.parquet": ""}, "Spark or DuckDB"),
    "a missing user": ({f"user={NULL}/a.csv": "item\n1\n"}, "leave this folder"),
}


@pytest.mark.parametrize("door", ["a folder", "ingest"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_one_table_is_refused(tmp_path: Path, case: str, door: str) -> None:
    files, remedy = REFUSED[case]
    with refuses(ValueError, None, remedy=remedy) as raised:
        DOORS[door](written(tmp_path / "plays", files))
    named = {"a missing user": "user=__HIVE", "unknown files": "README, b.xlsx"}
    assert named.get(case, "plays") in str(raised.value)
    assert not (tmp_path / "ingested").exists()


@pytest.mark.parametrize("door", ["a folder", "ingest"])
def test_parts_of_which_none_has_rows_and_none_match(tmp_path: Path, door: str) -> None:
    folder = written(tmp_path / "plays", {"a.csv": "user,item\n", "b.csv": ""})
    with pytest.raises(ValueError, match=r"none of 2 files, such as .*a\.csv, has rows"):
        DOORS[door](folder)
    with pytest.raises(FileNotFoundError, match="nothing matches"):
        DOORS[door](folder / "*.parquet")


def test_a_folder_of_mfrank_is_opened(tmp_path: Path) -> None:
    folder = mfrank.Interactions.from_arrays([1], [2]).to_folder(tmp_path / "plays" / "x")
    for read in (folder, folder.parent, [folder]):
        with refuses(ValueError, None, place="x", remedy="open"):
            mfrank.Interactions.from_file(read)


def test_a_file_whose_name_is_a_pattern_is_one(tmp_path: Path) -> None:
    written(tmp_path, {"a[1].csv": "user,item\n1,2\n", "a1.csv": "user,item\n3,4\n"})
    assert mfrank.Interactions.from_file(tmp_path / "a[1].csv").user_ids.labels.tolist() == [1]
    with refuses(TypeError, "path", remedy="from_frame"):
        mfrank.Interactions.from_file(pandas.DataFrame({"user": [1], "item": [2]}))


def _features_of(given: Any) -> mfrank.ALS:
    data = mfrank.Interactions.from_arrays([1, 2], [1, 2])
    return mfrank.ALS(factors=2, iterations=1).fit(data, item_features=given)


READERS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "path": ("path", mfrank.Interactions.from_file),
    "a path of several": ("path", lambda given: mfrank.Interactions.from_file([given])),
    "events": ("path", lambda given: mfrank.Events.from_file(given, event="event")),
    "ingest": ("files", lambda given: mfrank.Interactions.ingest(given, "never-made")),
    "features": ("item_features", _features_of),
}


@pytest.mark.parametrize("reader", READERS)
def test_open_files_and_text_in_place_of_a_path_are_refused(tmp_path: Path, reader: str) -> None:
    argument, read = READERS[reader]
    (tmp_path / "a.csv").write_text("user,item\n1,2\n")
    for text in (io.StringIO("user,item\n1,2\n"), io.BytesIO(b"user,item\n1,2\n")):
        with refuses(TypeError, argument, remedy="write it to a file, or pass .*from_frame"):
            read(text)
    with (tmp_path / "a.csv").open() as lines, (tmp_path / "a.csv").open("rb") as raw:
        for opened in (lines, raw):
            with refuses(TypeError, argument, remedy=r"pass its path, '.*a\.csv'"):
                read(opened)
    with refuses(TypeError, argument, remedy="pass '-'"):
        read(sys.stdin)
    if reader != "features":
        with refuses(ValueError, argument, remedy="write it to a file"):
            read("user,item\n1,2\n")
    assert not Path("never-made").exists()


def test_a_path_is_no_table_in_memory() -> None:
    for file in ("a.csv", Path("a.csv"), io.StringIO("user,item\n1,2\n")):
        with refuses(TypeError, "frame", remedy="from_file"):
            mfrank.Interactions.from_frame(file)


def test_what_is_read_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = {f"{n}.csv": "" if n == 2 else f"user,item,title\n{n},2,x\n" for n in range(4)}
    folder = written(tmp_path / "plays", files)
    for door in ("a folder", "ingest"):
        caplog.clear()
        with caplog.at_level(logging.INFO, "mfrank"):
            DOORS[door](folder)
        assert len([line for line in caplog.messages if "'title'" in line]) == 1
        assert [line for line in caplog.messages if "no rows" in line] == [
            f"{folder}/2.csv has no rows"
        ]


SPLIT_OR_COPY = [
    (["train.csv", "test.csv"], "parts of a split, such as train.csv and test.csv"),
    (["u_train.csv", "u-valid.csv"], "u_train.csv and u-valid.csv"),
    (["train/0.csv", "dev/0.csv"], "train/0.csv and dev/0.csv"),
    (["train/0.csv", "train/1.csv"], ""),
    (["test-0.csv", "test-1.csv"], ""),
    (["a.csv", "a copy.csv"], "a copy.csv beside a.csv"),
    (["a.csv", "a copy 2.csv"], "a copy 2.csv beside a.csv"),
    (["a.csv", "a - Copy.csv"], "a - Copy.csv beside a.csv"),
    (["a.csv", "a (1).csv"], "a (1).csv beside a.csv"),
    (["a (1).csv", "a (2).csv"], ""),
    (["a1.csv", "a2.csv"], ""),
]


@pytest.mark.parametrize("door", ["a folder", "a pattern", "ingest"])
@pytest.mark.parametrize(("names", "line"), SPLIT_OR_COPY)
def test_files_that_are_hardly_one_table_are_told(
    tmp_path: Path, door: str, names: list[str], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = enumerate(names)
    folder = written(tmp_path / "train-test", {name: f"{PAIR}{row},2\n" for row, name in rows})
    assert DOORS[door](folder).user_items.shape[0] == len(names)
    assert [line in message for message in caplog.messages] == [True] * bool(line)


@pytest.mark.parametrize("given", ["plays", "plays/*.csv"])
def test_commands_read_folders_and_patterns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [f"{u},{i},{t}\n" for t, (u, i) in enumerate(rng.integers(0, 9, (90, 2)).tolist())]
    written(
        tmp_path / "plays", {f"{n}.csv": "user,item,time\n" + "".join(rows[n::3]) for n in range(3)}
    )
    few = ["--factors", "2", "--iterations", "1"]
    for line in (
        ["info", given],
        ["fit", given, "--model", "m", *few],
        ["evaluate", "--model", "m", "--test", given, "--include-seen"],
        ["update", given, "--model", "m"],
        ["tune", given, "--model", "t", "--trials", "1", "--factors", "2"],
        ["ingest", given, "--folder", "i", "--dry-run"],
        ["ingest", given, "--folder", "i"],
    ):  # fmt: skip
        assert main(line) == 0, capsys.readouterr().err
    same(mfrank.Interactions.open("i"), mfrank.Interactions.from_file("plays"))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_cut_of_any_table(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    ids = st.sampled_from(["1", "2", "30", "a", "007"])
    rows = data.draw(st.lists(st.tuples(ids, ids, st.integers(1, 5)), min_size=1, max_size=12))
    lines = [f"{user},{item},{value}\n" for user, item, value in rows]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    headed = data.draw(st.booleans())
    bounds = [0, *cuts, len(rows)]
    parts = {
        f"{n}.csv": "user,item,rating\n" * (headed or not n) + "".join(lines[begin:end])
        for n, (begin, end) in enumerate(itertools.pairwise(bounds))
    }
    (folder / "one.csv").write_text("user,item,rating\n" + "".join(lines))
    one = mfrank.Interactions.from_file(folder / "one.csv")
    if bounds[1] == 0 and not headed:  # a header of no rows is not that of others
        return
    for door in ("a folder", "ingest"):
        same(DOORS[door](written(folder / "parts", parts)), one)


def rated(values: Any, first_user: int) -> pandas.DataFrame:
    n = len(values)
    users = first_user + np.arange(n)
    return pandas.DataFrame({"user": users, "item": np.arange(n) % 7, "rating": values})


def in_files(folder: Path, frames: list[pandas.DataFrame]) -> Path:
    for number, frame in enumerate(frames):
        frame.to_csv(folder / f"p{number}.csv", index=False)
    return folder


FRAMES: dict[str, Callable[[Path, list[pandas.DataFrame]], mfrank.Interactions]] = {
    **{
        door: lambda folder, frames, read=DOORS[door]: read(in_files(folder, frames))
        for door in DOORS
    },
    "frames": lambda _, frames: mfrank.Interactions.from_frame(frames),
    "ingest of frames": lambda folder, frames: mfrank.Interactions.ingest(frames, folder / "f"),
    "concat": lambda _, frames: mfrank.Interactions.concat([*map(mfrank.Interactions.of, frames)]),
    "a sum": lambda _, frames: sum(
        map(mfrank.Interactions.of, frames[1:]), mfrank.Interactions.of(frames[0])
    ),
}
RATED = np.tile([1, 2, 3, 4, 5, 5, 4], 8)
BESIDE = {
    "percent": (RATED * 20, 1),
    "of ten": (np.tile([5, 6, 7, 8, 9, 10], 8), 1),
    "shares": (np.linspace(0.1, 0.95, 60), 1),
    "ratings": (RATED[::-1], 0),
    "half steps": (np.tile([0.5, 1, 2.5, 3.5, 4.5], 9), 0),
    "likes": (np.tile([4, 5], 20), 0),
    "others": (np.tile([1, 2, 3], 20), 0),
    "marks": (np.ones(40), 1),
    "first marks": (np.r_[np.ones(2000), np.tile([1, 2, 3], 20)], 0),
    "hardly any": (np.array([90, 80, 100]), 0),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("door", FRAMES)
def test_parts_of_another_scale_are_told(
    door: str, beside: str, turned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values, n_told = BESIDE[beside]
    frames = [rated(RATED, 0), rated(values, 1000)][:: -1 if turned else 1]
    FRAMES[door](tmp_path, frames)
    told = [each for each in caplog.messages if "one scale" in each or "are 1, as" in each]
    assert len(told) == n_told
    assert all(" from 1 to 5" in each for each in told)
    assert all(("are 1, as" in each) == (beside == "marks") for each in told)


@pytest.mark.parametrize("door", FRAMES)
def test_parts_of_counts_are_not_told(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A day's counts are small beside those of a year."""
    rng = np.random.default_rng(0)
    day, year = rng.geometric(0.6, 200), rng.geometric(0.05, 200)
    FRAMES[door](tmp_path, [rated(day, 0), rated(year, 1000)])
    assert not [each for each in caplog.messages if "one scale" in each]


def test_a_file_that_is_given_twice_is_read_once_which_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.csv").write_text("user,item\n1,2\n")
    (tmp_path / "b.csv").write_text("user,item\n2,2\n")
    one = tmp_path / "b.csv"
    with caplog.at_level(logging.INFO, "mfrank"):
        for given in ([one, str(one)], [tmp_path, one], [f"{tmp_path}/*.csv", f"{tmp_path}/b*"]):
            caplog.clear()
            data = mfrank.Interactions.from_file(given)
            assert data.user_items.data.tolist() == [1] * data.nnz
            assert caplog.text.count(f"{one} is given more than once, and read once") == 1
            assert "read once" in str(data.report())
        caplog.clear()
        mfrank.Interactions.from_file([tmp_path / "a.csv", one])
        assert "more than once" not in caplog.text
