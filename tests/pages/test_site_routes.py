"""The site around the pages: types, the marked page, spelling of numbers and of odd ids."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_site import client, data, items_file, models

import mfrank
from mfrank import pages

HTML, JSON = "text/html; charset=utf-8", "application/json"


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/model/7", 404), ("/?format=x", 422)])
def test_a_page_is_html_and_json_if_it_is_asked_for(site: Any, path: str, status: int) -> None:
    answer = site.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, HTML)
    if "format" not in path:
        answer = site.get(path + "?format=json")
        assert (answer.status_code, answer.headers["content-type"]) == (status, JSON)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_the_framework_adds_no_page(site: Any, path: str) -> None:
    assert site.get(path).status_code == 404


@pytest.mark.parametrize(("name", "kind"), [("pages.css", "css"), ("map.js", "javascript")])
def test_styles_and_scripts_are_files_of_the_package(site: Any, name: str, kind: str) -> None:
    answer = site.get(f"/static/{name}")
    assert answer.content == Path(pages.__file__).with_name("static").joinpath(name).read_bytes()
    assert kind in answer.headers["content-type"]


def test_only_bodies_beyond_64_kib_are_too_large(site: Any) -> None:
    assert site.post("/sandbox", content=b"x" * 2**16).status_code == 405
    assert site.post("/sandbox", content=b"x" * (2**16 + 1)).status_code == 413


@pytest.mark.parametrize(
    ("path", "marked"),
    [
        ("/sandbox", "/sandbox"),
        ("/map", "/map"),
        ("/quality/1", "/quality/0"),
        ("/quality/both", "/quality/0"),
        ("/model/1", "/model/0"),
        ("/", None),
        ("/nowhere", None),
    ],
)
def test_the_page_that_is_shown_is_marked(site: Any, path: str, marked: str | None) -> None:
    text = site.get(path).text
    assert re.findall('href="([^"]*)" aria-current="page"', text) == ([marked] if marked else [])


def test_a_page_links_to_itself_as_json(site: Any) -> None:
    text = site.get("/search?q=number&page=2").text
    assert '<a id="json" href="/search?q=number&amp;page=2&amp;format=json">' in text
    assert f"<span>mfrank {mfrank.__version__}</span>" in text
    assert 'value="number"' in text  # of the field of the search, on its page alone
    assert 'value="number"' not in site.get("/sandbox").text


def test_data_have_a_page_of_quality_and_models_without_data_none(
    site: Any, tmp_path: Path
) -> None:
    bare = client(tmp_path, data=None)
    for path in ("/", "/model/0"):
        assert "/quality/0" in site.get(path).text
        assert "/quality" not in bare.get(path).text


def shown_scores(scores: list[float]) -> list[str]:
    store = mfrank.FactorStore(np.ones((1, 1)), np.array(scores)[:, None])
    site = client(Path(), models={"m": mfrank.Recommender.of(store)}, data=None, items=None)
    return re.findall(r"</svg>\s*<span>([^<]*)</span>", site.get("/user/0?n=100").text)


def test_scores_have_three_digits_and_large_ones_thousands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scores = [1234567.4, 1000.0, 999.7, 999.4, 100.2, 99.95, 99.94, 5.0, 0.0123]
    expected = ["1 234 567", "1 000", "1 000", "999", "100", "100", "99.9", "5.00", "0.0123"]
    assert shown_scores(scores) == [each.replace(" ", "\u202f") for each in expected]


def test_values_have_three_digits_without_zeros_at_their_end(tmp_path: Path) -> None:
    values = [1234.4, 1000.0, 999.5, 123.4, 7.0, 0.25]
    rated = mfrank.Interactions.from_arrays(["u"] * 6, list("abcdef"), values)
    site = client(tmp_path, models={"m": mfrank.Popularity().fit(rated)}, data=rated, items=None)
    found = re.findall('<span class="value">([^<]*)</span>', site.get("/user/u").text)
    assert found == ["1\u202f234", "1\u202f000", "1\u202f000", "123", "7", "0.25"]


def test_half_a_surrogate_pair_is_no_end_of_a_page(tmp_path: Path) -> None:
    odd = mfrank.Interactions.from_arrays(["u", "u", "v"], ["\ud800", "b", "b"])
    site = client(tmp_path, models={"m": mfrank.Popularity().fit(odd)}, data=odd, items=None)
    for path in ("/", "/search", "/user/v", "/sandbox?like=b"):
        answer = site.get(path)
        assert answer.status_code == 200
        assert '">?</a>' in answer.text


def test_data_below_the_threshold_of_a_fit_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for fitted, n in ((data().at_least(3), 1), (data(), 0)):
        client(tmp_path, models={"m": mfrank.Popularity().fit(fitted)})
        told = [each.getMessage() for each in caplog.records]
        told = [line for line in told if "are shown as likes and hits" in line]
        assert len(told) == n
        assert all(line.startswith("data ") for line in told)
        caplog.clear()


def test_names_of_items_need_no_data(tmp_path: Path) -> None:
    site = client(tmp_path, models={"als": models()["als"]}, data=None, items=items_file(tmp_path))
    assert "Number 5 (1955)" in site.get("/search?q=number+5").text


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("mfrank.pages.site_routes")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError, match=r"mfrank\[pages\]"):
        pages.app(models())
