"""Lines of text files and their quotes, without a reader around them."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import logging
import lzma
import re
from pathlib import Path
from typing import Any

import pytest
import zstandard
from test_text_faults import FAULTS

import mfrank
from mfrank.data import AS_USUAL, LONGEST_LINE, Quotes, lines_of, rows, text_files, write_table
from mfrank.errors import plain
from tests.support.errors import refuses

PROGRAMS = {
    ".gz": ("gzip", gzip.compress),
    ".bz2": ("bzip2", bz2.compress),
    ".xz": ("xz", lzma.compress),
    ".zst": ("zstd", zstandard.compress),
}
refuse_elsewhere, local_file = text_files.refuse_elsewhere, text_files.local_file


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_name_the_file_and_the_remedy(tmp_path: Path, fault: str) -> None:
    name, content, message = FAULTS[fault]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"^{tmp_path}/{name}: .*{message}"):
        list(lines_of(tmp_path / name))


def test_lines_are_read_as_they_are(tmp_path: Path) -> None:
    text = "a,ä\r\nb\n\n\x00c\n" + "x" * (LONGEST_LINE - 1) + "\nlast"
    (tmp_path / "a.csv").write_bytes(("\ufeff" + text).encode())
    (tmp_path / "b.CSV.GZ").write_bytes(gzip.compress(text.encode()))
    for name in ("a.csv", "b.CSV.GZ"):
        assert "".join(lines_of(tmp_path / name)) == text
        assert len(list(lines_of(str(tmp_path / name)))) == 6
    (tmp_path / "c.csv").write_bytes(b"x" * LONGEST_LINE + b"\n")
    with refuses(ValueError, place="c.csv, line 1", remedy="is it a text file"):
        list(lines_of(tmp_path / "c.csv"))
    (tmp_path / "empty.csv").touch()
    assert list(lines_of(tmp_path / "empty.csv")) == []


@pytest.mark.parametrize(
    ("content", "command"),
    [
        (
            "é".encode("cp1252"),
            "if that is right, convert it: iconv -f CP1252 -t UTF-8 {0} > new.csv",
        ),
        (b"a\n" * 9 + b"b\xe9c", "line 10: byte 0xe9 is not UTF-8; in cp1252 the line reads 'béc'"),
        (b"ok\n\xff\n", "line 2: byte 0xff is not UTF-8"),
        (b"x" * 99 + b"\xe9" + b"y" * 99, "reads '..." + "x" * 30 + "é" + "y" * 29 + "'"),
        (b"\x81", "name its encoding, or, convert it: iconv -f LATIN-1"),
    ],
)
def test_the_remedy_is_a_command(tmp_path: Path, content: bytes, command: str) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(command.format(file))):
        list(lines_of(file))
    if "iconv" not in command:
        return
    for suffix, (program, pack) in PROGRAMS.items():
        packed = tmp_path / f"a.csv{suffix}"
        packed.write_bytes(pack(content))
        remedy = re.escape(f"<({program} -dc {packed}) > new.csv")
        with refuses(ValueError, place=f"a.csv{suffix}, line 1", remedy=remedy):
            list(lines_of(packed))


@pytest.mark.parametrize("suffix", PROGRAMS)
def test_packed_text_is_read_written_and_refused_if_damaged(suffix: str, tmp_path: Path) -> None:
    users, items = [f"u{n % 97}" for n in range(4_000)], [f"i{n % 89}" for n in range(4_000)]
    write_table(tmp_path / "plain.csv", {"user": users, "item": items})
    write_table(tmp_path / f"packed.csv{suffix}", {"user": users, "item": items})
    content = (tmp_path / f"packed.csv{suffix}").read_bytes()
    assert content[:3] == PROGRAMS[suffix][1](b"a")[:3]
    plain = mfrank.Interactions.from_file(tmp_path / "plain.csv")
    packed = mfrank.Interactions.from_file(tmp_path / f"packed.csv{suffix}")
    assert (plain.user_items != packed.user_items).nnz == 0
    disk = mfrank.Interactions.ingest([tmp_path / f"packed.csv{suffix}"], tmp_path / "folder")
    assert (plain.user_items != disk.user_items).nnz == 0
    (tmp_path / f"short.csv{suffix}").write_bytes(content[: len(content) // 2])
    with refuses(ValueError, remedy="copy or download it again"):
        mfrank.Interactions.from_file(tmp_path / f"short.csv{suffix}")
    (tmp_path / f"text.csv{suffix}").write_bytes(b"\x00\xff" * 99)
    with refuses(ValueError, place=f"text.csv{suffix}", remedy=f"name it without {suffix}"):
        mfrank.Interactions.from_file(tmp_path / f"text.csv{suffix}")


def test_a_third_of_zeros_is_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\0ab\n")
    assert list(lines_of(tmp_path / "a.txt")) == ["\0ab\n"]
    (tmp_path / "a.txt").write_bytes(b"\0ab")  # a third
    assert list(lines_of(tmp_path / "a.txt")) == ["\0ab"]
    (tmp_path / "a.txt").write_bytes(b"abc\n\0\0\0\n")
    assert len(list(lines_of(tmp_path / "a.txt"))) == 2  # only the first line tells
    (tmp_path / "a.txt").write_bytes(b"\0\0b\n")
    with refuses(ValueError, place="a.txt, line 1", remedy="convert it"):
        list(lines_of(tmp_path / "a.txt"))


def test_an_error_of_the_system_stays_one() -> None:
    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            raise OSError(5, "disk")

    with pytest.raises(OSError, match="disk"):
        next(iter(text_files.Text(io.BufferedReader(Failing()), "a")))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("end", ["", "\n", "\r", "\r\n", "\n\r"])
def test_blocks_are_whole_lines_and_a_fault_comes_after_those_before(
    size: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_BLOCK", size)
    good = "a,é\r\nbc\n\nd\re\r\r\n" + "long " * 9 + end
    blocks = list(text_files.Text(io.BytesIO(("\ufeff" + good).encode()), "a").blocks())
    assert b"".join(blocks).decode() == good
    for block, after in itertools.pairwise(blocks):
        assert block.endswith((b"\n", b"\r"))
        assert not (block.endswith(b"\r") and after.startswith(b"\n"))
    if end:
        damaged = iter(text_files.Text(io.BytesIO(good.encode() + b"x\xff\nlater\n"), "a"))
        n_lines = len(list(io.StringIO(good, newline="")))
        assert "".join(next(damaged) for _ in range(n_lines)) == good
        with refuses(ValueError, place=f"line {n_lines + 1}", remedy="iconv -f CP1252"):
            next(damaged)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 19, 1 << 20])
def test_a_line_is_as_long_as_its_characters(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line breaks are among them; characters of several bytes may be cut by a block's end."""
    monkeypatch.setattr(text_files, "_BLOCK", size)
    monkeypatch.setattr(text_files, "LONGEST_LINE", 20)
    for line in ("x" * 19, "é" * 19, "\U0001f600" * 19):
        text = "a\rb\r\nc\n" + f"{line}\nabc\r{line}\n{line}\r\n"
        for good in (text[:-2], f"\n{line}\n"):
            assert "".join(text_files.Text(io.BytesIO(good.encode()), "a")) == good
        for long, number in ((f"a\rb\r\nc\n{line}{line}", 4), (f"{text}{line}xy", 8)):
            with refuses(ValueError, place=f"line {number}", remedy="is it a text file"):
                list(text_files.Text(io.BytesIO(long.encode()), "a"))


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_are_estimated_by_the_first_ones(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def estimated(suffix: str, lines: str) -> int:
        file = tmp_path / f"a.csv{suffix}"
        file.write_bytes((PROGRAMS[suffix][1] if suffix else bytes)(lines.encode()))
        return text_files.estimated_lines(file)

    for suffix in ("", *PROGRAMS):
        assert estimated(suffix, f"a{end}b{end}") == 2
    many = "".join(f"{n * 7919 % 1_000_003:07}{end}" for n in range(60_000))
    monkeypatch.setattr(text_files, "_BLOCK", 100_000)
    assert estimated("", many) == pytest.approx(60_000, rel=1e-3)
    assert estimated(".gz", many) == pytest.approx(60_000, rel=0.1)
    assert estimated(".gz", many) != 60_000  # not all is read
    assert estimated("", "") == 0


def test_rubbish_behind_a_packed_text_is_damage(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(b"a\n") + b"rubbish")
    with refuses(ValueError, place="a.csv.gz, line 2", remedy="copy or download it again"):
        list(lines_of(file))


@pytest.mark.parametrize("url", ["s3://b/a.csv", "https://a.org/a", "abc+d-e.f://x"])
def test_urls_are_no_files(url: str, tmp_path: Path) -> None:
    for refuse in (refuse_elsewhere, local_file):
        with refuses(ValueError, remedy="download it first"):
            refuse(url)
    with refuses(ValueError, place="a.csv", remedy="pass the path without file"):
        refuse_elsewhere("FILE:///tmp/a.csv")
    with refuses(ValueError, remedy="pass a file"):
        refuse_elsewhere(tmp_path)
    refuse_elsewhere(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match=r"^there is no file .*none\.csv"):
        local_file(tmp_path / "none.csv")
    (tmp_path / "a.csv").touch()
    assert local_file(str(tmp_path / "a.csv")) == tmp_path / "a.csv"


def test_a_file_whose_name_looks_like_a_url_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "a.csv").write_text("x\n")
    assert list(lines_of("s3:/a.csv")) == ["x\n"]


# quotes


def outcome(text: str, **how: Any) -> list[tuple[int, str]]:
    """What quotes in a text tell."""
    said = list[tuple[int, str]]()
    separator = how.pop("separator", ",")
    quotes = Quotes(separator, how.pop("quote", AS_USUAL), **how)
    list(rows(io.StringIO(text, newline=""), separator, quotes))
    quotes.told(lambda level, line: said.append((level, line)))
    return said


LINES = "1 row, the first from line {} to {}"
JOINED = "quotes join several lines to one in {}; pass quote=None if quotes are part of the text"
LOOSE = "text follows a closing quote in {}, and the quotes around what precedes it are dropped"


@pytest.mark.parametrize(
    ("text", "how", "told"),
    [
        ('a,b\n1,"x\ny",2\n', {"width": 3}, [JOINED.format(LINES.format(2, 3))]),
        ('a,"b\n\nc"\nd\n"e\nf"\n', {}, [JOINED.format("2 rows, the first from line 1 to 3")]),
        ('a\nb\n"c"d\n"e"f\n', {}, [LOOSE.format("2 rows, the first in line 3")]),
        ('"a\nb"c\n', {},
         [JOINED.format(LINES.format(1, 2)), LOOSE.format("1 row, the first in line 1")]),
        ('a"b,c"\n"d"\n"e,f"\n"g""h"\n', {}, []),
        ('a b\n"c d" e\n', {"separator": " "}, []),
        ("'a\nb'\n", {"quote": "'"}, [JOINED.format(LINES.format(1, 2))]),
        ('"a\nb"\n', {"quote": None}, []),
        ('1::"a\nb"::2\n', {"separator": "::", "width": 3}, [JOINED.format(LINES.format(1, 2))]),
        ('"a\n"" b\nc"\n"d"e\n', {},
         [JOINED.format(LINES.format(1, 3)), LOOSE.format("1 row, the first in line 4")]),
        ("", {}, []),
        ('"a"b', {}, [LOOSE.format("1 row, the first in line 1")]),
    ],
)  # fmt: skip
def test_what_quotes_do_is_told_with_its_lines(
    text: str, how: dict[str, Any], told: list[str]
) -> None:
    said = outcome(text, **how)
    texts = [plain(line) for _, line in said]
    assert [line[: len(own)] for line, own in zip(texts, told, strict=True)] == told
    level = logging.WARNING if how.get("quote", AS_USUAL) == AS_USUAL else logging.INFO
    assert all(own == level for own, _ in said)


@pytest.mark.parametrize(
    ("text", "how", "fault"),
    [
        (
            'a,b\n1,"x\n2,y"\n',
            {},
            {"argument": "quote", "remedy": "pass quote=None"},
        ),
        ('a,b\n1,"x\n2,y"\n', {"width": 2}, {"argument": "quote", "remedy": "pass quote=None"}),
        (
            'a b\n1 "x\n2 y"\n',
            {"separator": " "},
            {"argument": "quote", "remedy": "pass quote=None"},
        ),
        (
            'a b\n1   "x\n2 y"\n',
            {"separator": " "},
            {"argument": "quote", "remedy": "pass quote=None"},
        ),
        ('a,b\n1,"x\n', {}, {"argument": "quote", "place": "line 2", "remedy": "pass quote=None"}),
        (
            'a,b\n1,"x\n2,y"\n',
            {"remedy": "write it so"},
            {"place": "lines 2 to 3", "remedy": "write it so"},
        ),
    ],
)
def test_rows_that_quotes_swallow_are_refused(
    text: str, how: dict[str, Any], fault: dict[str, str]
) -> None:
    with refuses(ValueError, **fault):
        outcome(text, **how)
    if "width" in how:
        assert outcome(text, width=3)  # no rows of three
        assert outcome(text, quote='"', width=2)  # a caller who says that quotes enclose
