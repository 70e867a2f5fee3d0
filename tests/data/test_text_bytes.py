"""Encodings and packed files: text is read as it is stored, by every door, or refused."""

from __future__ import annotations

import bz2
import gzip
import io
import logging
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import DOORS, triples

import mfrank
from mfrank.cli.main import main
from mfrank.data import lines_of, text_files, write_table
from tests.support.errors import refuses

TEXT = "user,item,rating\nJosé,tea,3\nZoë,œuf,1\nann,tea,2\n"
READ = [("José", "tea", 3.0), ("Zoë", "œuf", 1.0), ("ann", "tea", 2.0)]


def zipped(content: bytes, name: str = "a.csv", **others: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", b"")
        archive.writestr("__MACOSX/._a.csv", b"x")
        for each, own in {name: content, **others}.items():
            archive.writestr(each, own)
    return file.getvalue()


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
    ".zip": zipped,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8-sig", None), ("utf-16", None), ("utf-16-le", None), ("utf-16-be", None),
        ("utf-32", None), ("cp1252", "cp1252"), ("iso8859-15", "latin9"), ("utf-16-le", "UTF-16"),
        ("utf-16", "utf-16"), ("utf-8-sig", "utf-8"), ("utf-7", "utf-7"),
    ],
)  # fmt: skip
def test_encodings_are_recognized_or_named(
    tmp_path: Path, door: str, encoding: str, named: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    (tmp_path / "a.csv").write_bytes(TEXT.encode(encoding))
    assert triples(DOORS[door](tmp_path / "a.csv", encoding=named)) == READ
    told = [line for line in caplog.messages if "it is read as" in line]
    assert len(told) == (named is None and encoding != "utf-8-sig")
    assert all(encoding[:6].upper() in line for line in told)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("suffix", PACK)
def test_what_packs_a_file_is_known_by_its_content(
    tmp_path: Path, door: str, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mfrank")
    for name, is_named in (
        (f"a.csv{suffix}", True),
        ("b.csv", False),
        ("c.txt.gz", suffix == ".gz"),
    ):
        caplog.clear()
        (tmp_path / name).write_bytes(PACK[suffix](TEXT.encode()))
        assert triples(DOORS[door](tmp_path / name)) == READ
        told = [line for line in caplog.messages if "compressed by" in line]
        assert len(told) == (not is_named or "piped" in door)
    (tmp_path / f"plain.csv{suffix}").write_text(TEXT)
    if suffix != ".zip":
        assert triples(DOORS[door](tmp_path / f"plain.csv{suffix}")) == READ
        assert "piped" in door or "plain text" in caplog.text


def test_members_of_a_zip_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = mfrank.Interactions.from_file
    many, one, odd = tmp_path / "ml.zip", tmp_path / "one.zip", tmp_path / "odd.zip"
    body = b"1::2::3::978300760\n2::2::4::978300761\n"
    many.write_bytes(zipped(body, "ml/ratings.dat", **{"ml/README": b"read me"}))
    with refuses(ValueError, None, place="ml.zip", remedy=r"ml\.zip/ml/ratings\.dat"):
        read(many)
    inside = many / "ml" / "ratings.dat"
    assert len(triples(read(inside))) == len(triples(read(str(inside)))) == 2
    assert mfrank.Interactions.ingest([inside], tmp_path / "folder").nnz == 2
    assert main(["info", str(inside)]) == 0
    with pytest.raises(FileNotFoundError):
        read(many / "ml" / "users.dat")
    one.write_bytes(zipped(gzip.compress(body), "ratings.dat.gz"))
    assert read(one).nnz == 2
    odd.write_bytes(zipped(b"", "[Content_Types].xml"))
    with refuses(ValueError, None, place="odd.zip", remedy="save it as .csv"):
        read(odd)
    with refuses(ValueError, place="new.csv.zip", remedy="name it with .gz"):
        write_table(tmp_path / "new.csv.zip", {"user": [1]})


@pytest.mark.parametrize("suffix", PACK)
def test_what_is_cut_is_told(tmp_path: Path, suffix: str) -> None:
    whole = PACK[suffix]("".join(f"{n},{n * 7919 % 1009}\n" for n in range(9000)).encode())
    for n in (9, len(whole) // 2, len(whole) - 3):
        (tmp_path / "a.csv").write_bytes(whole[:n])
        with refuses(ValueError, None, place="", remedy="copy|download|unpack"):
            mfrank.Interactions.from_file(tmp_path / "a.csv")
    if suffix != ".zip":  # several one after the other are one text
        (tmp_path / "a.csv").write_bytes(whole + PACK[suffix](b"1,2\n"))
        assert mfrank.Interactions.from_file(tmp_path / "a.csv").nnz == 9001


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("outer", [".gz", ".bz2", ".xz", ".zst"])
def test_what_is_packed_twice_and_archives_are_told(tmp_path: Path, outer: str, door: str) -> None:
    body = TEXT.encode()
    for suffix, pack in PACK.items():
        file = tmp_path / f"a.csv{outer}"
        file.write_bytes(PACK[outer](pack(body)))
        with refuses(ValueError, None, remedy=rf"unpack it once.*\{suffix}$"):
            DOORS[door](file)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        member = tarfile.TarInfo("a.csv")
        member.size = len(body)
        archive.addfile(member, io.BytesIO(body))
    for content in (made.getvalue(), PACK[outer](made.getvalue())):
        (tmp_path / "a.csv").write_bytes(content)
        with refuses(ValueError, None, remedy="unpack it: tar -xf"):
            DOORS[door](tmp_path / "a.csv")


def test_items_and_features_are_read_alike(tmp_path: Path) -> None:
    data = mfrank.Interactions.from_arrays(["a", "b", "b"], [1, 1, 2])
    (tmp_path / "i.csv.zst").write_bytes(zstandard.compress("item,x\n1,2\n2,5\n".encode("utf-16")))
    model = mfrank.ALS(factors=2, iterations=1, random_state=0)
    model.fit(data, item_features=tmp_path / "i.csv.zst")
    assert "".join(lines_of(tmp_path / "i.csv.zst")) == "item,x\n1,2\n2,5\n"


UTF_16 = "a,b\n".encode("utf-16")


@pytest.mark.parametrize(
    ("encoding", "content"),
    [("no-such", b""), (3, b""), ("base64", b""), ("", b""), ("cp1252", UTF_16), ("utf8", UTF_16)],
)
def test_encodings_that_cannot_be_are_refused(
    tmp_path: Path, encoding: str, content: bytes
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    for door in ("whole", "portions"):
        with refuses(ValueError, "encoding"):
            DOORS[door](tmp_path / "a.csv", encoding=encoding)


def test_the_command_line_reads_the_encoding_it_advises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes((TEXT * 1).encode("cp1252"))
    assert main(["info", str(file)]) == 2
    assert "reads 'José,tea,3'; if that is right, pass --encoding cp1252" in capsys.readouterr().err
    assert main(["info", str(file), "--encoding", "cp1252"]) == 0


@pytest.mark.parametrize("encoding", ["utf-16-le", "shift_jis", "gb18030"])
def test_text_is_converted_block_by_block(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mfrank.data.text_files._BLOCK", 7)
    lines = [f"日本{n}\r\n" for n in range(3000)]
    stored = io.BytesIO("".join(lines).encode(encoding) + b"\xff")
    text, found = text_files.Text(stored, "a", encoding), list[str]()
    with refuses(ValueError, "encoding", place="line 3001"):
        for line in text:
            found.append(line)
    assert found == lines


NAMES = st.text("abcäöüßžŠœ€ ñ", min_size=1, max_size=5).filter(lambda name: name.strip() == name)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.dictionaries(st.tuples(NAMES, NAMES), st.integers(1, 99), min_size=2, max_size=9),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252"]),
    pack=st.sampled_from([None, *PACK]),
    sep=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    above=st.sampled_from(["", "# made, by hand\n#\n", "% x\n\n"]),
    by_excel=st.booleans(),
    commas=st.booleans(),
)
@pytest.mark.parametrize("door", ["whole", "portions", "piped", "whole, in small blocks"])
def test_a_table_in_any_dialect_is_the_same_table(
    tmp_path_factory: pytest.TempPathFactory,
    door: str,
    rows: dict[tuple[str, str], int],
    encoding: str,
    pack: str | None,
    sep: str,
    end: str,
    above: str,
    by_excel: bool,
    commas: bool,
) -> None:
    mark = "," if commas and sep != "," else "."
    table = [("user", "item", "rating")]
    table += [(*pair, f"{value}{mark}5") for pair, value in rows.items()]
    head = f"sep={sep}\n" * (by_excel and not above) + above
    text = (head + "".join(f"{sep.join(row)}\n" for row in table)).replace("\n", end)
    stored = text.encode(encoding)
    file = tmp_path_factory.mktemp("dialect") / "a.csv"
    file.write_bytes(PACK[pack](stored) if pack else stored)
    found = DOORS[door](file, encoding=encoding if encoding == "cp1252" else None, ids="text")
    wanted = [(*pair, value + 0.5) for pair, value in rows.items()]
    assert triples(found) == sorted(wanted, key=repr)
