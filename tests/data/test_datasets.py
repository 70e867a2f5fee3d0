"""Readers give back what was written, in every layout and packing; real data, where present."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from mfrank.data import from_npz, movielens, published_split
from tests.support.errors import refuses

# user, item, rating, timestamp; ids have gaps, rows are in no order
RATINGS = [
    (3, 50, 4.0, 978300760),
    (1, 1193, 5.0, 978300761),
    (1, 7, 3.0, 978302109),
    (3, 7, 1.0, 978301968),
    (9, 131262, 2.0, 2**31 + 5),
]
HALF_STARS = [(*row[:2], row[2] - 0.5, row[3]) for row in RATINGS]


def line(row, delimiter):
    user, item, rating, timestamp = row
    return delimiter.join([str(user), str(item), f"{rating:g}", str(timestamp)])


def text(layout, rows):
    if layout == "20m":
        return "\n".join(["userId,movieId,rating,timestamp", *(line(r, ",") for r in rows), ""])
    return "".join(line(row, "\t" if layout == "100k" else "::") + "\n" for row in rows)


LAYOUTS = {
    "100k": ("u.data", RATINGS),
    "1m": ("ratings.dat", RATINGS),
    "10m": ("ratings.dat", HALF_STARS),
    "20m": ("ratings.csv", HALF_STARS),
}
OTHERS = {"README.txt": "users", "movies.csv": "movieId,title\n1,Toy Story\n", "u.item": "1|a"}


@pytest.fixture(params=["file", "folder", "parent", "zip"])
def stored(request, tmp_path):
    """Put a file of ratings beside others, as a release has them, and say where."""

    def store(name, content):
        release = tmp_path / "parent" / "ml-release"
        release.mkdir(parents=True)
        for file, written in {**OTHERS, name: content}.items():
            (release / file).write_text(written)
        packed = tmp_path / "ml-release.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("ml-release")
            for file in release.iterdir():
                archive.write(file, f"ml-release/{file.name}")
        places = {"file": release / name, "folder": release, "parent": release.parent}
        return {**places, "zip": packed}[request.param]

    return store


def rows_of(data):
    users, items = data.user_items.nonzero()
    columns = (data.user_ids.raw(users), data.item_ids.raw(items), data.user_items.data)
    return list(zip(*(c.tolist() for c in (*columns, data.timestamps)), strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_movielens_in_every_layout(stored, layout):
    name, rows = LAYOUTS[layout]
    assert rows_of(movielens(stored(name, text(layout, rows)))) == sorted(rows)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_movielens_takes_text_paths_and_windows_lines(tmp_path, layout):
    name, rows = LAYOUTS[layout]
    (tmp_path / name).write_bytes(text(layout, rows).replace("\n", "\r\n").encode())
    assert rows_of(movielens(str(tmp_path))) == sorted(rows)


def test_min_rating_drops_ratings_and_who_has_none_left(tmp_path):
    (tmp_path / "u.data").write_text(text("100k", RATINGS))
    kept = movielens(tmp_path, min_rating=3)
    assert rows_of(kept) == sorted(row for row in RATINGS if row[2] >= 3)
    assert kept.user_items.shape == (2, 3)
    with refuses(ValueError, "min_rating", remedy="lower min_rating"):
        movielens(tmp_path, min_rating=5.5)
    assert rows_of(movielens(tmp_path, min_rating=5)) == [RATINGS[1]]


def test_one_rating_is_a_release_too(tmp_path):
    (tmp_path / "u.data").write_text(text("100k", RATINGS[:1]))
    assert rows_of(movielens(tmp_path)) == RATINGS[:1]


def test_movielens_says_what_it_looked_for(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"there is no .*elsewhere.*grouplens\.org.*ratings\.csv"
    ):
        movielens(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"grouplens\.org.*u\.data"):
        movielens(tmp_path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("other.txt", "1")
    with pytest.raises(FileNotFoundError, match=r"other\.zip.*grouplens\.org"):
        movielens(tmp_path / "other.zip")


def test_movielens_wants_one_release(tmp_path):
    for name in ("u.data", "ratings.dat"):
        (tmp_path / name).write_text("")
    with refuses(ValueError, remedy="pass one of them"):
        movielens(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("u.data", "1\t2\tthree\t4\n", "u.data is not in the format of MovieLens 100K.*three"),
        ("u.data", "1,2,3,4\n", "in the format of MovieLens 100K"),
        ("ratings.dat", "1::2::3\n", "in the format of MovieLens 1M, 10M"),
        ("ratings.csv", "1,2,3,4\n", "first line is not userId,movieId,rating,timestamp"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,2,,4\n", "of MovieLens 20M, 25M, 32M"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,2,é,4\n", "of MovieLens 20M, 25M, 32M"),
        ("u.data", "", "has no ratings"),
    ],
)
def test_movielens_refuses_other_content(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        movielens(tmp_path)


COLUMNS = {
    "user": np.array([0, 2, 2, 4, 4], np.int32),
    "item": np.array([1, 0, 3, 1, 6], np.int32),
    "split": np.array([0, 0, 1, 2, 0], np.int8),
    "other": np.array([2, 2, 2, 2, 0], np.int8),
}
MORE = {
    "rating": np.array([1, 2, 3, 4, 5], np.float32),
    "timestamp": np.array([50, 40, 30, 20, 10], np.int64),
}


@pytest.mark.parametrize("more", [{}, MORE], ids=["pairs", "ratings"])
def test_from_npz_of_a_folder_or_a_file(tmp_path, more):
    np.savez(tmp_path / "interactions.npz", **COLUMNS, **more)
    np.savez(tmp_path / "pairs.npz", **COLUMNS, **more)
    for data in (from_npz(tmp_path), from_npz(tmp_path / "pairs.npz")):
        assert data.user_items.shape == (5, 7)
        written = data.user_items[COLUMNS["user"], COLUMNS["item"]]
        assert written.tolist() == list(more.get("rating", np.ones(5)))
        if more:
            assert rows_of(data)[-1] == (4, 6, 5.0, 10)
        else:
            assert data.timestamps is None


def test_kinds_of_events_that_from_npz_ignores_are_told(tmp_path, caplog):
    np.savez(tmp_path / "a.npz", **COLUMNS, **MORE)
    from_npz(tmp_path / "a.npz")
    assert not caplog.records  # of the split, which `published_split` reads
    np.savez(tmp_path / "a.npz", **COLUMNS, event=np.zeros(5, int))
    from_npz(tmp_path / "a.npz")
    (line,) = (record.getMessage() for record in caplog.records)
    assert "'event' looks like kinds of events" in line
    assert "Interactions.from_file takes such arguments" in line


@pytest.mark.parametrize("read", [from_npz, published_split])
@pytest.mark.parametrize(
    ("name", "array", "remedy"),
    [
        ("user", np.array(["a"] * 5), "pass other ids"),
        ("item", np.ones(5), "pass other ids"),
        ("user", np.zeros((5, 1), int), ""),
        ("item", np.zeros(4, int), ""),
        ("rating", np.zeros(6), ""),
        ("timestamp", np.array(7), ""),
        ("split", np.zeros(4, int), ""),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(tmp_path, read, name, array, remedy):
    np.savez(tmp_path / "a.npz", **(COLUMNS | MORE | {name: array}))
    if read is from_npz and name == "split":
        assert read(tmp_path / "a.npz").nnz == 5  # it has no meaning there
        return
    with refuses(ValueError, place=f"a.npz, {name}", remedy=remedy):
        read(tmp_path / "a.npz")


def test_other_and_damaged_files_are_no_arrays(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", user=np.arange(999), item=np.arange(999))
    whole = (tmp_path / "a.npz").read_bytes()
    np.save(tmp_path / "b.npy", np.arange(3))
    for damaged in (b"", b"user,item\n1,2\n", whole[:-40], (tmp_path / "b.npy").read_bytes()):
        (tmp_path / "c.npz").write_bytes(damaged)
        with refuses(ValueError, place="c.npz", remedy="copy it again"):
            from_npz(tmp_path / "c.npz")
    (tmp_path / "c.npz").write_bytes(whole[:99] + bytes(99) + whole[198:])
    with refuses(ValueError, remedy="copy it again"):
        from_npz(tmp_path / "c.npz")


def test_a_damaged_zip_of_movielens_is_told(tmp_path):
    path = tmp_path / "ml.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("u.data", text("100k", RATINGS * 99))
    whole = path.read_bytes()
    path.write_bytes(whole[:60])
    with refuses(ValueError, remedy="download it again"):
        movielens(path)
    path.write_bytes(whole[:60] + bytes(60) + whole[120:])
    with refuses(ValueError, remedy="download it again"):
        movielens(path)


@pytest.mark.parametrize("rows", [0, 1])
def test_arrays_of_no_entry_or_one(tmp_path, rows):
    np.savez(tmp_path / "few.npz", user=np.zeros(rows, np.int64), item=np.zeros(rows, np.int64))
    assert from_npz(tmp_path / "few.npz").user_items.shape == (rows, rows)


def test_no_code_of_a_file_is_run(tmp_path):
    class Opened:
        def __reduce__(self):
            return Path.touch, (tmp_path / "run",)

    np.savez(tmp_path / "pickled.npz", user=np.array([Opened()], object), item=[0])
    with pytest.raises(ValueError, match="needs pickle"):
        from_npz(tmp_path / "pickled.npz")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("column", ["split", "other"])
def test_published_split_puts_each_row_in_its_part(tmp_path, column):
    np.savez(tmp_path / "interactions.npz", **COLUMNS, **MORE)
    split = published_split(tmp_path, column=column)
    for code, part in enumerate((split.train, split.valid, split.test)):
        mine = COLUMNS[column] == code
        assert part.user_items.shape == (5, 7)
        assert part.user_ids == split.train.user_ids
        assert sorted(part.timestamps) == sorted(MORE["timestamp"][mine])
        users, items = part.user_items.nonzero()
        pairs = zip(COLUMNS["user"][mine], COLUMNS["item"][mine], strict=True)
        assert sorted(zip(users, items, strict=True)) == sorted(pairs)


def test_npz_refusals(tmp_path):
    np.savez(tmp_path / "a.npz", **(COLUMNS | {"split": np.array([0, 1, 2, 3, 0])}))
    with refuses(ValueError, place="a.npz", remedy="its splits are"):
        published_split(tmp_path / "a.npz", column="split_u1")
    with refuses(ValueError, place="a.npz, split"):
        published_split(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", user=[1], rating=[1.0])
    with refuses(ValueError, place="b.npz"):
        from_npz(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", user=[-1], item=[1])
    with refuses(ValueError, "users"):
        from_npz(tmp_path / "c.npz")
    with pytest.raises(FileNotFoundError, match=r"interactions\.npz"):
        from_npz(tmp_path)


def test_published_counts_of_real_data(data_dir):
    split = published_split(data_dir / "ml-1m")
    parts = (split.train, split.valid, split.test)
    assert [part.nnz for part in parts] == [796_244, 99_455, 99_455]
    assert {part.user_items.shape for part in parts} == {(6_022, 3_043)}
    ratings = from_npz(data_dir / "ml-100k")
    assert (ratings.user_items.shape, ratings.nnz) == ((943, 1_682), 100_000)
    assert ratings.timestamps.min() == 874_724_710
