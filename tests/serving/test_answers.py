"""What the service answers, as Python objects and as JSON, and what it tells of its routes."""

from __future__ import annotations

import math
import threading
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from clients import client, model, named
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank.retrieval import Answer, pack
from mfrank.serving import answers
from mfrank.serving.answers import EXACT, CannotAnswer, dump
from mfrank.serving.description import page
from tests.support.errors import refuses, unknown

USERS, ITEMS = named().user_ids.labels, named().item_ids.labels.tolist()
USER = str(USERS[-1])


def test_json_is_compact_and_has_whole_numbers_that_every_client_reads() -> None:
    told = {"a": [EXACT, -EXACT, EXACT + 1, -EXACT - 1], "b": (True, None, math.nan, -math.inf)}
    large = f'"{EXACT + 1}","{-EXACT - 1}"'
    expected = f'{{"a":[{EXACT},{-EXACT},{large}],"b":[true,null,null,null]}}'
    assert dump(told) == expected.encode()
    with pytest.raises(TypeError):
        dump({"a": object()})


@pytest.mark.parametrize(
    "ids",
    [
        np.array([[0, 1], [2, -1]], np.int32),
        np.array([[EXACT, 1], [2, -EXACT]]),
        np.array([[EXACT + 1, 1], [2, 3]]),
        np.array([[1, 1], [2, -EXACT - 1]]),
        np.array([["tea", 'a "quoted"'], ["\u00e9", "\u2028"]], object),
        np.array([[0.5, 1.5], [2.5, 3.0]]),
        np.empty((2, 0), np.int64),
    ],
)
@pytest.mark.parametrize("scores", [[[0.5, -1.0], [2.0, math.nan]], [[1, math.inf], [2, 3]]])
def test_lists_are_written_as_dump_writes_them(ids: Any, scores: Any) -> None:
    answer = Answer(ids, np.array(scores, np.float32)[:, : ids.shape[1]])
    users = ["al\u00efce", 2**60]
    expected = [{"user": u, "items": i} for u, i in zip(users, answer.to_dicts(), strict=True)]
    assert answers.user_lists(users, answer) == [dump(each) for each in expected]


labels = st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(0, 1) | st.booleans()


@given(
    st.lists(st.tuples(labels, st.floats(width=32)), max_size=5),
    st.lists(st.tuples(st.integers(0, 99), st.floats()), min_size=5, max_size=5),
)
def test_written_lists_are_json_of_the_same(one: Any, numbers: Any) -> None:
    padded = one + [(None, np.nan)] * (5 - len(one))
    for places in (padded, numbers):
        ids = np.empty((1, 5), dtype=object if places is padded else np.int64)
        ids[0] = [label for label, _ in places]
        answer = Answer(ids, np.array([[score for _, score in places]]))
        wanted = {"user": "ä", "items": answer.to_dicts()[0]}
        assert answers.user_lists(["ä"], answer) == [dump(wanted)]


@pytest.mark.parametrize("n", [1, 3, 100])
def test_so_many_similar_items_as_asked_for_without_the_item(n: int) -> None:
    served, item = model(), ITEMS[1]
    nearest: list[Any] = served.similar_items(item, N=len(ITEMS)).to_dicts()
    expected = [each for each in nearest if each["id"] != item][:n]
    assert answers.similar(served, item, n) == expected


@pytest.mark.parametrize(("n_users", "n_items"), [(0, 3), (3, 0), (0, 0)])
def test_a_model_without_users_or_items_has_empty_lists(n_users: int, n_items: int) -> None:
    store = mfrank.FactorStore(np.ones((n_users, 2)), np.ones((n_items, 2)))
    asked = client(mfrank.Recommender.of(store))
    assert asked.get("/health").json()["users"] == n_users
    lists = [{"user": user, "items": []} for user in range(n_users)]
    found = asked.post("/recommend", json={"users": list(range(n_users)), "include_seen": True})
    assert found.json() == {"lists": lists}
    for each in lists:
        answer = asked.get(f"/recommend/{each['user']}?include_seen=true")
        assert answer.json() == each
    for item in range(n_items):
        assert len(asked.get(f"/similar/{item}").json()["items"]) == n_items - 1


def test_without_histories_nothing_is_known_to_be_popular() -> None:
    bare = mfrank.Recommender.of(model().store)
    with refuses(ValueError, "fallback", remedy="ask with fallback=none"):
        answers.listed(bare, [USER], 3, include_seen=True, fallback="popularity")
    found = answers.listed(bare, [USER], 3, include_seen=True)
    assert found.ids.shape == (1, 3)
    assert answers.recommendations(bare, [USER], 3, include_seen=True) == found.to_dicts()


def lists_of_each(served: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    """In portions of one user."""
    monkeypatch.setattr(answers, "_PORTION", 1)
    options = {"filter_items": None, "items": None, "include_seen": False, **options}
    return answers.listed_in_portions(served, options.pop("users", [USER] * 3), 4, **options)


@pytest.mark.parametrize("name", ["filter_items", "items"])
def test_there_is_one_list_or_one_for_each_user(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with refuses(ValueError, name):
        lists_of_each(model(), monkeypatch, **{name: [ITEMS[:2]] * 2})
    own = [ITEMS[:2], ITEMS[2:4], ITEMS[4:6]]
    found = lists_of_each(model(), monkeypatch, include_seen=True, **{name: own})
    whole = answers.listed(model(), [USER] * 3, 4, include_seen=True, **{name: own})  # type: ignore[arg-type]
    assert found.to_dicts() == whole.to_dicts()


def test_all_unknown_users_of_all_portions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    users = ["nobody", USER, "noone"]
    with unknown("nobody", "noone"):
        lists_of_each(model(), monkeypatch, users=users)
    found = lists_of_each(model(), monkeypatch, users=users, on_unknown="skip").to_dicts()
    assert [len(each) for each in found] == [0, 4, 0]


@pytest.mark.parametrize("kind", ["ItemKNN", "Popularity"])
@pytest.mark.parametrize("weights", [None, [1.0, 5.0, 0.5]])
def test_somebody_new_is_ranked_by_the_row_of_their_items(
    kind: str, weights: list[float] | None
) -> None:
    served, liked = model(kind), [ITEMS[4], ITEMS[0], ITEMS[7]]
    columns = served.item_ids.rows(liked)
    values = np.ones(3) if weights is None else np.array(weights)
    row = sp.csr_array(sp.coo_array((values, ([0] * 3, columns)), (1, len(ITEMS))))
    expected = served.recommend([USER], row, 5, recalculate_user=True).to_dicts()[0]
    assert answers.from_items(served, liked, 5, weights=weights) == expected
    with unknown("nothing"):
        answers.from_items(served, [*liked, "nothing"], 5)
    known = answers.from_items(served, liked, 5)
    assert answers.from_items(served, ["nothing", *liked], 5, on_unknown="skip") == known
    with refuses(ValueError, "weights"):
        answers.from_items(served, liked, 5, weights=[1.0])


def test_without_histories_nobody_new_gets_what_is_popular() -> None:
    served = model("ItemKNN")
    bare = SimpleNamespace(seen=None, item_ids=served.item_ids)
    with refuses(ValueError, "fallback", remedy="ask with fallback=none"):
        answers.from_items(bare, ITEMS[:2], 3, fallback="popularity")  # type: ignore[arg-type]


def cut(threshold: float) -> mfrank.ALS:
    """A model of data with values from -1 to 5 that were cut by a threshold."""
    rated = mfrank.Interactions.from_arrays(
        named().user_ids.raw(named().entry_users),
        named().item_ids.raw(named().user_items.indices),
        np.arange(named().nnz) % 7 - 1,
    )
    als = mfrank.ALS(mfrank.IALS(), factors=3, iterations=2, random_state=0)
    return als.fit(rated.at_least(threshold))


@pytest.mark.parametrize("blocked", [None, ITEMS[7:9], [ITEMS[7:9]]])
def test_what_weighs_less_than_the_threshold_is_only_left_out(blocked: Any) -> None:
    served = cut(4)
    liked, weights = [ITEMS[3], ITEMS[5], ITEMS[6]], [4.0, 3.9, 5.0]
    found = answers.from_items(served, liked, 9, weights=weights, filter_items=blocked)
    left_out = [ITEMS[5], *(() if blocked is None else ITEMS[7:9])]
    kept = {"values": [4.0, 5.0], "filter_items": left_out}
    expected = served.recommend_from_items([ITEMS[3], ITEMS[6]], 9, **kept).to_dicts()
    assert found == expected
    strangers = [*liked, "nothing", "noone"], [*weights, 1.0, 5.0]
    with unknown("nothing", "noone"):
        answers.from_items(served, strangers[0], 9, weights=strangers[1])
    options = {"weights": strangers[1], "filter_items": blocked, "on_unknown": "skip"}
    assert answers.from_items(served, strangers[0], 9, **options) == expected


@pytest.mark.parametrize(("threshold", "low"), [(4, [3.9]), (4, [0.0, -1.0]), (0, [-1.0])])
def test_every_weight_below_the_threshold_is_left_out(threshold: float, low: list[float]) -> None:
    """Also one that the model's loss could not read: it was not in the data either."""
    served, liked, others = cut(threshold), [ITEMS[3], ITEMS[6]], ITEMS[9 : 9 + len(low)]
    found = answers.from_items(served, [*liked, *others], 9, weights=[4.0, 5.0, *low])
    kept = {"values": [4.0, 5.0], "filter_items": others}
    assert found == served.recommend_from_items(liked, 9, **kept).to_dicts()
    marks = answers.from_items(served, liked, 9, weights=[1.0, 1.0])
    assert marks == answers.from_items(served, liked, 9)


def test_weights_of_somebody_new_are_values_of_a_model_that_has_them() -> None:
    served, liked, weights = model("WRMF"), ITEMS[2:4], [1.0, 9.0]
    expected = served.recommend_from_items(liked, 5, values=weights).to_dicts()
    assert answers.from_items(served, liked, 5, weights=weights) == expected
    assert answers.from_items(served, liked, 5) != expected


@pytest.mark.parametrize("objective", [mfrank.IALS(), mfrank.RG2()])
@pytest.mark.parametrize("n", [2, 100])
def test_an_explanation_is_the_models(n: int, objective: Any) -> None:
    served = mfrank.ALS(objective, factors=3, iterations=2, random_state=0).fit(named())
    why = served.explain(USER, None, ITEMS[0], n)
    told = answers.explanation(served, USER, ITEMS[0], n)
    assert bool(why.baseline) is isinstance(objective, mfrank.RG2)
    assert [(each["id"], each["contribution"]) for each in told["contributions"]] == [
        tuple(each) for each in why.contributions
    ]
    assert (told["score"], told["baseline"]) == (why.score, why.baseline)
    listed = math.fsum(part for _, part in why.contributions)
    assert told["others"] == pytest.approx(why.score - why.baseline - listed, abs=1e-12)
    assert n == 2 or told["others"] == 0


def test_a_blend_with_weights_between_items_ranks_for_nobody_new() -> None:
    served = model("ALS")
    both = mfrank.blend(served.store, mfrank.ItemKNN().fit(named()).store, 0.5)
    with pytest.raises(CannotAnswer, match="ItemBlend cannot rank for somebody new"):
        answers.from_items(mfrank.ItemBlend.of(both), ITEMS[:2], 3)


def test_an_explanation_by_values_needs_them(tmp_path: Any) -> None:
    served = model("WRMF")
    served.save(tmp_path / "model")
    pack(served.store, served.seen).save(tmp_path / "marks")  # as models were once saved
    row = served.seen.matrix[[served.user_ids.rows([USER])[0]]].astype(float)
    told = answers.explanation(served, USER, ITEMS[0], 3, row)
    served.save(tmp_path / "bare", with_seen=False)
    assert answers.explains_alone(served)
    assert answers.explains_alone(model())
    assert not answers.explains_alone(mfrank.load(tmp_path / "bare"))
    assert answers.explanation(mfrank.load(tmp_path / "model"), USER, ITEMS[0], 3) == told
    for loaded in (mfrank.load(tmp_path / "marks"), mfrank.load(tmp_path / "bare")):
        assert not answers.explains_alone(loaded)
        with pytest.raises(CannotAnswer, match="WRMF needs the values"):
            answers.explanation(loaded, USER, ITEMS[0], 3)
        again = answers.explanation(loaded, USER, ITEMS[0], 3, row)
        assert again["score"] == pytest.approx(told["score"])
    assert answers.explanation(model(), USER, ITEMS[0], 3)["score"]


def calls_of(monkeypatch: pytest.MonkeyPatch, served: Any) -> list[tuple[str, int, str]]:
    """The name, n_threads and thread of every call of a model."""
    calls: list[tuple[str, int, str]] = []

    def noting(name: str) -> Any:
        own = getattr(type(served), name)

        def call(*args: Any, n_threads: int, **options: Any) -> Any:
            thread = threading.current_thread().name.rpartition("_")[0]
            calls.append((name, n_threads, thread))
            return own(*args, n_threads=n_threads, **options)

        return call

    for name in ("recommend", "recommend_from_items", "similar_items"):
        if hasattr(served, name):
            monkeypatch.setattr(type(served), name, noting(name))
    return calls


@pytest.mark.parametrize("kind", ["ALS", "ItemKNN"])
def test_every_call_takes_one_of_the_threads_that_share_the_cores(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what may take long takes none of those that the short questions wait for."""
    served = model(kind)
    calls = calls_of(monkeypatch, served)
    user = str(USERS[1])
    with client(served) as asked:
        warm = [("recommend", 1), ("similar_items", 1)] * 2
        assert [each[:2] for each in calls] == [("recommend_from_items", 1), *warm]
        of_items = {"from_items": ITEMS[:2]}, "recommend_from_items"
        for body, name in (({"users": [user]}, "recommend"), of_items):
            calls.clear()
            assert asked.post("/recommend", json=body).status_code == 200
            assert calls[0] == (name, 1, "mfrank-long-answer")
        gets = [
            (f"/similar/{ITEMS[0]}", "similar_items", "mfrank-answer"),
            (f"/recommend/{user}?fallback=popularity", "recommend", "mfrank-answer"),
        ]
        if kind == "ALS":  # which has directions
            gets.append((f"/recommend/{user}?diversity=0.1", "recommend", "mfrank-long-answer"))
        for path, *call in gets:
            calls.clear()
            assert asked.get(path).status_code == 200
            assert calls == [(call[0], 1, call[1])]


# The page that describes the routes.


class Cells(HTMLParser):
    """The texts of a page's elements, which are all closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: dict[str, list[str]] = {}
        self.links: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.links += [value for name, value in attrs if name == "href"]
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open:
            self.rows[-1][-1] += data
        else:
            self.texts.setdefault(self.open[-1], []).append(data)


def test_the_page_of_routes_has_every_parameter_and_its_kind() -> None:
    ids = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "string"}]}
    fields = {
        "users": {"type": "array", "items": ids, "description": "who"},
        "on_unknown": {"enum": ["error", "skip"], "default": "error", "description": "a < b"},
        "items": {"type": "array", "default": []},
        "limit": {"type": "number", "default": None},
    }
    body = {"application/json": {"schema": {"$ref": "#/components/schemas/Batch"}}}
    number = {"name": "n", "schema": {"type": "integer", "default": 10}, "description": "how many"}
    route = {
        "description": "Lists & more.",
        "parameters": [number, {"name": "free", "schema": {}}],
        "requestBody": {"content": body},
        "responses": {"200": {"description": "lists"}},
    }
    bare = {"responses": {"200": {"description": "well"}}}
    text = page(
        {
            "info": {"title": "a & b", "version": "1"},
            "paths": {"/recommend": {"post": route}, "/health": {"get": bare}},
            "components": {"schemas": {"Batch": {"properties": fields}}},
        }
    )
    assert text.startswith('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name=')
    read = Cells()
    read.feed(text)
    assert read.open == []
    assert read.links == ["docs.css", "openapi.json"]
    assert read.texts["h1"] == ["a & b 1"]
    assert read.texts["b"] + read.texts["h2"] == ["POST", "GET", " /recommend", " /health"]
    assert "Lists & more." in read.texts["p"]
    assert "tr" not in read.texts  # all of a row is in its cells
    assert [row[:3] for row in read.rows] == [
        ["n", "integer, default 10", "how many"],
        ["free", "any", ""],
        ["users", "list of string or integer", "who"],
        ["on_unknown", "error | skip, default error", "a < b"],
        ["items", "list of any", ""],
        ["limit", "number", ""],
        ["200", "", "lists"],
        ["200", "", "well"],
    ]
