"""What a file tells of items, and in which order items and users are found."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfrank.data import Ids
from mfrank.pages.catalog import SiteCatalog, columns_of


def catalog(
    items: Sequence[Any], popularity: Sequence[int] | None = None, users: Sequence[Any] = ("u",)
) -> SiteCatalog:
    counts = np.zeros(len(items)) if popularity is None else np.array(popularity)
    return SiteCatalog(Ids.of(list(items)), Ids.of(list(users)), counts.astype(np.int64))


def of_file(
    tmp_path: Path, text: str, items: Sequence[Any] = ("a", "b"), name: str = "f.csv"
) -> Any:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    counts = np.zeros(len(items), dtype=np.int64)
    return SiteCatalog(Ids.of(list(items)), Ids.of(["u"]), counts, path)


def test_the_better_match_comes_first_then_the_more_popular() -> None:
    items = ["Smart", "Modern art", "Art-1", "Artist", "art", "None", "Cart", "Pop-Art", "Ärtz"]
    popular = [9, 8, 7, 7, 1, 9, 10, 8, 6]
    found = ["art", "Art-1", "Artist", "Ärtz", "Modern art", "Pop-Art", "Cart", "Smart"]
    assert catalog(items, popular).items_like(" ART") == found
    assert catalog(items, popular).items_like("nothing") == []


def test_a_name_or_an_id_that_is_the_text_comes_first(tmp_path: Path) -> None:
    shown = of_file(tmp_path, "item,name\n12,Thirteen\n13,12 monkeys\n14,Twelve\n", (13, 14, 12))
    assert shown.items_like("12") == [12, 13]
    assert shown.items_like("14") == [14]
    assert shown.items_like("1") == [13]  # ids are found whole, names in part


def test_of_equally_popular_items_the_first_comes_first() -> None:
    items = [f"item {n:02}" for n in range(60)]
    popular = [5 - n % 3 for n in range(60)]
    expected = [items[n] for rest in range(3) for n in range(rest, 60, 3)]
    shown = catalog(items, popular)
    assert shown.most_popular(60) == shown.items_like("") == expected
    assert shown.most_popular(2) == expected[:2]


def test_users_are_found_by_how_they_begin_the_shortest_first() -> None:
    users = ["Ann-Marie", "ann", "joann", "Ánna", "bob", "Anne"]
    assert catalog(["x"], users=users).users_like("an") == ["ann", "Ánna", "Anne", "Ann-Marie"]
    assert catalog(["x"], users=[7, 70, 17, 701]).users_like("70") == [70, 701]
    assert catalog(["x"], users=users).users_like("z") == []


def test_items_that_are_not_known_have_no_users() -> None:
    shown = catalog(["a", "b", "c"], [4, 2, 3])
    assert [shown.users_of(item) for item in ("a", "b", "c", "d")] == [4, 2, 3, 0]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("item,year,title,name", "third"),
        ("item,year,name,title", "fourth"),
        ("item,year,label,more", "third"),
        ("item,year,Film, NAME ", "fourth"),
        ("item,year,film,more", "second"),
        ("item,Unnamed: 0,year,more", "third"),
        ("item,,film,more", "third"),
        ("item,Unnamed: 1,,Unnamed: 3", "a"),
    ],
)
def test_names_are_in_the_column_that_says_so_else_the_first(
    tmp_path: Path, header: str, name: str
) -> None:
    assert of_file(tmp_path, f"{header}\na,second,third,fourth\n").entry("a").name == name


def test_an_item_without_a_name_is_called_by_its_id(tmp_path: Path) -> None:
    shown = of_file(tmp_path, "item,name,year\na, ,1999\n", ("a", 5))
    assert [shown.entry(item).name for item in ("a", 5)] == ["a", "5"]
    assert [shown.entry(item).facts for item in ("a", 5)] == ["1999", ""]


def test_facts_are_what_the_name_does_not_say(tmp_path: Path) -> None:
    text = "item\tyear\tname\tby\tkinds\tnote\na\t1962\tJules et Jim (1962)\t F. T. \tDrama|War\t\n"
    entry = of_file(tmp_path, text, name="f.tsv").entry("a")
    assert entry.facts == "F. T. · Drama, War"


def test_the_kind_is_the_first_value_of_the_last_column_that_has_few(tmp_path: Path) -> None:
    def kinds(*columns: list[str]) -> list[str]:
        items = [f"i{row}" for row in range(len(columns[0]))]
        header = ",".join(["item", "name", *(f"c{at}" for at in range(len(columns)))])
        rows = [",".join([item, item, *row]) for item, *row in zip(items, *columns, strict=True)]
        shown = of_file(tmp_path, "\n".join([header, *rows]), items)
        return [shown.entry(item).kind for item in items]

    n = 41
    several = [("x|y", "y", "")[row % 3] for row in range(n)]
    halves = ["ab"[row % 2] for row in range(n)]
    forty = [f"k{min(row, 39)}" for row in range(n)]
    same, years = ["one"] * n, [str(1980 + row % 9) for row in range(n)]
    many = [f"k{row}" for row in range(n)]
    first = [each.split("|")[0] for each in several]
    assert kinds(halves, several, same, years, many) == first
    assert kinds(several, halves) == halves
    assert kinds(several, forty) == forty
    assert kinds([*years[:-1], "old"], same) == [*years[:-1], "old"]
    assert kinds(same, years, many) == [""] * n


def test_rows_that_count_otherwise_than_written_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def told(text: str) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.INFO, "mfrank"):
            of_file(tmp_path, text)
        return [record.getMessage().partition(": ")[2] for record in caplog.records]

    assert told("item,name\na,Aa\n\nb,Bb\n") == []
    (several,) = told("item,name\na,Aa\na,Other\nb,Bb\na,Third\n")
    assert several.startswith("2 rows of items that have several")
    (short,) = told("item,name\na,Aa\n\nb,Bb,2\nb\nb,Bb\n")
    assert short.startswith("2 rows not read")
    assert short.endswith("each of the 2 columns; the first is in line 4")


def test_columns_sort_items_if_many_share_few_values() -> None:
    rows = [(str(1950 + n), "ab"[n % 2], "same", "" if n % 3 else "x|y| x") for n in range(12)]
    found = columns_of(["year", "half", "one", "some"], list(range(12)), rows)
    assert list(found) == ["half", "some"]
    assert found["half"].sizes == {"a": 6, "b": 6}
    assert found["some"].items("y") == [0, 3, 6, 9]
    assert found["some"].covered([0, 1]) == 2
    assert found["some"].covered([]) == 0


def test_a_column_sorts_by_at_most_a_hundred_values_that_two_items_share() -> None:
    def sorts(values: list[str], name: str = "kind") -> bool:
        return bool(columns_of([name], range(len(values)), [[each] for each in values]))

    assert sorts([str(n % 100) for n in range(200)])
    assert not sorts([str(n % 101) for n in range(202)])
    assert not sorts([str(n % 100) for n in range(199)])
    assert sorts(["a", "b", "a", "a"])
    assert not sorts(["a", "b", "a"])
    assert not sorts(["a", "a", "a", "a"])
    assert not sorts(["a", "b"] * 9, "")


def test_columns_with_fewer_values_come_first_and_values_by_name() -> None:
    rows = [("cabd"[n % 4], "ba"[n % 2], "xzy"[n % 3]) for n in range(24)]
    found = columns_of(["four", "two", "three"], range(24), rows)
    assert list(found) == ["two", "three", "four"]
    assert [list(each.sizes) for each in found.values()] == [["a", "b"], [*"xyz"], [*"abcd"]]
