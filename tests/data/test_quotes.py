"""A stray quote swallows no row in silence, through any door; quoting can be switched off."""

from __future__ import annotations

import csv
import io
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import DOORS, one_by_one, triples

import mfrank
from mfrank.cli.main import main
from mfrank.data import Quotes, layouts, rows, text_blocks, text_files
from tests.support.errors import refuses

FEW = settings(max_examples=100, deadline=None)
HEAD = "user\titem\trating\n"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "stray",
    [
        '2\t"Al\t5\n2\tfoo"\t3\n',
        '2\t"Al\t5\n2\tfoo\t3\n2\t"\t1\n',
        '"2\tx\t5\n2\ty"\t3\n',
        '2\tx "\t"\n2\tfoo"\t3\n',
        '2\t"Al\t5\n' + "3\tx\t1\n" * 5 + '2\tfoo" x\t3\n',
    ],
)
def test_rows_that_a_quote_would_swallow_are_refused_by_their_lines(
    tmp_path: Path, door: str, stray: str
) -> None:
    file = tmp_path / "a.tsv"
    file.write_text(HEAD + "1\tx\t5\n" + stray + "3\tz\t1\n")
    end = 2 + stray.count("\n")
    with refuses(ValueError, "quote", place=f"lines 3 to {end}", remedy="pass quote=None"):
        DOORS[door](file)


@pytest.mark.parametrize("door", DOORS)
def test_without_quoting_quotes_are_text(
    tmp_path: Path, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.tsv"
    file.write_text(HEAD + '1\t"Al\t5\n2\tfoo"\t3\n3\t"7"\t1\n4\t"a ""b"" c"\t2\n')
    data = DOORS[door](file, quote=None)
    assert triples(data) == [
        (1, '"Al', 5.0),
        (2, 'foo"', 3.0),
        (3, '"7"', 1.0),
        (4, '"a ""b"" c"', 2.0),
    ]
    assert "quote" not in caplog.text


@pytest.mark.parametrize("door", DOORS)
def test_a_row_of_several_lines_is_told_once_with_its_lines(
    tmp_path: Path, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.csv"
    rows = ["1,x,5,good\n", '2,y,4,"good\nvery, very good\n"\n', "3,z,1,bad\n", '4,z,2,"a\nb"\n']
    file.write_text("user,item,rating,review\n" + "".join(rows))
    data = DOORS[door](file)
    assert data.nnz == 4
    (told,) = [record for record in caplog.records if "quotes join" in record.message]
    assert told.levelno == logging.WARNING
    assert "in 2 rows, the first from line 3 to 5" in told.message
    caplog.clear()
    with caplog.at_level(logging.WARNING, "mfrank"):
        assert DOORS[door](file, quote='"').nnz == 4
    assert caplog.text == ""


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("row", ['1,"a\nb",3', '1,"a\nb,c",3', '"1\n2",x,3'])
def test_a_field_of_two_lines_that_are_no_rows_is_read(tmp_path: Path, door: str, row: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"user,item,rating\n{row}\n2,y,4\n")
    assert DOORS[door](file).nnz == 2


@pytest.mark.parametrize("door", DOORS)
def test_quotes_that_are_dropped_are_told(
    tmp_path: Path, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "a.csv"
    file.write_text('user,item\n1,"Weird" Al\n2,5" disk\n3,"a, ""b"""\n')
    data = DOORS[door](file)
    assert data.item_ids.labels.tolist() == ['5" disk', "Weird Al", 'a, "b"']
    (told,) = [record for record in caplog.records if "closing quote" in record.message]
    assert "in 1 row, the first in line 2" in told.message


@pytest.mark.parametrize("door", DOORS)
def test_another_character_may_quote(tmp_path: Path, door: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text("user,item,rating\n'1','a,b',5\n2,\"y,4\n")
    assert triples(DOORS[door](file, quote="'")) == [(1, "a,b", 5.0), (2, '"y', 4.0)]


@pytest.mark.parametrize("quote", ["", "ab", "\n", ",", 7, False])
def test_what_cannot_quote_is_refused_before_the_file_is_read(
    tmp_path: Path, quote: object
) -> None:
    with refuses(ValueError, "quote"):
        mfrank.Interactions.from_file(tmp_path / "none.csv", sep=",", quote=quote)  # type: ignore[arg-type]
    with pytest.raises((ValueError, FileNotFoundError)):
        mfrank.Interactions.ingest([tmp_path / "none.csv"], tmp_path / "x", quote=quote)  # type: ignore[arg-type]


def test_the_command_line_switches_quoting_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / "a.tsv", str(tmp_path / "data")
    file.write_text(HEAD + '1\t"Al\t5\n2\tfoo"\t3\n')
    assert main(["ingest", str(file), "--folder", folder]) == 2
    assert "--quote none" in capsys.readouterr().err
    assert main(["ingest", str(file), "--folder", folder, "--quote", "none"]) == 0
    assert mfrank.Interactions.open(folder).item_ids.labels.tolist() == ['"Al', 'foo"']


TEXTS = st.lists(
    st.sampled_from(
        ['"', '"', '""', ",", ",", "\n", "\n", "\r\n", " ", "a", "7", "é", "b", "::", "\r", "\t"]
    ),
    max_size=30,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(
    TEXTS, st.sampled_from([*range(1, 9), 99]), st.sampled_from(['"', "auto", None, "7"]),
    st.integers(2, 4), st.sampled_from([",", " ", "::", "é"]), st.booleans(),
)  # fmt: skip
def test_a_text_in_blocks_has_the_rows_of_the_csv_module(
    text: str, size: int, quote: str | None, width: int, separator: str, has_header: bool
) -> None:
    """Fields, lines, faults and what is told of quotes, wherever blocks end."""
    text = text.replace(",", separator) if separator != "é" else text.replace("é", "x")
    names = [*"abcd"[:width]] if has_header else []
    text = separator.join(names) + "\n" * has_header + text
    fields = {"user": 0, "item": width - 1}
    layout = layouts.Layout(
        separator, quote, width, names, has_header, 1 + has_header, fields, False
    )

    def outcome(*, at_once: bool) -> object:
        told, found = list[str](), list[object]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_files, "_BLOCK", size if at_once else 99)
            if not at_once:
                one_by_one(patch)
            source = text_files.Text(io.BytesIO(text.encode()), "a")
            try:
                for rows in text_blocks.rows_of(
                    source, layout, lambda level, line: told.append(line)
                ):
                    columns = [rows.columns[role].texts() for role in fields]
                    found += zip(rows.lines.tolist(), *columns, strict=True)
            except ValueError as error:
                return str(error)
        return found, told

    assert outcome(at_once=True) == outcome(at_once=False)


@FEW
@given(st.lists(st.text(st.sampled_from('ab,"\n'), min_size=1, max_size=6), min_size=2, max_size=6))
def test_no_row_is_lost_in_silence(
    tmp_path_factory: pytest.TempPathFactory, fields: list[str]
) -> None:
    """Fields written without any quoting: all rows are read, or something is said."""
    fields = [field.replace("\n", "").replace(",", "") or "x" for field in fields]
    file = tmp_path_factory.mktemp("stray") / "a.csv"
    file.write_text("user,item,value\n" + "".join(f"{n},{f},1\n" for n, f in enumerate(fields)))
    for door in DOORS.values():
        records = list[str]()
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record, records=records: records.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("mfrank").addHandler(handler)
        try:
            n_users = door(file).n_users
        except ValueError:
            continue
        finally:
            logging.getLogger("mfrank").removeHandler(handler)
        assert n_users == len(fields) or records


@FEW
@given(
    st.lists(
        st.lists(st.text(st.sampled_from('ab ,"\n\r'), max_size=4), min_size=3, max_size=3),
        min_size=1,
    )
)
def test_fields_that_are_quoted_as_they_should_be_are_nothing_to_tell(
    table: list[list[str]],
) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    quotes, told = Quotes(",", '"'), list[str]()
    text.seek(0)
    list(rows(text, ",", quotes))
    quotes.told(lambda level, line: told.append(line))
    assert not any("closing quote" in line for line in told)
