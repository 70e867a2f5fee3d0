"""Damaged, wrongly encoded and wrongly named files: the file, the line, the cause, the remedy."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from reading import DOORS

import mfrank
from mfrank.cli.main import main
from mfrank.data import LONGEST_LINE
from tests.support.errors import refuses

BODY = "user,item,rating\n" + "".join(f"{n},{n % 7},{n % 5 + 1}\n" for n in range(1_000))
PACKED = gzip.compress(BODY.encode())
SEVEN = "José,3,3\n"
CONVERTED = "if that is right, (?:pass encoding='cp1252'|convert it: iconv -f CP1252)"
"""Lines of text alone have no argument for it."""

FAULTS: dict[str, tuple[str, bytes, str]] = {
    "cut gzip": ("a.csv.gz", PACKED[: len(PACKED) // 2], r"line \d+: .*ends early.*again"),
    "damaged gzip": (
        "a.csv.gz",
        PACKED[:12] + b"\xff" * 50 + PACKED[62:],
        r"line \d+: .*is damaged.*again",
    ),
    "wrong checksum": ("a.csv.gz", PACKED[:-8] + b"12345678", r"line \d+: .*is damaged.*again"),
    "no gzip": ("a.csv.gz", b"\x00\xff" * 99, r"not compressed by gzip.*without \.gz"),
    "no zip": ("a.csv", b"PK\x03\x04" + b"\xff" * 99, "no zip file, or a damaged one.*again"),
    "an empty zip": ("a.csv", b"PK\x05\x06" + b"\0" * 18, "one file, and this has none.*unpack"),
    "parquet under another name": (
        "a.txt",
        b"PAR1" + b"\xff" * 99,
        r"as Parquet: name it \.parquet",
    ),
    "cut UTF-16": (
        "a.csv",
        BODY.encode("utf-16")[:-1],
        "line 1001: byte 0x0a is not utf-16-le",
    ),
    "zeros": ("a.csv", b"a\0\0\0\0\0b\n" * 9, "line 1: it has zeros.*convert it to UTF-8"),
    "cp1252": (
        "a.csv",
        (BODY + SEVEN + BODY[17:]).encode("cp1252"),
        f"line 1002: byte 0xe9 is not UTF-8; in cp1252 the line reads 'José,3,3'; {CONVERTED}",
    ),
    "cp1252 in gzip": (
        "a.csv.gz",
        gzip.compress((BODY + SEVEN).encode("cp1252")),
        f"line 1002: byte 0xe9 is not UTF-8.*{CONVERTED}",
    ),
    "neither": ("a.csv", b"a,b\n\x81,2\n", "line 2: byte 0x81 is not UTF-8; name its encoding"),
    "a long line": (
        "a.csv",
        BODY[:40].encode() + b"x" * (LONGEST_LINE + 9),
        "line 5: longer than 4,194,304 characters",
    ),
    "one long line": ("a.csv", b"x," * LONGEST_LINE, "line 1: longer than 4,194,304 characters"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_text_are_named(tmp_path: Path, door: str, fault: str) -> None:
    name, content, message = FAULTS[fault]
    if "piped" in door and fault == "no gzip":
        pytest.skip("a stream has no name that says that it is packed")
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"(?:{name}|^-): .*{message}"):
        DOORS[door](file)


@pytest.mark.parametrize("door", ["whole", "portions", "whole, one by one", "portions, one by one"])
def test_a_line_of_gigabytes_takes_no_memory(tmp_path: Path, door: str) -> None:
    file = tmp_path / "a.csv.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(b"user,item\n1,2\n3,4\n")
        for _ in range(64):
            packed.write(b"0" * (1 << 20))
    assert file.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        with refuses(ValueError, place="a.csv.gz, line 4", remedy="is it a text file"):
            DOORS[door](file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20  # of 64 MiB


def readers(path: Path) -> dict[str, Callable[[], object]]:
    """Everything else that reads text, by what is wrong with it."""
    data = mfrank.Interactions.from_arrays([1, 2, 2], [1, 1, 2])
    model = mfrank.ALS(factors=2, iterations=1, random_state=0)
    return {
        "item_features": lambda: model.fit(data, item_features=path),
        "user_features": lambda: model.fit(data, user_features=path),
        "judged": lambda: mfrank.Judged.from_svmlight(path),
    }


@pytest.mark.parametrize("reader", ["item_features", "user_features", "judged"])
@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"x" * (LONGEST_LINE + 9), "is it a text file"),
        ("item,user,é\n1,1,2\n".encode("latin-1"), "iconv -f CP1252"),
        (b"\0\0i,\0\n1,2\n", "convert it to UTF-8"),
    ],
)
def test_other_readers_of_text_name_the_fault(
    tmp_path: Path, reader: str, content: bytes, remedy: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    with refuses(ValueError, None, place="a.csv, line 1", remedy=remedy):
        readers(file)[reader]()


@pytest.mark.parametrize("side", ["item", "user"])
def test_a_stray_quote_swallows_no_features(tmp_path: Path, side: str) -> None:
    file = tmp_path / "a.tsv"
    file.write_text(f'{side}\tname\n1\t"Al\n2\tb"\n')
    with refuses(ValueError, f"{side}_features"):
        readers(file)[f"{side}_features"]()


@pytest.mark.parametrize("command", ["users", "categories"])
def test_the_command_line_names_the_fault(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = mfrank.Interactions.from_arrays([1, 2, 2], [1, 1, 2])
    model, file = str(tmp_path / "model"), tmp_path / "a.csv"
    mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data).save(model)
    file.write_bytes(b"1\n" + b"x" * (LONGEST_LINE + 9))
    assert main(["recommend", "--model", model, f"--{command}", str(file)]) == 2
    assert "a.csv: line 2: longer than" in capsys.readouterr().err
    assert main(["recommend", "--model", model, f"--{command}", "s3://bucket/a.csv"]) == 2
    assert "s3://bucket/a.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    ["s3://b/a.csv", "s3://b/a", "gs://b/a.parquet", "https://a.org/a.csv.gz", "hdfs://a/b.tsv"],
)
def test_urls_of_other_tables_are_refused_with_what_to_do(url: str) -> None:
    for name, read in readers(url).items():  # type: ignore[arg-type]
        if name.endswith("_features"):  # which are read from elsewhere
            continue
        with refuses(ValueError, None, place=url, remedy="download it"):
            read()


@pytest.mark.parametrize("door", ["whole", "portions"])
@pytest.mark.parametrize("damage", ["cut", "footer", "pages", "empty", "text"])
def test_damaged_parquet_is_named(tmp_path: Path, door: str, damage: str) -> None:
    pandas = pytest.importorskip("pandas", reason="the extra pandas is not installed")
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    file = tmp_path / "a.parquet"
    numbers = np.random.default_rng(0).integers(0, 10**9, 5000)
    pandas.DataFrame({"user": numbers, "item": numbers[::-1]}).to_parquet(file)
    whole = file.read_bytes()
    file.write_bytes(
        {
            "cut": whole[:-100],
            "footer": whole[:-300] + b"\x77" * 100 + whole[-200:],
            "pages": whole[:200] + b"\xff" * 3000 + whole[3200:],
            "empty": b"",
            "text": b"user,item\n1,2\n",
        }[damage]
    )
    with refuses(ValueError, remedy="copy or write it again"):
        DOORS[door](file)
    if damage != "pages":
        for read in list(readers(file).values())[:2]:
            with refuses(ValueError, remedy="copy or write it again"):
                read()


def test_a_dry_run_names_a_packed_file_that_is_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv.gz"
    rows = "".join(f"{n},{n % 7}\n" for n in range(20_000))  # more than are read to check them
    file.write_bytes(gzip.compress(f"user,item\n{rows}".encode())[:-400])
    assert main(["ingest", str(file), "--folder", str(tmp_path / "x"), "--dry-run"]) == 2
    assert re.search(r"a\.csv\.gz: line \d+: the compressed file ends", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("recommend --model m --user -abc", "--user=-abc"),
        ("recommend --model m --user --abc", "--user=--abc"),
        ("recommend --model m --boost -tea=0.5", "--boost=-tea=0.5"),
        ("similar-items --model m -abc", "-- -abc"),
        ("similar-items --model m tea -abc", "-- -abc"),
    ],
)
def test_a_word_that_begins_with_a_dash_gets_its_remedy(
    words: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert f"write {remedy} " in capsys.readouterr().err


def test_an_id_that_begins_with_a_dash_is_taken_as_the_remedy_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = mfrank.Interactions.from_arrays(["-abc", "b", "b"], ["-x", "-x", "y"])
    model = str(tmp_path / "model")
    mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data).save(model)
    recommend = ["recommend", "--model", model, "--user=-abc", "--json", "-"]
    assert main(recommend) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["similar-items", "--model", model, "--", "-x"]) == 0
