"""Every page: HTML that a browser need not mend, JSON with what the models say, or a refusal."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from small_site import MARKUP, client, data, data_file, items_file, models
from starlette.datastructures import QueryParams

import mfrank
from mfrank.cli.main import main
from mfrank.pages.page_request import PageRequest
from mfrank.pages.site import Site
from mfrank.pages.views.items import item_map
from tests.support.errors import refuses

VOID = {"meta", "link", "input", "br"}
ITEMS = data().item_ids.labels.tolist()
USERS = data().user_ids.labels.tolist()
USER, ITEM = USERS[3], ITEMS[5]
PAGES = [
    "/",
    "/search",
    "/search?q=number",
    "/search?q=nothing-like-this",
    "/search?q=user",
    f"/user/{USER}",
    f"/user/{USER}?model=1&n=3&page=2",
    f"/user/{USER}?popularity_penalty=1&diversity=.3&at_most=2&of=kinds&n=20",
    f"/user/{USER}?only=kinds:Tea&boost=kinds:Coffee&by=-1&page=2",
    f"/user/{USER}?model=1&popularity_penalty=0.5&without=kinds:Pie&diversity=&at_most=",
    f"/user/{USER}/why/{ITEM}",
    f"/user/{USER}/why/{ITEM}?model=1",
    f"/item/{ITEM}",
    f"/item/{ITEM}?model=1&page=2",
    f"/compare/{USER}",
    f"/compare/{USER}?n=50",
    "/sandbox",
    f"/sandbox?like={ITEM}&like={ITEMS[7]}&q=num",
    f"/sandbox?like={ITEM}&model=1",
    f"/sandbox?like={ITEM}&diversity=0.5&only=kinds:Tea&q=num",
    "/model/0",
    "/quality/0",
    "/model/1",
    "/quality/1",
    "/quality/both",
    "/map",
]


class Checked(HTMLParser):
    """HTML whose tags are closed in order, whose ids are unique, and which runs nothing inline."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert len(given) == len(attrs)
        assert "style" not in given
        assert not any(name.startswith("on") for name in given)
        if tag == "script":
            assert given["src"] in ("/static/pages.js", "/static/map.js")
        if "id" in given:
            assert given["id"] not in self.ids
            self.ids.add(str(given["id"]))
        for name in ("href", "src", "action"):
            if name in given:
                self.links.append(str(given[name]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_sound_and_name_no_other_host(site: Any, path: str) -> None:
    answer = site.get(path)
    assert answer.status_code == 200, answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = Checked(answer.text)
    for link in page.links:
        assert link.startswith(("/", "#")), link
        assert not link.startswith("//")


@pytest.mark.parametrize("path", PAGES)
def test_every_link_of_a_page_leads_somewhere(site: Any, path: str) -> None:
    for link in set(Checked(site.get(path).text).links) - {"#main"}:
        assert site.get(link).status_code == 200, link


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_json_too(site: Any, path: str) -> None:
    answer = site.get(path + ("&" if "?" in path else "?") + "format=json")
    assert answer.headers["content-type"] == "application/json"
    assert isinstance(answer.json(), dict)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/user/nobody", 404, "unknown ids: 'nobody'"),
        ("/item/nothing", 404, "nothing"),
        (f"/user/{USER}/why/nothing", 404, "nothing"),
        (f"/user/nobody/why/{ITEM}", 404, "nobody"),
        ("/compare/nobody", 404, "nobody"),
        ("/sandbox?like=nothing", 404, "nothing"),
        ("/model/2", 404, "index must be from 0 to 1"),
        ("/quality/2", 404, "index must be from 0 to 1"),
        ("/model/x", 404, "index must be from 0 to 1"),
        ("/nowhere", 404, "Not Found"),
        ("/static/nothing.js", 404, "Not Found"),
        (f"/user/{USER}?n=0", 422, "n must be a whole number from 1 to 100, got '0'"),
        (f"/user/{USER}?n=%C2%B2", 422, "n must be a whole number"),
        (f"/user/{USER}?diversity=2", 422, "diversity must be a number from 0 to 1, got '2'"),
        (f"/user/{USER}?diversity=nan", 422, "diversity must be a number"),
        (f"/user/{USER}?popularity_penalty=x", 422, "popularity_penalty must be a number from 0"),
        (f"/user/{USER}?popularity_penalty={'1' * 400}", 422, "popularity_penalty must be"),
        (f"/user/{USER}?at_most=0", 422, "at_most must be a whole number from 1 to 100"),
        (f"/user/{USER}?at_most=2&of=years", 422, "of must be a column that sorts items"),
        (f"/user/{USER}?only=Tea", 422, "only must be a column of kinds and a value (such as 'k"),
        (f"/user/{USER}?without=kinds:Soup", 422, "without must be a column of kinds"),
        (f"/user/{USER}?boost=kinds:Tea&by=4", 422, "by must be a number from -3 to 3, got '4'"),
        (f"/user/{USER}?boost={'k' * 401}", 422, "boost must have at most 400 characters"),
        (f"/user/{USER}?model=1&diversity=0.5", 422, "ItemKNN has no item factors"),
        (f"/sandbox?like={ITEM}&diversity=-1", 422, "diversity must be a number"),
        (f"/user/{USER}?model=2", 422, "model must be a whole number from 0 to 1"),
        (f"/user/{USER}?page=99", 422, "page must be a whole number from 1 to"),
        (f"/user/{USER}?history_page=99", 422, "history_page must be"),
        (f"/item/{ITEM}?n=1e3", 422, "n must be"),
        (f"/compare/{USER}?n=101", 422, "n must be"),
        ("/search?page=0", 422, "page must be"),
        ("/search?q=" + "x" * 101, 422, "q must have at most 100 characters"),
        ("/map?n=3", 422, "n must be"),
        ("/map?n=5000&format=json", 422, "n must be"),
        ("/?format=xml", 422, "format must be html or json, got 'xml'"),
        ("/sandbox?" + "&".join(f"like={each}" for each in ITEMS[:51]), 422, "at most 50"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(site: Any, path: str, status: int, words: str) -> None:
    answer = site.get(path)
    assert answer.status_code == status
    if "format=json" in path:
        assert words in answer.json()["error"]
        return
    said = " ".join(Checked(answer.text).texts)
    assert words[1:] in said  # a sentence begins with a capital
    other = site.get(path + ("&" if "?" in path else "?") + "format=json")
    if "format" not in path and "/static/" not in path:
        assert other.status_code == status
        assert words in other.json()["error"]


def test_other_methods_and_large_bodies_are_refused(site: Any) -> None:
    assert site.post("/sandbox").status_code == 405
    assert site.post("/sandbox", content=b"x" * 2**17).status_code == 413


def test_names_are_escaped_wherever_they_stand(site: Any) -> None:
    hostile = ITEMS[0]
    for path in (
        f"/item/{hostile}",
        "/search?q=bjork",
        f"/sandbox?like={hostile}",
        f"/user/{USER}/why/{hostile}",
        "/search?q=" + quote(MARKUP),
        "/item/" + quote(MARKUP, safe=""),
    ):
        text = site.get(path).text
        assert "<script>" not in text
        assert MARKUP in " ".join(Checked(text).texts) or "Björk" in text


def test_search_finds_names_ids_and_users_whatever_the_accents(site: Any) -> None:
    def found(text: str) -> dict[str, Any]:
        return dict(site.get("/search", params={"q": text, "format": "json"}).json())

    assert found("BJORK")["items"][0]["id"] == ITEMS[0]
    assert found(ITEMS[8])["items"][0]["id"] == ITEMS[8]
    assert found("number 12 (1962)")["items"][0]["name"] == "Number 12 (1962)"
    assert found(USERS[7])["users"][0]["id"] == USERS[7]
    assert found("umber 1")["pages"]["total"] == 11  # 1, 10 to 19; the last has no name
    users = [each["users"] for each in found("")["items"]]
    assert users == sorted(users, reverse=True)


def test_pages_of_a_list_are_the_whole_list(site: Any) -> None:
    path, listed = f"/user/{USER}?n=7&format=json", []
    while path:
        page = site.get(path).json()
        listed += page["items"]
        path = page["pages"]["after"] and page["pages"]["after"] + "&format=json"
    expected = models()["als"].recommend(USER, N=len(ITEMS)).to_dicts()
    assert [each["id"] for each in listed] == [each["id"] for each in expected]
    assert [each["rank"] for each in listed] == list(range(1, len(expected) + 1))


def test_what_a_user_has_is_seen_or_held_out_and_hits_are_counted(site: Any) -> None:
    page = site.get(f"/user/{USER}?n=10&format=json").json()
    row = data().user_ids.rows([USER])[0]
    own = set(data().item_ids.raw(data().user_items[[row]].indices).tolist())
    assert page["history_pages"]["total"] + page["n_held_out"] == len(own)
    assert {each["id"] for each in page["history"] + page["held_out"]} <= own
    hits = [each["id"] for each in page["items"] if each["held_out"]]
    assert page["hits"] == len(hits)
    assert set(hits) <= own
    ranks = {each["id"]: each["rank"] for each in page["items"]}
    for each in page["held_out"]:
        assert ranks.get(each["id"], each["rank"]) == each["rank"]


def test_reasons_are_the_greatest_contributions(site: Any) -> None:
    first = site.get(f"/user/{USER}?format=json").json()["items"][0]
    why = models()["als"].explain(USER, None, first["id"], 2)
    assert [each["id"] for each in first["because"]] == [each for each, _ in why.contributions]
    page = site.get(f"/user/{USER}/why/{quote(first['id'])}?n=100&format=json").json()
    total = sum(each["contribution"] for each in page["contributions"])
    assert total + page["baseline"] + page["others"] == pytest.approx(page["score"])


def test_two_lists_overlap_and_move_alike_from_both_sides(site: Any) -> None:
    page = site.get(f"/compare/{USER}?n=20&format=json").json()
    ids = [{each["id"]: each for each in listed} for listed in page["lists"]]
    assert page["overlap"] == len(ids[0].keys() & ids[1].keys())
    for label in ids[0].keys() & ids[1].keys():
        assert ids[0][label]["move"] == -ids[1][label]["move"]
        assert ids[0][label]["other"] == ids[1][label]["rank"]
    assert len(page["lines"][0]) == page["overlap"]


def test_neighbors_have_their_popularity(site: Any) -> None:
    page = site.get(f"/item/{ITEM}?n=100&format=json").json()
    expected = models()["als"].similar_items(ITEM, N=100, filter_items=[ITEM]).to_dicts()
    assert [each["id"] for each in page["neighbors"]] == [each["id"] for each in expected]
    counts = models()["als"].store.counts.items
    rows = models()["als"].item_ids.rows([each["id"] for each in page["neighbors"]])
    assert [each["users"] for each in page["neighbors"]] == counts[rows].tolist()


def test_somebody_new_gets_the_list_of_the_picked_items(site: Any) -> None:
    picked = [ITEMS[4], ITEMS[9]]
    query = "&".join(f"like={each}" for each in picked)
    page = site.get(f"/sandbox?{query}&format=json").json()
    expected = models()["als"].recommend_from_items(picked, 15).to_dicts()
    assert [each["id"] for each in page["items"]] == [each["id"] for each in expected]
    without = site.get(page["picked"][0]["without"] + "&format=json").json()
    assert [each["id"] for each in without["picked"]] == picked[1:]
    more = site.get(page["items"][0]["add"] + "&format=json").json()
    assert [each["id"] for each in more["picked"]] == [*picked, expected[0]["id"]]


def test_the_model_page_has_settings_and_curves(site: Any) -> None:
    page = site.get("/model/0?format=json").json()
    assert ["objective", "IALS"] in page["settings"]
    assert ["factors", "6"] in page["settings"]
    assert [each["name"] for each in page["curves"]] == ["objective", "seconds"]
    assert page["epochs"] == 3
    assert site.get("/model/1?format=json").json()["curves"] == []


def test_the_map_has_each_item_once_within_its_frame(site: Any) -> None:
    page = site.get("/map?format=json").json()
    points = page["points"]
    assert len({each["id"] for each in points}) == len(points) > 50
    assert all(0 <= each["x"] <= 1 and 0 <= each["y"] <= 1 for each in points)
    assert set(page["kinds"]) == {"Tea", "Coffee", "Pie"}
    assert site.get("/map?format=json").json() == page


def test_few_maps_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(_: Any, rows: Any) -> Any:
        made.append(len(rows))
        return np.zeros((len(rows), 2))

    monkeypatch.setattr("mfrank.pages.views.items.places", counted)
    site, view = Site(models(), data(), None), item_map

    def shown(n: int) -> Any:
        return view(site, PageRequest("/map", {}, QueryParams(f"n={n}&format=json")))

    for n in range(4, 24):
        assert len(shown(n)["points"]) == n
    assert made == list(range(4, 24))
    for n in (23, 18, 20, 18, 21):
        shown(n)
    assert len(made) == 20
    shown(17)
    assert made[20:] == [17]
    for n in range(19, 24):
        shown(n)
    assert len(made) == 21
    shown(18)
    assert made[21:] == [18]


def test_one_model_without_names_data_or_histories_is_enough(tmp_path: Path) -> None:
    store = models()["als"].store
    for model in (models()["als"], mfrank.Recommender.of(store)):
        bare = client(tmp_path, models={"only": model}, data=None, items=None)
        for path in PAGES:
            if "model=1" in path or path.startswith(("/compare", "/model/1", "/quality")):
                assert bare.get(path).status_code in (404, 422)
            elif "kinds" in path:
                assert bare.get(path).status_code == 422, path
            elif not path.startswith("/sandbox?like") or model is models()["als"]:
                assert bare.get(path).status_code == 200, path
    assert "one model only" in bare.get(f"/compare/{USER}").text


@pytest.mark.parametrize(
    "make",
    [
        lambda: mfrank.ALS(mfrank.WRMF(), factors=4, iterations=1, random_state=0),
        lambda: mfrank.Descent(factors=4, iterations=1, random_state=0),
        mfrank.Popularity,
    ],
)
def test_every_kind_of_model_has_every_page(tmp_path: Path, make: Any) -> None:
    make().fit(data()).save(tmp_path / "model")
    model = mfrank.load(tmp_path / "model")
    one = client(tmp_path, models={"one": model, "als": models()["als"]})
    for path in PAGES:
        assert one.get(path).status_code == 200, path


def test_a_walk_shows_its_paths(tmp_path: Path) -> None:
    times = np.arange(data().nnz) * 7 % 31
    timed = mfrank.Interactions.from_arrays(
        data().user_ids.labels[data().entry_users],
        data().item_ids.labels[data().user_items.indices],
        None,
        times,
    )
    walk = client(
        tmp_path, models={"walk": mfrank.SupervisedPageRank(random_state=0).fit(timed)}, data=None
    )
    page = walk.get(f"/user/{USER}/why/{ITEM}?format=json").json()
    assert all(path["items"][-1]["id"] == ITEM for path in page["paths"])
    for path in (f"/user/{USER}", f"/user/{USER}/why/{ITEM}", f"/sandbox?like={ITEM}", "/map"):
        assert walk.get(path).status_code == 200


def test_numbers_as_ids(tmp_path: Path) -> None:
    numbered = mfrank.synthetic(20, 12, 90, random_state=0)
    file = tmp_path / "names.tsv"
    file.write_text("id\tname\n3\tThree\n", encoding="utf-8")
    site = client(
        tmp_path, models={"m": mfrank.Popularity().fit(numbered)}, data=numbered, items=file
    )
    assert site.get("/item/3?format=json").json()["item"] == {
        "id": 3,
        "name": "Three",
        "facts": "",
        "kind": "",
        "users": int((numbered.user_items.indices == 3).sum()),
        "url": "/item/3",
    }
    assert site.get("/user/007").status_code == 404


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("item\n1\n", "a column of ids and one of names"),
        ("", "no header"),
        ("item,name\nsomething,else\n", "names no item of the model"),
    ],
)
def test_a_file_of_items_is_checked(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        client(tmp_path, items=path)
    with refuses(ValueError, "items"):
        client(tmp_path, items=tmp_path / "items.xlsx")


def test_arguments_are_checked_before_any_work(tmp_path: Path) -> None:
    for wrong in ({}, dict.fromkeys("abc", models()["als"])):
        with refuses(ValueError, "models"):
            client(tmp_path, models=wrong)
    with refuses(TypeError, "models"):
        client(tmp_path, models={"a": 3})
    with refuses(TypeError, "data"):
        client(tmp_path, data=3)


def test_the_command_reads_files_and_serves_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, model in models().items():
        model.save(tmp_path / name)
    ratings = data_file(tmp_path)
    served: dict[str, Any] = {}
    monkeypatch.setattr("mfrank.serving.run", lambda app, **where: served.update(app=app, **where))
    files = ["--data", str(ratings), "--items", str(items_file(tmp_path)), "--port", "0"]
    assert main(["explore", str(tmp_path / "als"), str(tmp_path / "knn"), *files]) == 0
    assert (served["host"], served["port"]) == ("127.0.0.1", 0)
    from starlette.testclient import TestClient

    page = TestClient(served["app"]).get(f"/user/{USER}?format=json").json()
    assert page["names"] == ["als", "knn"]
    assert page["n_held_out"] > 0
    assert main(["explore", str(tmp_path / "none")]) == 2
