"""The site of a model from this process, as in a notebook."""

from __future__ import annotations

import json
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from errors import refuses

import mfrank

pytest.importorskip("jinja2", reason="needs jinja2: pip install mfrank[pages]")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install mfrank[pages]")

DATA = mfrank.synthetic(30, 20, 300, random_state=0)
MODELS = {
    name: mfrank.ALS(factors=2, iterations=1, random_state=seed).fit(DATA)
    for seed, name in enumerate("ab")
}


def read(url: str) -> str:
    with urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def test_a_model_is_shown_until_it_is_stopped() -> None:
    user = DATA.user_ids.labels[0]
    with mfrank.explore(MODELS["a"], DATA) as site:
        assert f'src="{site.url}"' in site._repr_html_()
        page = json.loads(read(f"{site.url}user/{user}?format=json"))
        assert str(user) in json.dumps(page)
        with mfrank.explore(MODELS["b"]) as other:  # beside it
            assert other.url != site.url
            assert "<html" in read(other.url)
    with pytest.raises(URLError):
        read(site.url)


def test_two_models_are_compared() -> None:
    user = DATA.user_ids.labels[0]
    with mfrank.explore(MODELS, DATA) as site:
        assert "<html" in read(f"{site.url}compare/{user}")


def test_what_cannot_be_shown_is_refused() -> None:
    with refuses(ValueError, "port"):
        mfrank.explore(MODELS["a"], port=70_000)
    with refuses((ValueError, TypeError), "models"):
        mfrank.explore({})
    with mfrank.explore(MODELS["a"]) as site, pytest.raises(OSError, match="pass another"):
        mfrank.explore(MODELS["b"], port=int(site.url.rstrip("/").rpartition(":")[2]))
