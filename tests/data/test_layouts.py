"""The layout that is found in the first rows of a text, and the rows of all of it."""

from __future__ import annotations

import io
import logging
import re
from typing import Any

import pytest

from mfrank.data import AS_USUAL, Dialect, Quotes, layout_of, layouts, rows
from mfrank.errors import plain
from tests.support.errors import refuses

INFO, WARNING = logging.INFO, logging.WARNING


def found(text: str, usual: str | None = None, chosen: Any = None, **how: Any) -> Any:
    """The layout, and what was told."""
    said = list[tuple[int, str]]()
    with io.StringIO(text, newline="") as lines:
        layout = layout_of(
            lines,
            Dialect(**how),
            usual,
            chosen or {},
            lambda level, line: said.append((level, line)),
        )
    return layout, said


USER_ITEM = {"user": 0, "item": 1}


@pytest.mark.parametrize(
    ("text", "usual", "separator", "width"),
    [
        ("1,2\n3,4\n", ",", ",", 2),
        ("1\t2\t3\n3\t4\t5\n", None, "\t", 3),
        ("1;2,5;3\n3;4,5;5\n", ",", ";", 3),  # it splits into most
        ("1|2\n3|4", None, "|", 2),
        ("1::2::3\n3::4::5\n", None, "::", 3),
        ("1 2 3\n3 4 5\n", None, " ", 3),
        ("1 2,5\n3 4,5\n", None, ",", 2),  # the mark before the blank, of equally many fields
        ("\n\n1,2\n\n3,4\n", None, ",", 2),
        ("1,2\n", None, ",", 2),
        ("user;item\n1;2,5\n", ",", ";", 2),  # names that are known go first
        ("user,item,x;y;z;w\n1,2,x;y;z;w\n", ",", ",", 3),
        ("user item\n1 2\n", None, " ", 2),
        ("the film,user,item\n1 x,2,3\n", None, ",", 3),  # a title has words such as film
        ("1,2,\n3,4,5\n", None, ",", 3),  # empty fields at the end do not count
        ('1,"a, b"\n2,"c"\n', None, ",", 2),
        ('1\t"a\n2\t"b\n', None, "\t", 2),  # quotes that are text
        ("1,the film\n2,a book\n", None, ",", 2),
        ("my item it is;user;item\n1 2 3 4;5;6\n", None, ";", 3),
        ("1,2;3\n4,5,6;7\n", None, ";", 2),
        ("1,2\n3,4\n5,6,7\n", ";", ",", 2),  # only the first two rows count
        ("1;2\n3;4\n", ",", ";", 2),
    ],
)
def test_the_separator_splits_both_rows_alike_and_into_most(
    text: str, usual: str | None, separator: str, width: int
) -> None:
    if "\n3,4,5" in text:
        assert found(text, usual, header=False)[0].separator == separator
        return
    how = {"quote": None} if '\t"' in text else {}
    layout, _ = found(text, usual, **how)
    assert (layout.separator, layout.width) == (separator, width)


def test_where_no_mark_splits_the_rows_the_usual_one_is_taken() -> None:
    for usual in (",", ";"):
        with refuses(ValueError, "columns", remedy="name the columns"):
            found("12\n34\n", usual)
    assert found("1\t2\n3\n")[0].separator == "\t"  # the first that is there
    with refuses(ValueError, "columns", remedy="name the columns"):
        found("12\n34\n")
    assert found("1x2\n3x4\n", sep="x")[0].separator == "x"
    how: dict[str, Any] = {"chosen": {"user": 1, "item": 2}, "header": False}
    assert found("1;2,3\nitem;2,4\n", **how)[0].separator == ","  # names of the first row count
    assert found("user,item;item;x\n1,2;3;4\n", **how)[0].separator == ";"
    with refuses(ValueError, "quote"):
        found('1\t"a\n2\t"b\n', ",")  # of tabs, if quotes are text
    with pytest.raises(ValueError, match=r"^the file is empty\n"):
        found("\n \n")


@pytest.mark.parametrize(
    ("text", "how", "has_header", "names", "fields"),
    [
        ("user,item\n1,2\n", {}, True, ["user", "item"], USER_ITEM),
        ("user,item\n1,2\n3,4\n5,6\n7,8\n", {}, True, ["user", "item"], USER_ITEM),
        ("p,q\n1,2\n", {"chosen": {"user": 1, "item": 2, "value": False}, "header": True}, True,
         ["p", "q"], USER_ITEM),
        ("item,x,user\n1,2,3\n", {}, True, ["item", "x", "user"], {"user": 2, "item": 0}),
        ("user,item\n1,2\n", {"header": True}, True, ["user", "item"], USER_ITEM),
        ("u,i\n1,2\n", {"chosen": {"user": "u", "item": "i"}}, True, ["u", "i"], USER_ITEM),
        ("1,2\n3,4\n", {}, False, (), USER_ITEM),
        ("1,2,3,4\n5,6,7,8\n", {}, False, (), {**USER_ITEM, "value": 2, "timestamp": 3}),
        ("1,2,3\n5,6,7\n", {"chosen": {"value": False}}, False, (), USER_ITEM),
        ("1,2\n3,4\n", {"chosen": {"user": 2, "item": 1}}, False, (), {"user": 1, "item": 0}),
        ("1,2\n3,4\n", {"columns": ["item", "user"]}, False, ["item", "user"],
         {"user": 1, "item": 0}),
        ("a,b\n3,4\n", {"columns": ["item", "user"], "header": True}, True, ["item", "user"],
         {"user": 1, "item": 0}),
        ("a,b,c\n3,4,5\n", {"columns": ["user", "-", "item"], "header": False}, False,
         ["user", "-", "item"], {"user": 0, "item": 2}),
        ("3,2\n4,5\n", {"chosen": {"user": "2", "item": "1"}, "header": False}, False, (),
         {"user": 1, "item": 0}),
        ("3,2\n4,5\n", {"chosen": {"user": "2", "item": "3"}, "header": True}, True, ["3", "2"],
         {"user": 1, "item": 0}),
    ],
)  # fmt: skip
def test_a_header_is_recognized_and_gives_the_roles(
    text: str, how: dict[str, Any], has_header: bool, names: Any, fields: dict[str, int]
) -> None:
    layout, _ = found(text, ",", **how)
    assert (layout.has_header, list(layout.names)) == (has_header, list(names))
    assert layout.fields == fields
    for role, field in fields.items():
        assert layout.column(role) == (names[field] if names else field + 1)
    assert layout.is_guess == (
        not names and not how.get("chosen", {}).get("user") and not how.get("header")
    )


@pytest.mark.parametrize(
    ("text", "how", "fault"),
    [
        ("user,5\n", {}, {"argument": "header", "remedy": "pass header=True or header=False"}),
        ("user,5\n1,2\n", {}, {"argument": "header", "remedy": "pass header=True or header=False"}),
        (
            "user,item\n",
            {"columns": ["a", "b"]},
            {"argument": "header", "remedy": "pass header=True"},
        ),
        (
            "a,b\n1,2\n",
            {"columns": ["user", "item"]},
            {"argument": "header", "remedy": "pass header=True"},
        ),
        ("1,2\n", {"columns": ["user"]}, {"argument": "columns", "remedy": "write - for each"}),
        (
            "1,2\n",
            {"chosen": {"user": "1", "item": "2"}},
            {"argument": "user", "remedy": "pass header=True"},
        ),
        (
            "1,2\n",
            {"chosen": {"user": 3, "item": 1}},
            {"argument": "user"},
        ),
        (
            "1,2\n",
            {"chosen": {"user": 1, "item": 0}},
            {"argument": "item"},
        ),
        (
            "1,2\n",
            {"chosen": {"user": "u"}, "header": False},
            {"argument": "user", "remedy": "give its number"},
        ),
        ("a,x\n1,2\n", {}, {"argument": "user", "remedy": "name it with user="}),
        ("1,2\n", {"chosen": {"user": False}}, {"argument": "user"}),
        ("1,2,3,4,5\n", {}, {"argument": "columns", "remedy": "name the columns"}),
        ("1\n2\n", {}, {"argument": "columns", "remedy": "name the columns"}),
        ("1\n2,3\n", {"header": False}, {"argument": "columns", "remedy": "name the columns"}),
        ("a,x\n1,2\n", {"header": True}, {"argument": "user", "remedy": "name it with user="}),
        ("1,2\n", {"columns": ["a", "b"]}, {"argument": "user", "remedy": "name it with user="}),
        (
            "a,b\n1,2\n",
            {"chosen": {"user": "a"}},
            {"argument": "item", "remedy": "name it with item="},
        ),
        ("1,2,3,4,5\n1,2\n", {}, {"argument": "columns", "remedy": "name the columns"}),
        ("2024-01-01,5\n2024-01-02,6\n", {}, {"argument": "columns", "remedy": "name the columns"}),
        ("1,2.5\n1,3\n", {}, {"argument": "columns", "remedy": "name the columns"}),
        (
            "1,2,x\n1,3,y\n",
            {"header": False},
            {"argument": "columns", "remedy": "name the columns"},
        ),
        (
            "1,2,3,x\n1,3,4,y\n",
            {"header": False},
            {"argument": "columns", "remedy": "name the columns"},
        ),
    ],
)
def test_what_cannot_be_told_is_refused(
    text: str, how: dict[str, Any], fault: dict[str, str]
) -> None:
    with refuses(ValueError, **fault):
        found(text, ",", **how)


def test_columns_with_names_are_told() -> None:
    assert found("userId,x\n1,2\n", ",", {"item": "x"})[1] == [
        (INFO, "columns read: user 'userId', item 'x', and no values: each row counts 1")
    ]
    chosen = {"user": 1, "item": 2, "value": False, "timestamp": None}
    ((level, line),) = found("7,8,9\n1,2,3\n", ",", chosen)[1]
    assert (level, line) == (INFO, "columns read: user 1, item 2; ignored: 3")


def test_only_the_first_two_rows_are_looked_at() -> None:
    with io.StringIO("1,2\n\n3,4\nx,y\n5;6\n", newline="") as lines:
        layout_of(lines, Dialect(), None, {}, lambda level, line: None)
        assert next(lines) == "x,y\n"


def test_a_wide_header_with_numbers_is_one() -> None:
    assert found("user,item,2019,2020,2021\n1,2,3,4,5\n", ",")[0].has_header
    with refuses(ValueError, "header"):
        found("user,item,1,2\n3,4,5,6\n", ",")
    with refuses(ValueError, "header", remedy="pass header=True"):
        found("user,b,c,d,e,f,g\n1,2,3,4,5,6,7\n", ",", columns=list("abcdefg"))


@pytest.mark.parametrize(
    ("text", "how", "level", "words"),
    [
        ("1,2\n3,4\n", {}, INFO, r"no header found; columns taken as user, item \(columns= names"),
        ("1,2,3\n3,4,5\n", {}, INFO, r"taken as user, item, value \(columns= names others\)$"),
        ("a,b\nc,d\n", {}, WARNING, r"; the first row is \['a', 'b'\]: if it is a header, pass"),
        ("a,b\nc,d\n1,2\n", {}, WARNING, r"; the first row is \['a', 'b'\]: if it is a header"),
        ("0,1\n5,7\n", {}, WARNING, r"; the first row is \['0', '1'\]: if these are names, pass"),
        ("0,1\n5,7\n", {"header": False}, INFO, r"others\)$"),
        ("a,b\nc,d\n", {"header": False}, INFO, r"others\)$"),
        ("881250949,1\n881250950,2\n", {}, WARNING, "; the user 881250949 looks like a time: name"),
        ("1,881250949\n2,881250950\n", {}, WARNING, "; the item 881250949 looks like a time: name"),
        ("881250949,881250949,1\n881250950,881250950,2\n", {}, WARNING, "; the user 8"),
        ("881250949,1,2,881250949\n881250950,2,2,881250950\n", {}, INFO, r"others\)$"),
        ("1;2;3,5\n2;3;4,5\n", {"sep": ";"}, INFO, r"others\)$"),
        ("1,2,3,10/2/2020\n1,2,3,x\n", {}, INFO, r"others\)$"),
        ("1,2,,3\n1,2,,3\n", {}, INFO, r"others\)$"),
    ],
)
def test_roles_by_the_order_of_columns_are_told(
    text: str, how: dict[str, Any], level: int, words: str
) -> None:
    ((said, line),) = found(text, ",", **how)[1]
    assert said == level
    assert re.search(words, plain(line))


@pytest.mark.parametrize(
    ("first", "remedy"),
    [
        ("(1, 2)", "remove their brackets"),
        ("Rating(1,10,5.0)\nRating(2,10,4.0)", "write them as a table"),
        ("Row(user=1, item=10)", "write them as a table"),
        ("Pair(ann,tea)\nPair(ben,tea)", "write them as a table"),
    ],
)
def test_other_formats_are_named(first: str, remedy: str) -> None:
    with refuses(ValueError, place="line 1", remedy=remedy):
        found(f"\n{first}\n1,2\n", ",")


def test_a_long_first_line_is_shown_in_part() -> None:
    with refuses(ValueError, place="line 1"):
        found("(" + "x" * 70 + ")\n1,2\n", ",")


@pytest.mark.parametrize(
    ("text", "how", "names", "n_above", "level", "words"),
    [
        ("# a list of users\n1,2\n", {}, (), 1, INFO, "1 line of comments"),
        ("% x\n\n#\n1,2\n", {"header": False}, (), 3, INFO, "2 lines of comments.*'#'"),
        ("# user,item\n1,2\n", {}, ["# user", "item"], 0, INFO, ""),
        ("#user,item\n1,2\n", {}, ["#user", "item"], 0, INFO, ""),
        ("# from me, 2024\n# user,item\n1,2\n", {}, ["# user", "item"], 1, WARNING, "Tr"),
        ("# user,item,x\n1,2\n", {}, (), 1, INFO, "1 line of comments"),  # of another width
        ("# a,b\n1,2\n", {"chosen": {"user": 1, "item": 2}, "header": True}, ["# a", "b"], 0, 0,
         ""),
        ("# a,b\n1,2\n", {}, (), 1, WARNING, "header=True"),
        ("# a,b\n1,2\n", {"chosen": {"user": "a", "item": "b"}}, ["# a", "b"], 0, INFO, ""),
        ("# x\nuser,item\n1,2\n", {}, ["user", "item"], 1, INFO, "the last is '# x'"),
        ("# user item\n1 2\n", {}, ["user", "item"], 0, INFO, ""),
        ("# Nodes: 9\n# FromNodeId\tToNodeId\n1\t2\n", {}, ["# FromNodeId", "ToNodeId"], 1,
         INFO, "Nodes"),
        ("% sym unweighted\n1\t2\n", {}, (), 1, INFO, "sym unweighted"),
        ("#cats,7\n#dogs,8\n", {}, (), 0, INFO, "columns taken"),  # users are such words
        ("#cats,7\nx,8\n", {"comment": "#"}, (), 1, WARNING, "comments"),
        ("sep=;\nuser;item\n1;2,5\n", {}, ["user", "item"], 1, 0, ""),
        ('\n"sep=|"\r\n1|2\n', {}, (), 2, INFO, ""),
    ],
)  # fmt: skip
def test_lines_above_the_rows_are_no_rows(
    text: str, how: dict[str, Any], names: Any, n_above: int, level: int, words: str
) -> None:
    layout, said = found(text, "," if "," in text else None, **how)
    assert (layout.names, layout.first_line) == (names, n_above + 1 + bool(names))
    assert any(own == level and re.search(words, line) for own, line in said) or not words
    if "comment" not in words:
        assert not any("comments" in line for _, line in said) or words


@pytest.mark.parametrize(
    ("how", "error", "argument"),
    [
        ({"sep": "ab"}, ValueError, "sep"),
        ({"sep": ""}, ValueError, "sep"),
        ({"sep": '"'}, ValueError, "sep"),
        ({"sep": "\n"}, ValueError, "sep"),
        ({"sep": 3}, ValueError, "sep"),
        ({"quote": "ab"}, ValueError, "quote"),
        ({"quote": ",", "sep": ","}, ValueError, "quote"),
        ({"quote": " "}, ValueError, "quote"),
        ({"header": 1}, TypeError, "header"),
        ({"comment": ""}, ValueError, "comment"),
        ({"comment": 3}, ValueError, "comment"),
        ({"columns": "user,item"}, TypeError, "columns"),
        ({"columns": ["user", 1]}, TypeError, "columns"),
        ({"columns": ["a", "b", "a"]}, ValueError, "columns"),
    ],
)
def test_descriptions_that_cannot_be_are_refused(
    how: dict[str, Any], error: type[Exception], argument: str
) -> None:
    with refuses(error, argument):
        Dialect(**how).check()


def test_descriptions_that_can_be_are_taken() -> None:
    for how in (
        {},
        {"sep": "::"},
        {"sep": "\t"},
        {"quote": None},
        {"quote": "'"},
        {"header": False},
    ):
        Dialect(**how).check()
    Dialect(columns=["user", "-", "-", "item"]).check()


def test_a_header_that_is_repeated_is_recognized() -> None:
    layout = found("user,item\n1,2\n", ",")[0]
    assert layout.repeats_header(["user", " item", ""])
    assert layout.repeats_header(["\ufeffuser", "item"])
    three = found("user,item,x\n1,2,3\n", ",")[0]
    assert three.repeats_header(["user", "item", "x", "more"])
    assert not three.repeats_header(["user", "item", "y", "x"])
    assert not layout.repeats_header(["user", "items"])
    assert not layout.repeats_header(["users", "item"])
    assert not found("1,2\n3,4\n", ",")[0].repeats_header(["1", "2"])


# rows


def read(text: str, separator: str = ",", quote: str | None = AS_USUAL, **how: Any) -> Any:
    lines = text.splitlines(keepends=True)
    return list(rows(lines, separator, Quotes(separator, quote), **how))


def test_rows_have_the_line_on_which_they_begin() -> None:
    text = '1, 2\n\n3,"4\n5"\n \t\n6,7\n,\n'
    assert read(text) == [(1, ["1", "2"]), (3, ["3", "4\n5"]), (6, ["6", "7"]), (7, ["", ""])]
    assert read("1, 2\n", keep_blanks=True) == [(1, ["1", " 2"])]
    assert read("1::2:3\n", "::") == [(1, ["1", "2:3"])]
    assert read("'1,2',3\n", quote="'") == [(1, ["1,2", "3"])]
    assert read('"1,2",3\n', quote=None) == [(1, ['"1', '2"', "3"])]
    assert read("") == []


def test_rows_that_cannot_be_read_are_named_by_their_line() -> None:
    with refuses(ValueError, "quote"):
        read('1,2\n3,"4\n5,6\n')
    with refuses(ValueError, "quote", remedy="pass quote=None"):
        read('1,2\n"3,4\n5",6\n')
    with refuses(ValueError, "quote", place="line 3", remedy="pass quote=None"):
        read("1,2\n3,4\n5," + "6" * 200_000 + "\n")


def test_what_quotes_drop_and_join_is_told() -> None:
    for text, words in (
        ('1,"a"b\n2,c\n', "text follows a closing quote in 1 row, the first in line 1"),
        ('1,2,3\n4,"5\n6",7\n', "quotes join several lines to one in 1 row, the first from line 2"),
        ('1,"2"\n', ""),
    ):
        said = list[str]()
        quotes = Quotes(",", AS_USUAL)
        list(rows(text.splitlines(keepends=True), ",", quotes))
        quotes.told(lambda level, line, said=said: said.append(line))
        assert [line[: len(words)] for line in said] == [words] * bool(words)


def test_two_colons_separate_as_one_mark() -> None:
    assert layouts.DOUBLE_COLON == "::"
    layout, _ = found('1::a "b"::3\n2::c::4\n')
    assert (layout.separator, layout.fields) == ("::", {"user": 0, "item": 1, "value": 2})
