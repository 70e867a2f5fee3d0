"""A stray quote swallows no row in silence, through any door; quoting can be switched off."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterator
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
USUAL = ["a", "b", "xy", "é", " a", "  b", "a b", "a ", ":a", "a:", 'a"b', 'a"', "ab", "\ufeffx"]
QUOTED = [
    '"a"',
    '"a,b"',
    ' "b"',
    '"é ,"',
    '"a""b"',
    '"""a"',
    '"a"""',
    '"a,""b"',
    '"a\nb"',
    '"a,a\nb"',
]
ODD = ["", '""', '"a"b', '"', '"a', "  ", ' ""', '"a" ', "\ufeffa", '"",""']
LINES = st.one_of(
    *[
        st.tuples(
            st.lists(st.sampled_from(fields), min_size=4, max_size=4),
            st.sampled_from(["", "", "", ",", ",,"]),
        )
        for fields in (USUAL, QUOTED, USUAL + QUOTED, USUAL + QUOTED, USUAL * 2 + QUOTED * 2 + ODD)
    ]
)


def layout_of(separator: str, quote: str | None, width: int, has_header: bool) -> layouts.Layout:
    names = [*"abcd"[:width]] if has_header else []
    fields = {"user": 0, "item": width - 1}
    return layouts.Layout(separator, quote, width, names, has_header, 1 + has_header, fields, False)


def in_blocks(text: str, layout: layouts.Layout, size: int) -> tuple[list[object], list[str]]:
    """Line, user and item of each row, and what was told."""
    told, found = list[str](), list[object]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK", size)
        source = text_files.Text(io.BytesIO(text.encode()), "a")
        for each in text_blocks.rows_of(source, layout, lambda level, line: told.append(line)):
            columns = [each.columns[role].texts() for role in layout.fields]
            found += zip(each.lines.tolist(), *columns, strict=True)
    return found, told


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
    layout = layout_of(separator, quote, width, has_header)
    text = separator.join(layout.names) + "\n" * has_header + text

    def outcome(*, at_once: bool) -> object:
        with pytest.MonkeyPatch.context() as patch:
            if not at_once:
                one_by_one(patch)
            try:
                return in_blocks(text, layout, size if at_once else 99)
            except ValueError as error:
                return str(error)

    assert outcome(at_once=True) == outcome(at_once=False)


def by_csv(text: str, layout: layouts.Layout) -> tuple[list[object], int | None, bool]:
    """The rows by the csv module, the first line that must be refused, and whether rows join."""
    text = text.removeprefix("\ufeff")
    text = text.replace("::", "\x1f") if layout.separator == "::" else text
    mark = '"' if layout.quote == "auto" else layout.quote
    reader = csv.reader(
        io.StringIO(text + "end", newline=""),
        delimiter="\x1f" if layout.separator == "::" else layout.separator,
        skipinitialspace=True,
        quoting=csv.QUOTE_NONE if mark is None else csv.QUOTE_MINIMAL,
        quotechar=mark or '"',
    )
    found, line, joins = list[object](), 1, False
    for row in reader:
        begin, line = line, reader.line_num + 1
        if row == ["end"]:
            return found, None, joins
        if begin < layout.first_line or (len(row) < 2 and not "".join(row).strip(" \t")):
            continue
        names = [name.strip().lstrip("\ufeff") for name in row[: layout.width]]
        joins |= line > begin + 1
        no_row = len(row) < layout.width or any(row[layout.width :]) or row[-1][-3:] == "end"
        if no_row or names == layout.names or not (row[0] and row[layout.width - 1]):
            return found, begin, joins
        found.append((begin, row[0], row[layout.width - 1]))
    return found, begin, joins


@settings(max_examples=500, deadline=None)
@given(
    st.lists(LINES, min_size=1, max_size=7), st.sampled_from([*range(1, 30, 4), 99]),
    st.sampled_from(['"', '"', "auto", None, "7", "ü"]), st.integers(2, 4),
    st.sampled_from([",", ",", " ", "::", "ö"]), st.sampled_from(["", "abcd", "wxyz"]),
    st.sampled_from(["\n", "\n", "\r\n", "\r", "\n\n", "\n \n"]),
)  # fmt: skip
def test_a_table_in_blocks_has_the_rows_of_the_csv_module(
    lines: list[tuple[list[str], str]],
    size: int,
    quote: str | None,
    width: int,
    separator: str,
    header: str,
    ending: str,
) -> None:
    layout = layout_of(separator, quote, width, bool(header))
    body = [",".join(fields[:width]) + more + ending for fields, more in lines]
    marks = {",": separator, '"': '"' if quote in (None, "auto") else quote}
    text = "".join(marks.get(one, one) for one in "".join(body))
    text = separator.join(header[:width]) + "\n" * bool(header) + text
    expected, refused, joins = by_csv(text, layout)
    try:
        found, _ = in_blocks(text, layout, size)
    except ValueError as error:
        told = str(error)
        if quote == "auto" and "would be one row" in told:
            assert joins
        else:
            assert f"line {refused}:" in told if expected or refused else "no rows" in told
    else:
        assert refused is None
        assert found == expected


BLANKS = " " * 40


@pytest.mark.parametrize(
    ("separator", "width", "lines"),
    [
        ("::", 3, "u:::v\n"),  # two colons, and one that is text
        ("::", 3, "u::::v\n"),
        ("::", 2, '"u::v\nx"::y\n'),
        (",", 2, 'u "v,x",y\n'),  # no quote at the begin of a field
        (",", 2, f'u{BLANKS}"v,x",y\n'),
        (",", 2, f'u{BLANKS[:33]}"v,x",y\n'),
        (",", 2, f'u,{BLANKS}"v,x"\n'),
        (",", 2, 'u,"v"x\n'),
        (",", 2, '"v"x,u\n'),
        (",", 2, 'u,"vxy\n'),
        (",", 3, '"u"v",x,y\n"x,p","y,q"\n'),
        (",", 2, '"u\nv,x\ny",z\n'),  # lines within a field that look like rows
        (",", 2, '"u\nv,x\nv,x\ny",z\nx,y\n'),
        (",", 2, "\ufeffa,b\n"),  # the header again
        (",", 2, "\ta,b\n"),
        (",", 2, "a\t,b\n"),
        (",", 2, "a ,b\n"),
        (",", 2, f"{BLANKS}a,b\n"),
        (",", 2, "a,b"),
        (",", 2, '"a","b"\n'),
        (",", 2, "a,bc\nab,b\n"),  # and not
        (",", 2, '"a\tb",b\n'),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_odd_lines_are_read_or_refused_as_by_the_csv_module(
    separator: str, width: int, lines: str, size: int
) -> None:
    usual = separator.join("pqr"[:width]) + "\n"
    layout = layout_of(separator, '"', width, has_header=True)
    text = separator.join(layout.names) + f"\n{usual}{lines}".rstrip("\n") + f"\n{usual}"
    expected, refused, _ = by_csv(text, layout)
    if refused is None:
        assert in_blocks(text, layout, size)[0] == expected
    else:
        with refuses(ValueError, None, place=f"line {refused}"):
            in_blocks(text, layout, size)


@pytest.mark.parametrize("more", [0, 1])
def test_a_row_of_many_lines_is_as_long_as_a_line_may_be(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """A quote that is not closed would fill the memory."""
    monkeypatch.setattr(text_blocks, "LONGEST_LINE", 20)
    text = 'a,b\nx,"' + "é" * (16 + more) + '\nz"\nx,y\n'
    layout = layout_of(",", '"', 2, has_header=True)
    if not more:
        assert in_blocks(text, layout, 1)[0] == by_csv(text, layout)[0]
    else:
        with refuses(ValueError, "quote", place="line 2", remedy="quote=None"):
            in_blocks(text, layout, 1)


def test_rows_of_lines_keep_blanks_by_wish_and_say_where_a_quote_is_open() -> None:
    lines = ["a, b\r", "\n", '"x\n', 'y", z']
    assert list(rows(lines, ",", Quotes(",", '"'))) == [(1, ["a", "b"]), (3, ["x\ny", "z"])]
    assert list(rows(['"x\r', 'y",z\r'], ",", Quotes(",", '"'))) == [(1, ["x\ry", "z"])]
    kept = list(rows(lines, ",", Quotes(",", '"'), keep_blanks=True))
    assert kept == [(1, ["a", " b"]), (3, ["x\ny", " z"])]
    with refuses(ValueError, "quote", place="line 2", remedy="quote=None"):
        list(rows(["a,b\n", 'c,"d\n', "e,f\n"], ",", Quotes(",", '"')))
    with refuses(ValueError, "quote", place="line 2", remedy="quote=None"):
        list(rows(["a,b\n", f'c,"{"d" * (csv.field_size_limit() + 1)}'], ",", Quotes(",", '"')))


@pytest.mark.parametrize(
    ("text", "separator", "width", "are_rows"),
    [
        ('1,"a\n2,b"\n', ",", 2, True),
        ('1,"a\n2,b"\n', ",", None, True),
        ('1,"a\n2,b,c"\n', ",", None, False),
        ('"a\nb"\n', ",", 1, False),  # a row of one field has no separator that says so
        ('"a\nb"\n', ",", None, False),
        ('1  "a\n2 b"\n', " ", 2, True),  # several spaces are one separator
        ('1 "a\n2  b c"\n', " ", 2, False),
    ],
)
def test_lines_that_quotes_join_are_rows_if_each_has_all_fields(
    text: str, separator: str, width: int | None, are_rows: bool
) -> None:
    lines = text.splitlines(keepends=True)
    if are_rows:
        with refuses(ValueError, "quote", place="lines 1 to 2"):
            list(rows(lines, separator, Quotes(separator, "auto", width)))
    else:
        assert len(list(rows(lines, separator, Quotes(separator, "auto", width)))) == 1
    assert len(list(rows(lines, separator, Quotes(separator, '"', width)))) == 1


ORDINARY = [
    "1,x y,p\n",
    '"2","p,q","r"\n',
    '  3,"q",  "z"\n',
    '4,5" disk,x\n',
    "5,é,y\r\n",
    "aa,b,c\n",
    "b,a,c\n",
    '6,"a ""b""",y\n',
    '7,x,"y"\r\n',
    "8,x,y,,\n",
    '9,"x","y",\n',
    "\n",
]


@pytest.mark.parametrize("separator", [",", "\t", "|", "::", " ", "ö"])
def test_ordinary_lines_are_read_all_at_once(
    monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    """The csv module, which takes ten times as long, gets only the header and odd lines."""
    lines = ORDINARY
    if len(separator.encode()) > 1:
        lines = [line for line in lines if '"' not in line and ",," not in line]
    if separator == " ":
        one = [line.replace("x y", "x").replace('5" disk', '5"') for line in lines]
        lines = [line.replace(",", ", ") for line in one if ",\n" not in line]
    lines = ["a,b,c\n", *lines]
    text = "".join(lines).replace(",", separator)
    slowly = list[int]()
    row = text_blocks.RowReader.row

    def counting(self: text_blocks.RowReader, line: int, lines: Iterator[str]) -> object:
        slowly.append(line)
        return row(self, line, lines)

    monkeypatch.setattr(text_blocks.RowReader, "row", counting)
    layout = layout_of(separator, '"', 3, True)
    found, _ = in_blocks(text, layout, 1 << 20)
    assert slowly == [1]
    assert (found, None) == by_csv(text, layout)[:2]


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
