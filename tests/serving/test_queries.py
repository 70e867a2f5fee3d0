"""What a query may hold, and what it may not."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from clients import application, ask, client, kinds, model, named
from hypothesis import example, given
from hypothesis import strategies as st

from mfrank import serving

KNOWN = (
    *("n", "filter_items", "items", "include_seen", "diversity", "popularity_penalty"),
    "on_unknown",
)
USER = str(named().user_ids.labels[-1])
ITEMS = named().item_ids.labels.tolist()
names = st.sampled_from([*KNOWN, "N", "n ", " n", "filter_item", "top", "", "user", "n[]", "é"])
values = (
    st.integers(-3, 60).map(str)
    | st.integers().map(str)
    | st.sampled_from(["", "+5", " 5", "5.0", "1e1", "0x5", "05", "1_0", "9" * 5000, "nan", "inf"])
    | st.sampled_from(["true", "error", "skip", "0.5", "1.5", "\u0665", ITEMS[0], "expired"])
    | st.text(max_size=4)
)
pairs = st.lists(st.tuples(names, values), max_size=3)
spelled = st.sampled_from([lambda text: quote(text, safe=""), lambda text: quote(text, safe="+ ")])
raw = st.text("n=&;%+5aF\xe9\x00", max_size=12).map(lambda text: text.encode("latin-1"))
users = st.sampled_from(
    ["%s", "%s%%20", "%s/", "nobody", "%%FF", "+", "%%2F", "1", "1.0", "%%C3%%A9"]
)


def query_of(given: list[tuple[str, str]], spell: Any) -> bytes:
    return "&".join(f"{spell(name)}={spell(value)}" for name, value in given).encode(
        "utf-8", "surrogatepass"
    )


queries = (
    raw | st.builds(query_of, pairs, spelled) | st.integers(-2, 10**9).map(lambda n: b"n=%d" % n)
)


@given(st.sampled_from(["ALS", "ItemKNN", "numbered"]), st.sampled_from([4, 50]), users, queries)
@example("ALS", 4, "%s", b"")
@example("ALS", 50, "%s", b"n=5&n=6")
@example("ALS", 50, "%s", b"n=0")
@example("ALS", 50, "%s", b"n=1000000000")
@example("ALS", 50, "%s", b"n=-1")
@example("ALS", 50, "%s", b"nn=5")
@example("ALS", 50, "%s", b"n=%35")
def test_every_query_has_an_answer_that_says_what_is_wrong(
    kind: str, max_n: int, user: str, query: bytes
) -> None:
    path = b"/recommend/" + (user % USER if "%s" in user else user.replace("%%", "%")).encode()
    answer = ask(application(kind, max_n), path, query)
    assert answer.status in (200, 307, 404, 422)
    if answer.status == 200:
        assert len(json.loads(answer.body)["items"]) <= max_n
    elif answer.status != 307:
        assert json.loads(answer.body)["error"]


@pytest.mark.parametrize("spelled", [b"\xc3\xa9", b"%C3%A9", b"%c3%a9"])
@pytest.mark.parametrize("query", [b"", b"n=3", b"include_seen=true"])
def test_letters_of_an_id_are_read_quoted_or_not(spelled: bytes, query: bytes) -> None:
    answer = ask(application("ALS"), b"/recommend/" + spelled, query)
    assert (answer.status, json.loads(answer.body)["ids"]) == (404, ["\xe9"])


@given(pairs, spelled)
def test_a_query_is_taken_as_it_stands_or_refused(given: Any, spell: Any) -> None:
    """Never a part of it: no unknown name, no second value, is left out in silence."""
    answer = ask(application("ALS"), f"/recommend/{USER}".encode(), query_of(given, spell))
    # A name or value with a plus that is not quoted has a space there.
    unknown = [name for name, _ in given if name not in KNOWN]
    single = [name for name, _ in given if name not in ("filter_items", "items")]
    if unknown or len(set(single)) < len(single):
        assert answer.status == 422
        sentence = json.loads(answer.body)["error"]
        named_one = [
            name for name in unknown or single if name in sentence or repr(name) in sentence
        ]
        assert named_one
        if unknown:
            assert all(name in sentence for name in KNOWN)


@pytest.mark.parametrize(
    "path",
    [
        f"/recommend/{USER}",
        f"/similar/{ITEMS[0]}",
        f"/score/{USER}?item={ITEMS[0]}",
        f"/explain/{USER}/{ITEMS[0]}",
    ],
)
def test_every_route_refuses_what_it_does_not_know_and_names_it(path: str) -> None:
    asked = client(model())
    assert asked.get(path).status_code == 200
    refused = asked.get(path, params={**dict(_params(path)), "top_n": "3"})
    assert refused.status_code == 422
    assert "'top_n'" in refused.json()["error"]
    refused = asked.post("/recommend?n=3", json={"users": [USER]})
    assert refused.status_code == 422
    assert "'n'" in refused.json()["error"]


def _params(path: str) -> list[tuple[str, str]]:
    query = path.partition("?")[2]
    return [tuple(each.split("=")) for each in query.split("&") if each]  # type: ignore[misc]


@pytest.mark.parametrize("kind", kinds)
def test_one_expired_id_does_not_cost_the_list(kind: str) -> None:
    asked, served = client(model(kind)), model(kind)
    user, item = served.user_ids.labels[5], served.item_ids.labels[2]
    path = f"/recommend/{user}"
    for name in ("filter_items", "items"):
        both = {name: ["expired", str(item)]}
        assert asked.get(path, params=both).status_code == 404
        skipped = asked.get(path, params={**both, "on_unknown": "skip"})
        assert skipped.status_code == 200
        assert skipped.content == asked.get(path, params={name: str(item)}).content
        body = {"users": [served.user_ids.labels[5:6].tolist()[0]], **both}
        body[name] = ["expired", served.item_ids.labels[2:3].tolist()[0]]
        assert asked.post("/recommend", json=body).status_code == 404
        batch = asked.post("/recommend", json={**body, "on_unknown": "skip"})
        assert batch.json()["lists"] == [skipped.json()]
    nobody = asked.get("/recommend/nobody?on_unknown=skip")
    assert (nobody.status_code, nobody.json()) == (200, {"user": "nobody", "items": []})
    assert asked.get(path, params={"on_unknown": "ignore"}).status_code == 422


def test_an_expired_id_among_boosts_is_skipped_too() -> None:
    for kind in ("ALS", "numbered"):
        served = model(kind)
        asked = {"users": served.user_ids.labels[5:6].tolist(), "boosts": {"expired": 2.0}}
        refused = client(served).post("/recommend", json=asked)
        assert refused.status_code == 404
        skipped = client(served).post("/recommend", json={**asked, "on_unknown": "skip"})
        assert skipped.status_code == 200


def test_letters_that_a_client_did_not_quote_are_read() -> None:
    """Curl sends the letters of an id as they are, in UTF-8."""
    path = f"/recommend/{USER}".encode()
    for spelled in (b"filter_items=\xc3\xa9", b"filter_items=%C3%A9"):
        answer = ask(application("ALS"), path, spelled)
        assert json.loads(answer.body)["ids"] == ["\xe9"]


def test_a_list_has_ten_places_by_default_or_as_many_as_are_served() -> None:
    for max_n, n in ((1000, 10), (4, 4)):
        asked = client(model(), limits=serving.Limits(max_n=max_n))
        batch = asked.post("/recommend", json={"users": [USER]}).json()["lists"][0]
        for listed in (asked.get(f"/recommend/{USER}"), asked.get(f"/similar/{ITEMS[0]}")):
            assert len(listed.json()["items"]) == len(batch["items"]) == n


def test_lists_of_a_query_are_limited() -> None:
    asked = client(model(), limits=serving.Limits(max_batch=3))
    for n, status in ((3, 200), (4, 422)):
        answer = asked.get(f"/recommend/{USER}", params={"filter_items": ITEMS[:n]})
        assert answer.status_code == status
