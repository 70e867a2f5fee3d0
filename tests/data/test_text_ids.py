"""Ids of text files keep what they were written as, and are the same at once and one by one."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import one_by_one

import mfrank
from mfrank.cli.main import main
from mfrank.data import Dialect, Interactions, text_files
from mfrank.data import tables as table_files
from mfrank.data import tables as table_writer
from tests.support.errors import refuses

FEW = settings(max_examples=60, deadline=None)
READERS = ["at once", "one by one"]
NASTY = [
    *["7", "-7", "0", "12", str(2**63 - 1), str(-(2**63))],  # spelled as an int64 is printed
    *[
        "007",
        "0001",
        "+7",
        "-0",
        "1.0",
        "1e3",
        "1e400",
        "1_000",
        "0x10",
        " 7",
        "7 ",
        "7\t",
        "-",
        "٣",
    ],
    *[str(2**63), str(-(2**63) - 1), str(2**64 - 1), "9" * 30, "0" * 30 + "1"],
    *["NA", "nan", "NaN", "inf", "-Infinity", "None", "null", "True", "false", "", " "],
    *[
        '"',
        '"7"',
        "a,b",
        "a\tb",
        "a\nb",
        "7\n",
        "\r\n7",
        "é",
        "x y",
        "'",
        "#",
        "a\0b",
        "a\0c",
        "\ufeff7",
    ],
]
FIELDS = st.one_of(
    st.sampled_from(NASTY),
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(repr),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)


@st.composite
def columns(draw, fields=FIELDS):
    """Two columns of few different fields each, so that many have only one kind."""
    kinds = [draw(st.lists(fields, min_size=1, max_size=3)) for _ in range(2)]
    rows = st.tuples(*map(st.sampled_from, kinds))
    return list(zip(*draw(st.lists(rows, min_size=1, max_size=6)), strict=True))


def table(users, items, mark, quoting=csv.QUOTE_MINIMAL):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=mark, quoting=quoting, lineterminator="\n")
    writer.writerow(["user", "item"])
    writer.writerows(zip(users, items, strict=True))
    return text.getvalue()


def is_number(field):
    """Whether Python would print an int64 like this."""
    try:
        return str(int(field)) == field and -(2**63) <= int(field) < 2**63
    except ValueError:
        return False


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Function of a text, a reader and ``ids``: role -> list of values, or the error's text."""
    folder = tmp_path_factory.mktemp("files")

    def columns_of(text, reader, ids="auto", suffix=".csv", quote="auto"):
        file = (folder / "a").with_suffix(suffix)
        file.write_text(text, encoding="utf-8", newline="")
        with pytest.MonkeyPatch.context() as patch:
            if reader == "one by one":
                one_by_one(patch)
            try:
                found = table_files.read_columns(file, {}, ids, Dialect(quote=quote))
            except ValueError as error:
                return str(error)
        assert {values.dtype for values in found.values()} <= {np.dtype("int64"), np.dtype(object)}
        return {role: values.tolist() for role, values in found.items()}

    return columns_of


@pytest.mark.parametrize("reader", READERS)
@FEW
@given(
    columns(FIELDS.filter(bool)),
    st.sampled_from([(",", ".csv"), ("\t", ".tsv"), (" ", ".txt")]),
    st.sampled_from(["auto", "text"]),
)
def test_ids_are_as_written_or_numbers_that_lose_nothing(read, reader, written, how, ids):
    mark, suffix = how
    found = read(table(*written, mark, csv.QUOTE_ALL), reader, ids, suffix, '"')
    for role, fields in zip(("user", "item"), written, strict=True):
        numbers = ids == "auto" and all(map(is_number, fields))
        assert found[role] == [int(field) if numbers else field for field in fields]


@FEW
@given(
    columns(), st.sampled_from([",", "\t", " "]), st.booleans(), st.sampled_from(["auto", "text"])
)
def test_both_readers_read_the_same_or_refuse_alike(read, written, mark, quoted, ids):
    """Also fields that are no fields: quotes, separators and line breaks wherever they are."""
    lines = ["user,item".replace(",", mark), *map(mark.join, zip(*written, strict=True))]
    text = table(*written, mark) if quoted else "\n".join(lines) + "\n"
    suffix = {",": ".csv", "\t": ".tsv", " ": ".txt"}[mark]
    assert read(text, READERS[0], ids, suffix) == read(text, READERS[1], ids, suffix)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user,item\na\0b,1\na\0c,2\n", {"user": ["a\0b", "a\0c"], "item": [1, 2]}),
        ("\ufeff\ufeff1,2\n", {"user": ["\ufeff1"], "item": [2]}),
        ("user,item\r1,2\r\r3,4", {"user": [1, 3], "item": [2, 4]}),
        ("user,item\r\n1,2\r\n \t\r\n3,4", {"user": [1, 3], "item": [2, 4]}),
        ('user,item\n \t\r,"a"b,7\t', "line 3: 3 fields, the first row has 2"),
        (f"user,item\n{2**63},1\n,2\n", "line 3: the user is missing"),
        ("user,item,title\n1,2,x\n3,4\n", "line 3: 2 fields, the first row has 3"),
        ("user,item,title\n1,2,\n3,4,\n", {"user": [1, 3], "item": [2, 4]}),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_odd_texts_are_read_as_by_the_csv_module(read, reader, text, expected):
    found = read(text, reader)
    assert found == expected if isinstance(expected, dict) else expected in found


@pytest.mark.parametrize("reader", READERS)
@FEW
@given(columns(FIELDS.filter(bool)), st.randoms())
def test_the_order_of_rows_changes_no_id(read, reader, written, random):
    order = list(range(len(written[0])))
    random.shuffle(order)
    shuffled = [[fields[row] for row in order] for fields in written]
    found, moved = (
        read(table(*fields, ",", csv.QUOTE_ALL), reader, quote='"')
        for fields in (written, shuffled)
    )
    assert moved == {role: [values[row] for row in order] for role, values in found.items()}


@pytest.mark.parametrize("at", range(-1, 8))
@pytest.mark.parametrize("field", ["007", "-07", "-0", "+7", "10"])
def test_a_field_is_seen_wherever_the_file_is_cut(read, field, at, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK", 2**10)
    head, rest = "user,item\n", f"5,5\n{field},5\n5,5\n"
    text = head + "\n" * (2**10 - len(head) - at) + rest
    number = int(field) if is_number(field) else None
    expected = ["5", field, "5"] if number is None else [5, number, 5]
    assert read(text, READERS[0]) == {"user": expected, "item": [5, 5, 5]}


@pytest.mark.parametrize("reader", READERS)
def test_ids_that_differ_in_zeros_stay_two(read, reader):
    found = read("user,isbn\n0001,0195153448\n1,0002005018\n", reader)
    assert found == {"user": ["0001", "1"], "item": ["0195153448", "0002005018"]}


@pytest.mark.parametrize("reader", READERS)
def test_numbers_after_a_separator_and_spaces_are_numbers(read, reader):
    assert read("user, item\n 1,  -2\n3, 40\n", reader) == {"user": [1, 3], "item": [-2, 40]}


def test_ids_of_a_parquet_file_are_of_their_own_type_or_written_out(tmp_path):
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    file = tmp_path / "a.parquet"
    table_writer.write_table(file, {"user": [7, 12], "item": ["007", "7"]})
    found = table_files.read_columns(file, {}), table_files.read_columns(file, {}, "text")
    assert [columns["user"].tolist() for columns in found] == [[7, 12], ["7", "12"]]
    assert [columns["item"].tolist() for columns in found] == [["007", "7"]] * 2


def test_how_ids_are_read_is_checked_before_the_file_is(tmp_path):
    with refuses(ValueError, "ids"):
        Interactions.from_file(tmp_path / "nowhere.csv", ids="str")


@pytest.mark.parametrize("labels", [[7, 12], ["7", "12"], ["007", "12", "7"]])
@pytest.mark.parametrize("give", [list, mfrank.Interactions.from_arrays])
def test_a_file_speaks_of_known_ids_as_they_are(tmp_path, labels, give):
    """Only text files, which do not tell the number 7 from the text."""
    file = tmp_path / "a.csv"
    file.write_text("user,item\n12,12\n7,7\n")
    known = labels if give is list else give(labels, labels).user_ids
    made = Interactions.from_file(file, user_ids=known, item_ids=known)
    assert made.user_ids.labels.tolist() == (labels if give is list else sorted(labels))
    assert sorted(map(str, made.user_ids.labels[made.entry_users])) == ["12", "7"]
    file.write_text("user,item\n007,12\n7,7\n")
    if "007" not in labels:
        with refuses(ValueError, "users"):
            Interactions.from_file(file, user_ids=known, item_ids=known)


def test_known_ids_are_checked_by_their_name(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("user,item\n12,12\n")
    with refuses(ValueError, "items"):
        Interactions.from_file(file, item_ids=[12, 12])


@pytest.mark.parametrize("command", ["fit", "descend", "pagerank --untuned"])
def test_the_command_line_keeps_text(tmp_path, command, capsys):
    """A model of text ids meets files and words whose ids look like numbers."""
    train, test, model = (str(tmp_path / name) for name in ("train.csv", "test.csv", "model"))
    rows = [
        f"{user},{item},{user + item}" for user in range(3) for item in range(4) if user != item
    ]
    (tmp_path / "train.csv").write_text("\n".join(["user,item,time", *rows]) + "\n")
    (tmp_path / "test.csv").write_text("user,item,time\n1,1,1\n2,2,1\n02,2,1\n")
    assert main([*command.split(), train, "--model", model, "--ids", "text"]) == 0
    assert mfrank.load(model).user_ids.labels.tolist() == ["0", "1", "2"]
    assert main(["evaluate", "--model", model, "--test", test, "--metric", "recall@4"]) == 0
    told = capsys.readouterr()
    assert "1 test interaction left out" in told.err
    assert "Recall@4  1.00000" in told.out
    assert main(["recommend", "--model", model, "--user", "2", "--n", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("2,1,2,")
    assert main(["recommend", "--model", model, "--user", "02"]) == 2


def test_numbers_of_a_model_are_not_met_by_other_spellings(tmp_path, capsys):
    train, model = str(tmp_path / "train.csv"), str(tmp_path / "model")
    (tmp_path / "train.csv").write_text("user,item\n7,1\n7,2\n8,2\n8,3\n")
    (tmp_path / "test.csv").write_text("user,item\n007,3\n7,3\n+8,1\n")
    assert main(["fit", train, "--model", model, "--factors", "2"]) == 0
    assert main(["evaluate", "--model", model, "--test", str(tmp_path / "test.csv")]) == 0
    assert "2 test interactions left out" in capsys.readouterr().err
    assert main(["recommend", "--model", model, "--user", "007"]) == 2
    assert "unknown ids: '007'" in capsys.readouterr().err
