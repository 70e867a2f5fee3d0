"""Levers of a list: lists are those of the library, and what is said of them adds up."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markupsafe import escape
from small_site import KINDS, MARKUP, client, data, models, shown

import mfrank

ITEMS = data().item_ids.labels.tolist()
USER = data().user_ids.labels.tolist()[3]
KINDS_OF = {item: KINDS[row % 3].split("|") for row, item in enumerate(ITEMS[:-1])}


def ids(page: dict[str, Any]) -> list[Any]:
    return [each["id"] for each in page["items"]]


@pytest.mark.parametrize(
    ("asked", "levers"),
    [
        ({"popularity_penalty": 0.7}, {"popularity_penalty": 0.7}),
        ({"diversity": 0.6}, {"diversity": 0.6}),
        ({"at_most": 2, "of": "kinds"}, {"at_most": 2, "categories": KINDS_OF}),
        (
            {"boost": "kinds:Pie", "by": -1.5},
            {"boosts": {item: -1.5 for item, kinds in KINDS_OF.items() if "Pie" in kinds}},
        ),
        (
            {"diversity": 0.2, "at_most": 4, "popularity_penalty": 1},
            {"diversity": 0.2, "at_most": 4, "popularity_penalty": 1, "categories": KINDS_OF},
        ),
    ],
)
def test_lists_are_those_of_recommend(
    site: Any, asked: dict[str, Any], levers: dict[str, Any]
) -> None:
    steer, model = mfrank.Steering(**levers), models()["als"]
    expected = model.recommend(USER, N=12, steer=steer).to_dicts()
    page = shown(site, f"/user/{USER}", n=12, **asked)
    assert ids(page) == [each["id"] for each in expected]
    assert [each["score"] for each in page["items"]] == [each["score"] for each in expected]
    assert all(0 <= each["width"] <= 100 for each in page["items"])
    picked = ITEMS[4:7]
    expected = model.recommend_from_items(picked, 12, steer=steer).to_dicts()
    page = shown(site, "/sandbox", like=picked, n=12, **asked)
    assert ids(page) == [each["id"] for each in expected]


def test_filters_keep_the_order_of_the_whole_list(site: Any) -> None:
    plain = ids(shown(site, f"/user/{USER}", n=100))
    for asked, keeps in (
        ({"only": "kinds:Tea"}, lambda item: "Tea" in KINDS_OF.get(item, ())),
        ({"without": "kinds:Tea"}, lambda item: "Tea" not in KINDS_OF.get(item, ())),
    ):
        page = shown(site, f"/user/{USER}", n=100, **asked)
        assert ids(page) == [item for item in plain if keeps(item)]
    assert ids(shown(site, f"/user/{USER}", only="kinds:Pie", without="kinds:Pie")) == []


def test_what_moved_is_told_by_the_rank_without_levers(site: Any) -> None:
    plain = ids(shown(site, f"/user/{USER}", n=100))
    page = shown(site, f"/user/{USER}", n=10, popularity_penalty=1.5, page=2)
    assert [each["before"] for each in page["items"]] == [
        plain.index(item) + 1 for item in ids(page)
    ]
    first = ids(shown(site, f"/user/{USER}", n=10, popularity_penalty=1.5))
    told = page["effect"]
    assert [each["id"] for each in told["fallen"]] == [i for i in plain[:10] if i not in first]
    assert told["in_both"] == len(set(first) & set(plain[:10]))


def test_the_effect_is_that_of_both_lists(site: Any) -> None:
    plain = shown(site, f"/user/{USER}", n=10)
    page = shown(site, f"/user/{USER}", n=10, popularity_penalty=2)
    users = [np.mean([each["users"] for each in one["items"]]) for one in (plain, page)]
    assert page["effect"]["mean_users"] == pytest.approx(users)
    assert users[1] < users[0]
    kinds = [
        {kind for item in ids(one) for kind in KINDS_OF.get(item, ())} for one in (plain, page)
    ]
    assert page["effect"]["covered"] == {
        "column": "kinds",
        "values": [len(each) for each in kinds],
        "of": 3,
    }
    assert page["hits_before"] == plain["hits"]
    assert plain["effect"] is None


def test_levers_at_rest_change_nothing(site: Any) -> None:
    rest = {"popularity_penalty": 0, "diversity": "0", "at_most": "", "of": "kinds", "by": 1}
    rest |= {"only": "", "without": "", "boost": ""}
    for path, more in ((f"/user/{USER}", {}), ("/sandbox", {"like": ITEMS[4]})):
        page, plain = shown(site, path, **more, **rest), shown(site, path, **more)
        assert page["items"] == plain["items"] or path == "/sandbox"
        assert ids(page) == ids(plain)
        assert page["effect"] is None
        assert not page["levers"]["set"]


def test_a_form_keeps_what_is_no_lever_and_shows_what_is_set(site: Any) -> None:
    page = shown(site, "/sandbox", like=ITEMS[4:6], n=20, diversity=0.25, boost="kinds:Tea")
    form = page["levers"]
    assert sorted(form["kept"]) == sorted([["like", ITEMS[4]], ["like", ITEMS[5]], ["n", "20"]])
    assert (form["diversity"], form["boost"], form["by"]) == (0.25, "kinds:Tea", 0.5)
    assert "diversity" not in form["reset"]
    assert ids(shown(site, "/sandbox", like=ITEMS[4:6], n=20)) == [
        each["id"] for each in site.get(form["reset"] + "&format=json").json()["items"]
    ]


def test_the_other_model_is_not_asked_for_levers_that_it_lacks(site: Any) -> None:
    page = shown(site, f"/user/{USER}", diversity=0.5, popularity_penalty=0.5)
    assert page["switched"][0].endswith("?diversity=0.5&popularity_penalty=0.5")
    assert page["switched"][1].endswith("?popularity_penalty=0.5&model=1")
    assert shown(site, f"/user/{USER}", model=1)["levers"]["can"] == ["popularity_penalty"]


def test_a_model_without_counts_is_asked_for_no_penalty(tmp_path: Path) -> None:
    als = models()["als"]
    bare = mfrank.Recommender.of(replace(als.store, counts=None, extras={}))
    site = client(tmp_path, models={"als": als, "bare": bare}, data=None)
    page = shown(site, f"/user/{USER}", diversity=0.5, popularity_penalty=0.5, n=5)
    assert page["switched"][1].endswith("?diversity=0.5&n=5&model=1")
    assert shown(site, f"/user/{USER}", model=1)["levers"]["can"] == ["diversity"]


def test_values_of_columns_are_text_wherever_they_stand(tmp_path: Path) -> None:
    file, hostile = tmp_path / "kinds.csv", f'{MARKUP}:=&"'
    with file.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["item", "title", MARKUP])
        rows.writerows([item, item, (hostile, "plain")[n % 2]] for n, item in enumerate(ITEMS))
    site = client(tmp_path, items=file)
    text = f"{MARKUP}:{hostile}"
    page = shown(site, f"/user/{USER}", only=text, n=100)
    assert ids(page) == [item for item in ids(page) if ITEMS.index(item) % 2 == 0] != []
    assert page["effect"]["covered"] == {"column": MARKUP, "values": [2, 1], "of": 2}
    for path in (f"/user/{USER}", "/sandbox"):
        asked = {"like": ITEMS[1], "boost": text, "at_most": 3, "of": MARKUP}
        html = site.get(path, params=asked).text
        assert "<script>alert" not in html
        assert f'value="{escape(text)}" selected' in html


def test_a_form_begins_at_the_first_page(site: Any) -> None:
    page = shown(site, f"/user/{USER}", diversity=0.5, n=5, page=1, history_page=1, a="b")
    form = page["levers"]
    assert sorted(form["kept"]) == [["a", "b"], ["n", "5"]]
    assert form["reset"] == f"/user/{USER}?n=5&history_page=1&a=b"
    assert form["action"] == f"/user/{USER}"
    page = shown(site, f"/user/{USER}", diversity=0.5, popularity_penalty=1, page=1)
    assert [each.partition("?")[2] for each in page["switched"]] == [
        *("diversity=0.5&popularity_penalty=1", "popularity_penalty=1&model=1")
    ]


@pytest.mark.parametrize("asked", [{"diversity": 0.5}, {"at_most": 2}, {"only": "kinds:Pie"}])
def test_a_list_that_is_chosen_as_a_whole_is_as_long_as_asked(site: Any, asked: Any) -> None:
    page = shown(site, f"/user/{USER}", n=5, **asked)
    whole = "only" not in asked
    assert page["ranked"] == (5 if whole else 1000)
    assert (page["pages"]["total"] <= 5) == whole
    assert page["levers"]["set"]


def test_a_form_offers_the_columns_of_the_file_and_their_values(site: Any) -> None:
    form = shown(site, f"/user/{USER}")["levers"]
    assert (form["of"], form["at_most"], form["by"]) == ("kinds", None, 0.5)
    (column,) = form["columns"]
    assert column["name"] == "kinds"
    sizes = {kind: sum(kind in kinds for kinds in KINDS_OF.values()) for kind in sorted(sizes_of())}
    assert column["values"] == [
        {"value": kind, "text": f"kinds:{kind}", "items": size} for kind, size in sizes.items()
    ]


def sizes_of() -> set[str]:
    return {kind for kinds in KINDS_OF.values() for kind in kinds}


def test_scores_are_said_to_have_penalty_and_boost_where_they_do(site: Any) -> None:
    for asked, adds in (
        ({}, False),
        ({"diversity": 0.5}, False),
        ({"only": "kinds:Pie"}, False),
        ({"popularity_penalty": 1}, True),
        ({"boost": "kinds:Pie"}, True),
        ({"boost": "kinds:Pie", "by": 0}, False),
    ):
        assert shown(site, f"/user/{USER}", **asked)["levers"]["adds"] == adds


def test_what_fell_out_is_told_with_its_rank_before(site: Any) -> None:
    plain = ids(shown(site, f"/user/{USER}", n=100))
    page = shown(site, f"/user/{USER}", n=10, only="kinds:Pie")
    pies = [item for item in plain if "Pie" in KINDS_OF.get(item, ())][:10]
    out = [(rank, item) for rank, item in enumerate(plain[:10], 1) if item not in pies]
    told = page["effect"]
    assert [(each["before"], each["id"]) for each in told["fallen"]] == out
    assert told["in_both"] == 10 - len(out)
    none = shown(site, f"/user/{USER}", only="kinds:Pie", without="kinds:Pie")["effect"]
    assert (none["in_both"], none["mean_users"][1], none["covered"]["values"][1]) == (0, None, 0)


def test_without_a_file_of_items_nothing_can_be_capped(tmp_path: Path) -> None:
    site = client(tmp_path, items=None)
    answer = site.get(f"/user/{USER}?at_most=2&format=json")
    assert answer.status_code == 422
    assert "at_most needs a file of items with a column of kinds" in answer.json()["error"]
    page = shown(site, f"/user/{USER}", diversity=0.5)
    assert (page["levers"]["of"], page["levers"]["columns"], page["effect"]["covered"]) == (
        *(None, []),
        None,
    )


def test_items_of_the_file_that_the_model_lacks_have_no_levers(tmp_path: Path) -> None:
    file = tmp_path / "kinds.csv"
    rows = [f"{item},{item},{'ab'[row % 2]}" for row, item in enumerate([*ITEMS, "x", "y"])]
    file.write_text("\n".join(["item,title,kind", *rows]))
    site = client(tmp_path, items=file)
    plain = ids(shown(site, f"/user/{USER}", n=100))
    for asked in ({"only": "kind:a"}, {"without": "kind:b"}):
        found = ids(shown(site, f"/user/{USER}", n=100, **asked))
        assert found == [item for item in plain if ITEMS.index(item) % 2 == 0]
    assert shown(site, f"/user/{USER}", boost="kind:b")["levers"]["set"]


def test_columns_may_have_names_as_long_as_questions(tmp_path: Path) -> None:
    file, question = tmp_path / "kinds.csv", "Would you recommend this item to a friend? " * 4
    with file.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["item", "title", "half", question])
        rows.writerows(
            [item, item, "ab"[n > 9], ("yes", "no")[n % 2]] for n, item in enumerate(ITEMS)
        )
    site = client(tmp_path, items=file)
    asked = {"at_most": 3, "of": question, "only": f"{question.strip()}:yes"}
    form = shown(site, f"/user/{USER}", **asked)["levers"]
    assert {name: form[name] for name in asked} == {**asked, "of": question.strip()}
    assert shown(site, f"/user/{USER}")["levers"]["of"] == "half"


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    path=st.sampled_from([f"/user/{USER}", f"/sandbox?like={ITEMS[4]}", f"/compare/{USER}"]),
    asked=st.dictionaries(
        st.sampled_from(
            [
                "popularity_penalty",
                "diversity",
                "at_most",
                "of",
                "only",
                "without",
                "boost",
                "by",
                "weight",
                "n",
                "model",
            ]
        ),
        st.one_of(
            st.sampled_from(["kinds", "kinds:Tea", "0", "1", "2", "-1", "nan", "1e999", "", "²"]),
            st.floats(-4, 4).map(str),
            st.text(max_size=8),
        ),
    ),
)
def test_whatever_is_asked_is_shown_or_refused(site: Any, path: str, asked: Any) -> None:
    start, _, given_first = path.partition("?")
    query = urlencode(asked, errors="replace")
    answer = site.get(f"{start}?{given_first}&{query}")
    assert answer.status_code in (200, 422), (path, asked, answer.text)
