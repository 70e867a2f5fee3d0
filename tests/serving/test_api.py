"""The JSON API: it answers what the model answers, and refuses with a status and a sentence."""

from __future__ import annotations

import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from clients import client, kinds, model, named
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank import serving
from mfrank.serving.answers import dump

ODD = "a/b c?d=%41&é<b>"


@pytest.fixture(scope="module")
def api() -> Any:
    return client(model())


def first_user() -> str:
    return str(named().user_ids.labels[-1])


def items() -> list[str]:
    return list(named().item_ids.labels.tolist())


def ids(answer: Any) -> list[Any]:
    return [each["id"] for each in answer["items"]]


@pytest.mark.parametrize("kind", kinds)
def test_lists_are_the_models_own(kind: str) -> None:
    for user in model(kind).user_ids.labels[:4].tolist():
        answer = client(model(kind)).get(f"/recommend/{quote(str(user), safe='')}?n=5")
        assert answer.status_code == 200
        expected = model(kind).recommend(user, N=5).to_dicts()
        assert answer.json()["user"] == user
        assert ids(answer.json()) == [each["id"] for each in expected]
        scores = [each["score"] for each in answer.json()["items"]]
        np.testing.assert_allclose(scores, [each["score"] for each in expected], rtol=1e-5)


def test_an_id_may_have_every_character_of_a_url(api: Any) -> None:
    answer = api.get(f"/recommend/{quote(ODD, safe='')}")
    assert answer.status_code == 200
    assert answer.json()["user"] == ODD
    item = ids(answer.json())[0]
    assert api.get(f"/explain/{quote(ODD, safe='')}/{item}").json()["user"] == ODD


# Clients resolve "." and ".." themselves: such an id is asked for by POST.
@given(st.text(min_size=1, max_size=8).filter(lambda text: text not in (".", "..")))
def test_whatever_the_user_the_answer_is_json(api: Any, text: str) -> None:
    path = quote(text, safe="", errors="surrogatepass")
    answer = api.get(f"/recommend/{path}")
    assert answer.status_code in (200, 404)
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) in ({"user", "items"}, {"error"}, {"error", "ids"})


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/recommend/nobody", 404, "unknown ids: 'nobody'"),
        ("/recommend/user-0?n=0", 422, "n: "),
        ("/recommend/user-0?n=x", 422, "got 'x'"),
        ("/recommend/user-0?n=1001", 422, "at most 1000"),
        ("/recommend/user-0?items=nothing", 404, "nothing"),
        ("/recommend/user-0?filter_items=nothing", 404, "nothing"),
        ("/similar/nothing", 404, "nothing"),
        ("/similar/item-0?n=-1", 422, "n: "),
        ("/score/user-0", 422, "item: "),
        ("/score/nobody?item=item-0", 404, "nobody"),
        ("/score/user-0?item=nothing", 404, "nothing"),
        ("/explain/nobody/item-0", 404, "nobody"),
        ("/explain/user-0/nothing", 404, "nothing"),
        ("/explain/user-0/item-0?n=0", 422, "n: "),
        ("/nowhere", 404, "Not Found"),
        ("/recommend/", 405, "Not Allowed"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(api: Any, path: str, status: int, words: str) -> None:
    answer = api.get(path.replace("user-0", first_user()).replace("item-0", items()[0]))
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


def test_filters_of_a_list(api: Any) -> None:
    path = f"/recommend/{first_user()}?n=20"
    every, seen = ids(api.get(path).json()), ids(api.get(path + "&include_seen=true").json())
    assert set(seen) == set(items())
    assert set(every) < set(seen)
    assert ids(api.get(f"{path}&filter_items={every[0]}").json()) == every[1:]
    some = api.get(f"{path}&items={every[2]}&items={every[1]}").json()
    assert ids(some) == every[1:3]


@pytest.mark.parametrize(
    "levers",
    [
        {"diversity": 0.9},
        {"popularity_penalty": 3.0},
        {"diversity": 0.4, "popularity_penalty": 0.5},
        {"boosts": {items()[0]: 900.0}},
    ],
    ids=str,
)
def test_lists_are_steered(api: Any, levers: dict[str, Any]) -> None:
    served, user, liked = model(), first_user(), items()[1:3]
    steer = mfrank.Steering(**levers)
    of_user = served.recommend(user, steer=steer).ids.tolist()
    of_items = served.recommend_from_items(liked, steer=steer).ids.tolist()
    assert (of_user, of_items) != (
        served.recommend(user).ids.tolist(),
        served.recommend_from_items(liked).ids.tolist(),
    )
    got = api.post("/recommend", json={"users": [user], **levers}).json()
    assert ids(got["lists"][0]) == of_user
    got = api.post("/recommend", json={"from_items": liked, **levers}).json()
    assert ids(got["lists"][0]) == of_items
    if "boosts" not in levers:
        assert ids(api.get(f"/recommend/{user}", params=levers).json()) == of_user


def test_levers_have_bounds(api: Any) -> None:
    for wrong in (
        *({"diversity": 1.1}, {"diversity": -0.1}),
        *({"popularity_penalty": -0.1}, {"popularity_penalty": 1000.1}),
    ):
        assert api.get(f"/recommend/{first_user()}", params=wrong).status_code == 422
        body = {"users": [first_user()], **wrong}
        assert api.post("/recommend", json=body).status_code == 422


def test_similar_items_leave_the_item_out(api: Any) -> None:
    item = items()[0]
    answer = api.get(f"/similar/{item}?n=100").json()
    assert answer["item"] == item
    assert sorted([item, *ids(answer)]) == sorted(items())


def test_scores_are_those_of_the_list(api: Any) -> None:
    listed = api.get(f"/recommend/{first_user()}?n=3").json()["items"]
    query = "&".join(f"item={each['id']}" for each in reversed(listed))
    scores = api.get(f"/score/{first_user()}?{query}").json()["items"]
    assert [each["id"] for each in scores] == [each["id"] for each in reversed(listed)]
    for one, other in zip(reversed(listed), scores, strict=True):
        assert one["score"] == pytest.approx(other["score"], rel=1e-5)


@pytest.mark.parametrize("n", [1, 100])
def test_an_explanation_sums_to_the_score(api: Any, n: int) -> None:
    why = api.get(f"/explain/{first_user()}/{items()[0]}?n={n}").json()
    parts = math.fsum(each["contribution"] for each in why["contributions"])
    assert parts + why["baseline"] + why["others"] == pytest.approx(why["score"], abs=1e-9)
    assert len(why["contributions"]) <= n


def test_a_walk_explains_itself_by_paths() -> None:
    data = named()
    times = np.arange(data.nnz) * 7 % 31
    timed = mfrank.Interactions.from_arrays(
        data.user_ids.labels[data.entry_users],
        data.item_ids.labels[data.user_items.indices],
        None,
        times,
    )
    walk = client(mfrank.SupervisedPageRank(random_state=0).fit(timed))
    why = walk.get(f"/explain/{first_user()}/{items()[0]}?n=3").json()
    assert all(path["items"][-1] == items()[0] for path in why["paths"])
    masses = math.fsum(path["mass"] for path in why["paths"])
    assert masses + why["others"] == pytest.approx(why["score"])


def bare() -> mfrank.Recommender:
    """Factors alone, of which nothing says how users follow from their items."""
    return mfrank.Recommender.of(model("ALS").store)


def test_who_cannot_explain_says_so() -> None:
    answer = client(bare()).get(f"/explain/{first_user()}/{items()[0]}")
    assert answer.status_code == 501
    assert "Recommender does not explain" in answer.json()["error"]


@pytest.mark.parametrize("kind", ["Descent", "ItemKNN", "Popularity"])
def test_the_parts_of_a_sum_add_up_to_the_score(kind: str) -> None:
    user, item = first_user(), items()[0]
    why = client(model(kind)).get(f"/explain/{quote(user, safe='')}/{item}?n=3").json()
    parts = math.fsum(each["contribution"] for each in why["contributions"])
    assert parts + why["baseline"] + why["others"] == pytest.approx(why["score"])
    assert why["score"] == pytest.approx(float(model(kind).score([user], [item])[0]))


def test_batches_are_the_single_lists(api: Any) -> None:
    users = named().user_ids.labels[:7].tolist()
    lists = api.post("/recommend", json={"users": users, "n": 4}).json()["lists"]
    assert [each["user"] for each in lists] == users
    for each in lists:
        single = api.get(f"/recommend/{quote(each['user'], safe='')}?n=4").json()
        assert ids(each) == ids(single)


def test_a_batch_may_be_empty_or_skip_the_unknown(api: Any) -> None:
    assert api.post("/recommend", json={"users": []}).json() == {"lists": []}
    asked = {"users": ["nobody", first_user()], "on_unknown": "skip"}
    nobody, known = api.post("/recommend", json=asked).json()["lists"]
    assert nobody == {"user": "nobody", "items": []}
    assert len(known["items"]) > 0


@pytest.fixture(scope="module")
def by_number() -> Any:
    """A service whose ids are row numbers, as after a fit to a matrix or a file of ids 0, 1, 2."""
    data = mfrank.synthetic(30, 20, 300, random_state=0)
    return client(mfrank.ALS(factors=4, iterations=2, random_state=0).fit(data))


@pytest.mark.parametrize(
    "path",
    [
        "/recommend/nobody",
        "/recommend/1.5",
        "/recommend/-1",
        "/recommend/99999999999999999999",
        "/recommend/0?items=nothing",
        "/similar/nothing",
        "/score/0?item=nothing",
        "/explain/0/nothing",
    ],
)
def test_a_text_is_unknown_where_ids_are_row_numbers(by_number: Any, path: str) -> None:
    answer = by_number.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"].startswith("unknown ids: ")


@pytest.mark.parametrize(
    "body",
    [
        {"users": ["nobody"]},
        {"users": [0], "items": ["nothing"]},
        {"users": [0], "filter_items": [["nothing"]]},
        {"users": [0], "boosts": {"nothing": 1}},
        {"from_items": ["nothing"]},
    ],
)
def test_so_it_is_in_a_batch(by_number: Any, body: dict[str, Any]) -> None:
    answer = by_number.post("/recommend", json=body)
    assert answer.status_code == 404
    assert "unknown ids: 'no" in answer.json()["error"]


def test_and_there_it_may_be_skipped(by_number: Any) -> None:
    def lists(**asked: Any) -> Any:
        answer = by_number.post("/recommend", json={**asked, "on_unknown": "skip"})
        assert answer.status_code == 200
        return answer.json()["lists"]

    nobody, known = lists(users=["nobody", 0], filter_items=["nothing", 3])
    assert nobody == {"user": "nobody", "items": []}
    assert known == lists(users=[0], filter_items=[3])[0]
    assert lists(from_items=["nothing", 1]) == lists(from_items=[1])


def test_a_batch_has_filters_for_all_or_for_each(api: Any) -> None:
    users = named().user_ids.labels[-2:].tolist()
    asked = {"users": users, "n": 20, "include_seen": True}
    for blocked in (items()[:3], [items()[:3], items()[3:]]):
        lists = api.post("/recommend", json={**asked, "filter_items": blocked}).json()["lists"]
        for place, each in enumerate(lists):
            own = blocked[place] if isinstance(blocked[0], list) else blocked
            assert set(ids(each)) == set(items()) - set(own)


@pytest.mark.parametrize("kind", ["ALS", "ItemKNN", "Popularity"])
def test_somebody_new_is_not_recommended_what_they_like(kind: str) -> None:
    liked = items()[:3]
    asked = {"from_items": liked, "weights": [1, 2.5, 1], "n": 20}
    answer = client(model(kind)).post("/recommend", json=asked)
    assert answer.status_code == 200, answer.text
    (listed,) = answer.json()["lists"]
    assert listed["user"] is None
    assert set(ids(listed)) == set(items()) - set(liked)


def test_weights_of_somebody_new_are_the_values_of_the_fold_in() -> None:
    served = model("WRMF")
    asked = {"from_items": items()[:2], "weights": [1, 9], "n": 5}
    answer = client(served).post("/recommend", json=asked)
    expected = served.recommend_from_items(items()[:2], 5, values=[1, 9]).to_dicts()
    assert answer.json() == {"lists": [{"user": None, "items": expected}]}


def test_factors_alone_cannot_rank_for_somebody_new() -> None:
    answer = client(bare()).post("/recommend", json={"from_items": items()[:1]})
    assert answer.status_code == 501


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "either users or from_items"),
        ({"users": ["a"], "from_items": ["b"]}, "either users or from_items"),
        ({"users": ["a"], "weights": [1]}, "weights go with from_items"),
        ({"from_items": ["item"], "include_seen": True}, "include_seen goes with users"),
        ({"from_items": ["item"], "weights": "x"}, "weights"),
        ({"users": ["a"], "n": 0}, "n: "),
        ({"users": [True]}, "users"),
        ({"users": "alice"}, "users"),
        ({"user": ["a"]}, "user"),
        ({"users": ["a"] * 1001}, "at most 1000"),
        ({"users": ["a"], "items": [["b"] * 600, ["c"] * 600]}, "at most 1000"),
        ([], "body"),
    ],
)
def test_a_batch_is_checked_before_any_work(api: Any, body: Any, words: str) -> None:
    answer = api.post("/recommend", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]


@pytest.mark.parametrize("text", ["{", '{"users": [NaN]}', "", '{"users": ["a"], "n": 1e999}'])
def test_a_body_that_is_no_json_is_refused(api: Any, text: str) -> None:
    answer = api.post("/recommend", content=text, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]


class Slow(mfrank.Recommender):
    """A model that takes its time."""

    def recommend(self, *args: Any, **options: Any) -> Any:
        time.sleep(0.3)
        return super().recommend(*args, **options)


def slow(**limits: Any) -> Any:
    """A client of a slow model."""
    made = Slow()
    made._adopt(model().store)
    return client(made, limits=serving.Limits(**limits))


def test_who_comes_when_too_many_wait_is_503() -> None:
    asked, path = slow(max_waiting=1), f"/recommend/{first_user()}?include_seen=true"
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(asked.get, [path] * 4))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses[0] == 200
    assert statuses[-1] == 503
    assert asked.get(path).status_code == 200  # nobody waits anymore


def test_an_answer_that_takes_too_long_is_503() -> None:
    answer = slow(max_seconds=0.05).get(f"/recommend/{first_user()}?include_seen=true")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"


def test_a_model_without_histories_says_how_to_ask() -> None:
    bare = client(mfrank.Recommender.of(model().store))
    refused = bare.get(f"/recommend/{first_user()}")
    assert refused.status_code == 422
    assert "include_seen=true" in refused.json()["error"]
    assert bare.get(f"/recommend/{first_user()}?include_seen=true").status_code == 200


def test_docs_tell_every_route_and_load_nothing_from_elsewhere(api: Any) -> None:
    page, openapi = api.get("/docs").text, api.get("/openapi.json").json()
    for path in openapi["paths"]:
        assert path in page
    assert "http" not in page
    assert page.count("<script") == page.count('<script src="docs.js"') == 1
    style = api.get("/docs.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "table {" in style.text


def test_every_answer_tells_browsers_to_run_nothing(api: Any) -> None:
    for path in ("/docs", "/health", "/nowhere"):
        headers = api.get(path).headers
        policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert set(policy.values()) == {"'none'", "'self'"}
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@given(
    st.recursive(
        st.none() | st.text() | st.floats() | st.integers(), lambda more: st.lists(more, max_size=3)
    )
)
def test_json_never_has_what_json_does_not_have(value: Any) -> None:
    text = dump({"score": value}).decode("ascii")
    json.loads(text, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize("ids", [[0, 1, 2, 3], [3, 7, 9, 11]])
def test_numbers_are_asked_for_in_one_way_whatever_they_are(ids: list[int]) -> None:
    """In a URL as Python prints them; in a body as whole numbers of JSON."""
    data = mfrank.Interactions.from_arrays(ids * 2, ids + ids[1:] + ids[:1])
    asked = client(mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data))
    known = ids[1]
    assert asked.get(f"/recommend/{known}").status_code == 200
    for other in (f"{known}.0", f"0{known}", f"+{known}", "true", "null", f"{known}%20"):
        assert asked.get(f"/recommend/{other}").status_code == 404
    for body, status in (([known], 200), ([str(known)], 200), ([known, "x"], 404), ([10**6], 404)):
        for name in ("users", "from_items", "filter_items", "items"):
            whole = {"users": [known], name: body} if "items" in name[-5:] else {name: body}
            whole = {name: body} if name == "from_items" else whole
            assert asked.post("/recommend", json=whole).status_code == status, whole
            skipped = asked.post("/recommend", json=whole | {"on_unknown": "skip"})
            assert skipped.status_code == 200, whole
    whole = {"users": [float(known)], "n": 2.0}  # as 5.0 and 5 are one number of JSON
    assert asked.post("/recommend", json=whole).json()["lists"][0]["user"] == known
    for odd in (True, None, known + 0.5, 2.0**60):
        assert asked.post("/recommend", json={"users": [odd]}).status_code == 422


def test_who_has_nothing_to_go_by_has_an_empty_list_or_popular_items(
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = named()
    known = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    of = mfrank.ALS(factors=3, iterations=2, random_state=0).fit(
        mfrank.Interactions.from_arrays(
            *known,
            user_ids=["0 nobody", *data.user_ids.labels],
            item_ids=["0 unmet", *data.item_ids.labels],
        )
    )
    popular = of.recommend("0 nobody", N=4, fallback="popularity").ids.tolist()
    asked = client(of)
    caplog.set_level("INFO", "mfrank")
    with asked:
        caplog.clear()
        path = "/recommend/0%20nobody"
        assert asked.get(path).json() == {"user": "0 nobody", "items": []}  # the quick way
        assert asked.get(f"{path}?include_seen=true").json()["items"] == []
        assert ids(asked.get(f"{path}?n=4&fallback=popularity").json()) == popular
        skipped = asked.get("/recommend/zoe?n=4&on_unknown=skip&fallback=popularity").json()
        assert ids(skipped) == popular
        assert asked.get(f"{path}?fallback=random").status_code == 422
        for body, expected in (
            ({"users": ["0 nobody", "zoe"], "on_unknown": "skip"}, [[], []]),
            ({"users": ["0 nobody"], "fallback": "popularity"}, [popular]),
            ({"from_items": []}, [[]]),
            ({"from_items": ["0 unmet", "pie"], "on_unknown": "skip", "n": 30}, None),
            ({"from_items": [], "fallback": "popularity"}, [popular]),
        ):
            lists = asked.post("/recommend", json={"n": 4, **body}).json()["lists"]
            found = [ids(each) for each in lists]
            assert not any("0 unmet" in each for each in found)
            assert expected is None or found == expected
        assert asked.get("/similar/0%20unmet").json()["items"] == []
        assert not [text for text in caplog.messages if "nothing to go by" in text]
