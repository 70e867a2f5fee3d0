"""A service with a table of items lists what its columns allow, by every route."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from clients import kinds
from clients import model as of_kind
from errors import refuses
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import mfrank
from mfrank import serving
from mfrank.data import Ids
from mfrank.serving import catalogue as of_items
from mfrank.serving.catalogue import Catalogue
from mfrank.serving.item_source import ItemSource

N_USERS, N_ITEMS = 12, 30


@pytest.fixture(scope="module")
def model() -> mfrank.ALS:
    rng = np.random.default_rng(0)
    items = np.append(np.arange(N_ITEMS), rng.integers(N_ITEMS, size=90))  # each has a user
    users = rng.integers(N_USERS, size=len(items))
    data = mfrank.Interactions.from_arrays([f"u{n}" for n in users], [f"i{n}" for n in items])
    return mfrank.ALS(factors=4, iterations=2, random_state=0).fit(data)


def service(model: Any, items: Any, **options: Any) -> TestClient:
    return TestClient(serving.app(model, items=items, **options), base_url="http://localhost")


def table(**columns: Any) -> pd.DataFrame:
    names = [f"i{n}" for n in range(N_ITEMS)]
    return pd.DataFrame({"item_id": names, **columns})


def listed(answer: Any) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["items"]]


def every_route(client: TestClient, where: list[str] | None = None) -> list[list[Any]]:
    """The lists of all routes, as long as there are items."""
    url = "&".join(f"where={quote(each)}" for each in where or [])
    body: dict[str, Any] = {"n": N_ITEMS, "where": where or [], "include_seen": True}
    many = client.post("/recommend", json={**body, "users": ["u1", "u2"]}).json()["lists"]
    new = {"from_items": ["i0"], "n": N_ITEMS, "where": where or [], "fallback": "popularity"}
    return [
        listed(client.get(f"/recommend/u1?n={N_ITEMS}&include_seen=true&{url}")),
        listed(client.get(f"/recommend/u1?n={N_ITEMS}&fallback=popularity&{url}")),
        listed(client.get(f"/recommend/u1?n=10&diversity=0.5&include_seen=true&{url}")),
        listed(client.get(f"/recommend/u1?n=7&offset=0&include_seen=true&{url}")),
        listed(client.get(f"/similar/i3?n={N_ITEMS}&{url}")),
        listed(client.get(f"/similar/i3?n=7&offset=2&exclude=i9&{url}")),
        *([each["id"] for each in one["items"]] for one in many),
        [each["id"] for each in client.post("/recommend", json=new).json()["lists"][0]["items"]],
    ]


VALUES = {
    "year": st.one_of(st.none(), st.integers(1990, 1994)),
    "kind": st.one_of(st.none(), st.sampled_from(["film", "series", "a,b"])),
    "genres": st.one_of(st.none(), st.sampled_from(["x", "x|y", "y|z", "z"])),
    "free": st.one_of(st.none(), st.booleans()),
}
COMPARED = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_conditions_are_those_of_the_table(data: Any) -> None:
    columns = {
        name: data.draw(st.lists(values, min_size=8, max_size=8), label=name)
        for name, values in VALUES.items()
    }
    columns["genres"][0], columns["free"][0], columns["year"][0] = "x|y", True, 1992
    operator = data.draw(st.sampled_from(sorted(COMPARED)))
    year = data.draw(st.integers(1989, 1995))
    sign = data.draw(st.sampled_from(["=", "!="]))
    ids = Ids.of(np.array([f"i{n}" for n in range(8)], object))
    frame = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
    frame["item_id"] = ids.labels
    shuffled = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    here = Catalogue(ItemSource(shuffled), ids).of(ids)

    def held(*conditions: str) -> list[bool]:
        passing = here.passing(conditions, now=0)
        return [True] * 8 if passing is None else passing.held.tolist()

    holds = COMPARED[operator], COMPARED[sign]
    dated = [each is not None and holds[0](each, year) for each in columns["year"]]
    assert held(f"year{operator}{year}") == dated
    for condition, passes in {
        f'kind{sign}film,"a,b"': [
            each is not None and (each in ("film", "a,b")) == (sign == "=")
            for each in columns["kind"]
        ],
        f"genres{sign}x,y": [
            each is not None and bool({"x", "y"} & set(each.split("|"))) == (sign == "=")
            for each in columns["genres"]
        ],
        f"free{sign}True": [each is not None and holds[1](each, True) for each in columns["free"]],
    }.items():
        assert held(condition) == passes, condition
        both = [a and b for a, b in zip(passes, dated, strict=True)]
        assert held(condition, f"year{operator}{year}") == both, condition


def test_conditions_hold_by_every_route(model: mfrank.ALS) -> None:
    here = service(model, table(year=np.arange(N_ITEMS)))
    allowed = {f"i{n}" for n in range(20, N_ITEMS)}
    for items in every_route(here, ["year>=20"]):
        assert set(items) <= allowed
        assert items
    given = {"users": ["u1"], "include_seen": True, "where": ["year>=20"]}
    for chosen in (["i3", "i25"], [["i3", "i25"]]):
        lists = here.post("/recommend", json={**given, "items": chosen}).json()["lists"]
        assert [each["id"] for each in lists[0]["items"]] == ["i25"]


@pytest.mark.parametrize("kind", kinds)
def test_conditions_hold_for_every_kind_of_model(kind: str) -> None:
    any_model = of_kind(kind)
    labels = any_model.item_ids.labels
    half = pd.DataFrame({"item_id": labels, "place": np.arange(len(labels))})
    here = service(any_model, half)
    (user,) = any_model.user_ids.labels[:1].tolist()
    n = len(labels) // 2
    only = labels[:n].tolist()
    found = here.post("/recommend", json={"users": [user], "n": n, "where": [f"place<{n}"]})
    expected = any_model.recommend(user, N=n, items=only).to_dicts()
    items = found.json()["lists"][0]["items"]
    assert [each["id"] for each in items] == [each["id"] for each in expected]


def test_what_was_shown_and_events_go_with_conditions(model: mfrank.ALS, tmp_path: Path) -> None:
    frame = table(year=np.arange(N_ITEMS), hidden=[n == 25 for n in range(N_ITEMS)])
    here = service(model, frame, remember_shown=60.0, journal=tmp_path / "journal")
    url = "/recommend/u1?n=2&include_seen=true&where=year%3E%3D20&fields=year"
    here.post("/events", json={"user": "u1", "item": "i22"})
    shown = [*listed(here.get(url)), *listed(here.get(url)), *listed(here.get(url))]
    assert len(set(shown)) == 6
    assert set(shown) <= {f"i{n}" for n in range(20, N_ITEMS)} - {"i25"}
    body = {"users": ["u1"], "include_seen": True, "where": ["year>=20"], "fields": ["year"]}
    items = here.post("/recommend", json=body).json()["lists"][0]["items"]
    assert all(f"i{each['fields']['year']}" == each["id"] for each in items)
    assert {each["id"] for each in items} | set(shown) == {f"i{n}" for n in range(20, N_ITEMS)} - {
        "i25"
    }


def test_hidden_and_expired_items_are_in_no_list(
    model: mfrank.ALS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A date without a time is the whole day; a time without a zone is UTC."""
    hidden = [1 if n == 0 else 0 if n < 5 else None for n in range(N_ITEMS)]
    until: list[Any] = [None] * N_ITEMS
    since: list[Any] = [None] * N_ITEMS
    until[1], until[2] = "2030-01-01", "2030-01-01T10:00:00+02:00"
    since[3] = "2030-01-02"
    here = service(model, table(hidden=hidden, available_until=until, available_from=since))
    day = datetime(2030, 1, 1, tzinfo=UTC)
    for moment, gone in (
        (day, {"i0", "i3"}),
        (day + timedelta(hours=8), {"i0", "i3"}),
        (day + timedelta(hours=8, seconds=1), {"i0", "i2", "i3"}),
        (day + timedelta(days=1) - timedelta(seconds=1), {"i0", "i2", "i3"}),
        (day + timedelta(days=1), {"i0", "i1", "i2"}),
        (day - timedelta(days=9), {"i0", "i3"}),
    ):
        monkeypatch.setattr(of_items.time, "time", lambda moment=moment: moment.timestamp())
        for items in every_route(here):
            assert not gone & set(items), moment
        there = listed(here.get(f"/recommend/u1?n={N_ITEMS}&include_seen=true"))
        assert set(there) == {f"i{n}" for n in range(N_ITEMS)} - gone
        assert here.get("/health").json()["catalogue"]["listed"] == N_ITEMS - len(gone)


def test_dates_are_compared_as_days_and_moments(model: mfrank.ALS) -> None:
    days = pd.date_range("2024-01-01", periods=N_ITEMS)
    here = service(model, table(day=days, moment=[f"{d:%Y-%m-%d}T12:00:00" for d in days]))
    for condition, count in {
        "day=2024-01-03": 1,
        "moment=2024-01-03": 1,
        "moment=2024-01-03T12:00": 1,
        "moment=2024-01-03T12:01": 0,
        "day<=2024-01-03": 3,
        "moment<=2024-01-03": 3,
        "moment<2024-01-03": 2,
        "moment>2024-01-03": N_ITEMS - 3,
        "moment>=2024-01-03": N_ITEMS - 2,
        "day!=2024-01-03": N_ITEMS - 1,
    }.items():
        url = f"/recommend/u0?n={N_ITEMS}&include_seen=true&where={quote(condition)}"
        assert len(listed(here.get(url))) == count, condition


def test_fields_are_added_as_the_table_has_them(model: mfrank.ALS, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    rows = ["item_id,title,year,tags,free", *(f'i{n},"T, {n}",{1990 + n},a|b,true' for n in (0, 1))]
    path.write_text("\n".join([*rows, "other,O,,,"]))
    here = service(model, path)
    told = {
        "i0": {"title": "T, 0", "year": 1990, "tags": ["a", "b"], "free": True},
        "i5": {"title": None, "year": None, "tags": None, "free": None},
    }
    got = here.get(
        f"/recommend/u1?n={N_ITEMS}&include_seen=true&fields=title,year&fields=tags,free"
    )
    by_id = {each["id"]: each["fields"] for each in got.json()["items"]}
    assert {name: by_id[name] for name in told} == told
    body = {"from_items": ["i2"], "fields": ["title"], "items": ["i0"]}
    assert here.post("/recommend", json=body).json()["lists"][0]["items"][0]["fields"] == {
        "title": "T, 0"
    }
    similar = here.get(f"/similar/i2?n={N_ITEMS}&fields=title").json()["items"]
    assert {each["id"]: each["fields"]["title"] for each in similar}["i1"] == "T, 1"
    about = here.get("/health").json()["catalogue"]
    assert (about["rows"], about["items_without_row"]) == (3, N_ITEMS - 2)
    assert about["rows_without_item"] == 1


def _tables(frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """One table by every door."""
    frame.to_csv(folder / "items.csv", index=False)
    frame.to_parquet(folder / "items.parquet")
    polars, arrow = pl.from_pandas(frame), pa.Table.from_pandas(frame)
    files = {suffix: folder / f"items.{suffix}" for suffix in ("csv", "parquet")}
    return {**files, "pandas": frame, "polars": polars, "arrow": arrow}


@pytest.mark.parametrize("door", ["csv", "parquet", "pandas", "polars", "arrow"])
@pytest.mark.parametrize("is_missing", [False, True])
def test_whole_numbers_are_told_as_they_are(
    model: mfrank.ALS, tmp_path: Path, is_missing: bool, door: str
) -> None:
    """Long ones are told apart, also beside a missing one, which makes floats of the others."""
    numbers = np.arange(N_ITEMS)
    frame = table(
        sku=pd.array(2**53 + numbers, dtype="Int64"), year=pd.array(numbers, dtype="Int64")
    )
    if is_missing:
        frame.loc[3, ["sku", "year"]] = pd.NA
    here = service(model, _tables(frame, tmp_path)[door])
    url = f"/recommend/u0?n={N_ITEMS}&include_seen=true&fields=sku,year&where=sku="
    answer = here.get(f"{url}{2**53 + 7}")
    (found,) = answer.json()["items"]
    assert (found["id"], found["fields"]) == ("i7", {"sku": str(2**53 + 7), "year": 7})
    assert '"year":7}' in answer.text


def test_levers_go_by_columns(model: mfrank.ALS) -> None:
    here = service(model, table(kind=["a", "b", "c"] * (N_ITEMS // 3)))
    ask = {"users": ["u1"], "n": 6, "include_seen": True}
    capped = here.post("/recommend", json={**ask, "at_most": {"kind": 2}}).json()["lists"][0]
    kinds = [int(each["id"][1:]) % 3 for each in capped["items"]]
    assert sorted(kinds) == [0, 0, 1, 1, 2, 2]
    lifted = here.post("/recommend", json={**ask, "boosts_where": {"kind=c": 900}}).json()
    assert {int(each["id"][1:]) % 3 for each in lifted["lists"][0]["items"]} == {2}
    assert here.post("/recommend", json={**ask, "at_most": {"kind": 1, "x": 2}}).status_code == 422


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("where=none=1", "none"),
        ("where=year", "year"),
        ("where=year>=", "year"),
        ("where=year>=soon", "soon"),
        ("where=year>=1,2", "year"),
        ("where=year=nan", "nan"),
        ("where=kind>a", "kind"),
        ("fields=price", "price"),
    ],
)
def test_what_a_condition_cannot_mean_is_refused(model: mfrank.ALS, asked: str, named: str) -> None:
    here = service(model, table(year=1990, kind="a"))
    answer = here.get(f"/recommend/u1?{asked}")
    assert answer.status_code == 422
    assert named in answer.json()["error"]
    name, _, value = asked.partition("=")
    body = {"users": ["u1"], name: [value]}
    assert here.post("/recommend", json=body).status_code == 422
    assert here.get(f"/similar/i1?{asked}").status_code == 422


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ("kind=comedy", "write 'Comedy'"),
        ("kind=drama,Comedy", "write ' Drama'"),
        ("kind!=COMEDY", "write 'Comedy'"),
        ("code=7", "write '007'"),
        ("kind='Comedy'", "write 'Comedy'"),
        ("kind==Comedy", "write 'Comedy'"),
        ("kind=Come\u0301die", "write 'Com\xe9die'"),
        ("genres=x|y", "write genres=x,y"),
        ("genres=X", "write 'x'"),
    ],
)
def test_a_value_of_another_spelling_is_refused(model: mfrank.ALS, asked: str, remedy: str) -> None:
    kinds = ["Comedy", " Drama", "Com\xe9die"] * (N_ITEMS // 3)
    here = service(model, table(kind=kinds, code="007", genres="x|y"))
    answer = here.get(f"/recommend/u1?where={quote(asked)}")
    assert answer.status_code == 422
    assert remedy.replace("' Drama'", "'Drama'") in answer.json()["error"]
    assert listed(here.get("/recommend/u1?where=kind=Tragedy")) == []  # no item is one


def test_two_values_of_a_column_that_no_item_has_at_once_are_refused(model: mfrank.ALS) -> None:
    """Where several conditions are meant as either; of lists, an item may have both."""
    numbers, days = list(range(N_ITEMS)), ["2024-01-31", "2024-02-13"] * (N_ITEMS // 2)
    columns = {"kind": ["A", "B"] * 15, "tags": ["x|y", "z"] * 15, "day": days, "n": numbers}
    here = service(model, table(**columns))
    for both, either in (
        (["kind=A", "kind=B"], "kind=A,B"),
        (["n>1", "n=4", "kind=A", "n=7"], "n=4,7"),
        (["day=2024-01-31", "day=2024-02-13"], "day=2024-01-31,2024-02-13"),
    ):
        body = {"users": ["u1"], "where": both, "include_seen": True}
        answer = here.post("/recommend", json=body)
        assert answer.status_code == 422
        assert f"write {either} for items with any" in answer.json()["error"]
        where = [either if each == both[-1] else each for each in both if each[0] != either[0]]
        assert set().union(*every_route(here, [*where, either]))
    for where in (
        ["tags=x", "tags=z"],
        ["kind=A", "kind=C"],
        ["n>4", "n<2"],
        ["kind=A", "kind!=A"],
    ):
        assert every_route(here, where) == [[]] * len(every_route(here))
    assert every_route(here, ["kind=A,B", "kind=B"])[0]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"price": ["12,50", "9,99"] * 15}, "'price' is not read as numbers"),
        ({"year": [*map(str, range(1990, 2019)), "soon"]}, "texts like 'soon'"),
        ({"out": ["2024-01-31", "2024-02-01", "never"] * 10}, "texts like 'never'"),
        ({"genres": ["x, y", "y, x", "z"] * 10}, "join their parts by |"),
        ({"genres": ["['x', 'y']", "['y']"] * 15}, "join their parts by |"),
        ({"kind": ["film", "Film"] * 15}, "'film' and 'Film'"),
        ({"kind": ["film", "series"] * 15, "title": "Heat"}, None),
    ],
)
def test_columns_that_probably_mean_something_else_are_told(
    model: mfrank.ALS, columns: dict[str, Any], told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    service(model, table(**columns))
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(warned) == (told is not None)
    assert told is None or told in warned[0]


PAST = "2020-01-01"


@pytest.mark.parametrize(
    ("columns", "n_listed"),
    [
        ({"hidden": [True, False] * 15}, 15),
        ({"Hidden": [1, 0, 0] * 10}, 20),
        ({"hidden": [1] * 30}, 0),
        ({"available_until": [PAST] * 30}, 0),
        ({"availableUntil": [PAST, None] * 15}, 15),
        ({"Available-From": ["2999-01-01"] * 30}, 0),
        ({"hidden": [False] * 30}, 30),
        ({"hidden2": [1] * 30}, 30),
    ],
)
def test_how_many_items_may_be_listed_is_told(
    model: mfrank.ALS, columns: dict[str, Any], n_listed: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "mfrank.serving"):
        here = service(model, table(**columns))
    assert len(listed(here.get("/recommend/u1?n=100&include_seen=true"))) == n_listed
    told = [each for each in caplog.records if "may be listed now" in each.getMessage()]
    assert len(told) == (n_listed < 30)
    for each in told:
        assert f"{n_listed or 'none'} of 30 items" in each.getMessage()
        assert each.levelname == ("INFO" if n_listed else "WARNING")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"is_hidden": [1, 0] * 15}, ["is_hidden"]),
        ({"inStock": [True, False] * 15, "valid_until": [PAST] * 30}, ["inStock", "valid_until"]),
        ({"available": [0.0, 1.0] * 15}, ["available"]),
        ({"hidden": [True, False] * 15, "available_until": [PAST] * 30}, []),
        ({"stock": list(range(30)), "released": [PAST] * 30, "is_new": [1, 0] * 15}, []),
    ],
)
def test_columns_that_decide_nothing_are_told(
    model: mfrank.ALS, columns: dict[str, Any], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "mfrank.serving"):
        service(model, table(**columns))
    lines = [each for each in caplog.messages if "decide what is listed" in each]
    assert len(lines) == bool(told)
    assert all(repr(name) in line for line in lines for name in told)


def test_a_name_of_a_column_has_no_blanks_around_it(model: mfrank.ALS) -> None:
    here = service(model, table(**{" year ": 1990}))
    assert len(listed(here.get("/recommend/u1?where=year=1990"))) == 10
    with refuses(ValueError, "items", remedy="rename one"):
        service(model, table(**{" year": 1990, "year ": 1991}))


def test_a_service_without_a_table_says_so(model: mfrank.ALS) -> None:
    here = service(model, None)
    for asked in ("where=year>1", "fields=title"):
        answer = here.get(f"/recommend/u1?{asked}")
        assert answer.status_code == 422
        assert "--items" in answer.json()["error"]
    assert "catalogue" not in here.get("/health").json()


@pytest.mark.parametrize(
    "columns",
    [{"hidden": "maybe"}, {"available_until": "soon"}, {"available_from": 5.0}],
    ids=str,
)
def test_columns_that_decide_what_is_listed_must_be_read(
    model: mfrank.ALS, columns: dict[str, Any]
) -> None:
    with refuses(ValueError, "items", remedy="rename"):
        service(model, table(**columns))


def test_the_value_that_spoils_a_column_is_named(model: mfrank.ALS) -> None:
    ends = ["2030-01-31"] * (N_ITEMS - 1) + ["never"]
    with pytest.raises(ValueError, match="'never'"):
        service(model, table(available_until=ends))


def test_a_table_of_other_items_is_refused(model: mfrank.ALS) -> None:
    other = pd.DataFrame({"item_id": ["x", "y"], "year": [1, 2]})
    with refuses(ValueError, "items"):
        service(model, other)


def test_a_newer_table_is_read_and_a_broken_one_is_not(model: mfrank.ALS, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item_id,hidden\ni0,true\ni1,false\n")
    application = serving.app(model, items=path)
    live, here = application.state.live, TestClient(application, base_url="http://localhost")

    def replace(text: str) -> None:
        path.with_suffix(".new").write_text(text)
        os.replace(path.with_suffix(".new"), path)
        live.refresh()

    url = f"/recommend/u1?n={N_ITEMS}&include_seen=true"
    assert "i0" not in listed(here.get(url))
    replace("item_id,hidden\ni0,false\ni1,true\n")
    assert "i0" in listed(here.get(url))
    assert "i1" not in listed(here.get(url))
    for broken in ("item_id,hidden\ni0,perhaps\n", "", "item_id,hidden\ni0\n"):
        replace(broken)
        assert "i1" not in listed(here.get(url))
        about = here.get("/health").json()["catalogue"]
        assert about["reload_error"]
    assert (about["reloads"], about["failed_reloads"]) == (1, 3)
    replace("item_id,hidden\ni0,false\ni1,false\n")
    assert len(listed(here.get(url))) == N_ITEMS
    assert json.loads(here.get("/health").text)["catalogue"]["reload_error"] is None


def test_a_table_that_is_gone_is_told_once_and_stays(
    model: mfrank.ALS, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, text = tmp_path / "items.csv", "item_id,hidden\ni0,true\ni1,false\n"
    path.write_text(text)
    application = serving.app(model, items=path)
    live, here = application.state.live, TestClient(application, base_url="http://localhost")
    path.unlink()
    for _ in range(3):
        live.refresh()
    (told,) = [each for each in caplog.messages if "still count" in each]
    assert "items.csv" in told
    assert "i0" not in listed(here.get(f"/recommend/u1?n={N_ITEMS}&include_seen=true"))
    about = here.get("/health").json()["catalogue"]
    assert about["failed_reloads"] == 1
    assert "items.csv" in about["reload_error"]
    path.write_text(text)
    live.refresh()
    about = here.get("/health").json()["catalogue"]
    assert (about["reloads"], about["reload_error"]) == (1, None)
