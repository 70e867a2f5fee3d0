"""The page of messages has every error of the source as it is raised, and the search finds them."""

from __future__ import annotations

import importlib
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.errors import plain

ROOT = Path(__file__).parents[2]
EXTENSIONS = ROOT / "docs" / "_extensions"
if not (EXTENSIONS.is_dir() and (ROOT / "mfrank").is_dir()):
    pytest.skip("the pages and the source are not beside the tests", allow_module_level=True)
for package in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
    pytest.importorskip(package, reason="needs the packages of the extra docs")
PAGES = ("data", "evaluation", "messages", "why-bad")
FILES = [path for path in sorted((ROOT / "mfrank").rglob("*.py")) if path.name != "errors.py"]


@pytest.fixture(scope="module")
def page() -> Any:
    """The modules of the extension, with all messages by file and line."""
    sys.path.insert(0, str(EXTENSIONS))
    try:
        page = importlib.import_module("messages")
        page.texts, page.searched = map(importlib.import_module, ("texts", "searched"))
    finally:
        sys.path.remove(str(EXTENSIONS))
    page.all = {
        path: list(page.messages(page.texts.Source(path.read_text())))
        for path in FILES
        if "Error" in path.read_text() or "unreadable" in path.read_text()
    }
    return page


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages on which the tests look, as Sphinx writes them."""
    folder = tmp_path_factory.mktemp("pages")
    others = [
        path.relative_to(ROOT / "docs").as_posix()
        for path in (ROOT / "docs").rglob("*")
        if path.suffix in (".md", ".rst", ".ipynb") and path.stem not in (*PAGES, "index")
    ]
    patterns = f"exclude_patterns={','.join(others)}"
    command = [sys.executable, "-m", "sphinx", "-Q", "-D", patterns, "docs", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


def made(path: Path, kinds: frozenset[str]) -> set[int]:
    """The lines of a file on which an error is made, as Python's tokens have them."""
    tokens = list(tokenize.generate_tokens(io.StringIO(path.read_text()).readline))
    return {
        one.start[0]
        for one, after in pairwise(tokens)
        if one.string in kinds
        and after.string == "("
        and not re.match(r"\s*(class|case|def) ", one.line)
    }


def test_every_place_that_makes_an_error_is_read(page: Any) -> None:
    total = 0
    for path in FILES:
        lines = made(path, page.kinds())
        total += len(lines)
        assert lines <= {message.line for message in page.all.get(path, [])}, path
    assert total > 1000


def test_a_problem_leaves_the_mark_before_its_remedy_to_the_error(page: Any) -> None:
    for path, messages in page.all.items():
        for message in messages:
            problem = page.texts.written(message.problem).rstrip()
            assert not (message.remedy and problem.endswith((";", "."))), f"{path}: {problem}"


def test_every_message_is_on_the_page(page: Any, built: Path) -> None:
    html = (built / "messages.html").read_text()
    shown = " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())
    wordless = 0
    for messages in page.all.values():
        for message in messages:
            wordless += not page.texts.has_words(message.problem)
            for text in (message.problem, message.remedy):
                if page.texts.has_words(message.problem):
                    said = page.texts.written(text).replace("`", "")
                    assert " ".join(said.split()) in shown, said
    assert wordless < 20  # what another library says, handed on


def model() -> mfrank.ALS:
    data = mfrank.synthetic(20, 10, 60, random_state=0)
    return mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data)


pairs = mfrank.Interactions.from_arrays
RAISED: dict[str, tuple[str, Callable[[], object]]] = {
    "an argument": ("arrays/checks.py", lambda: mfrank.ALS(factors=0)),
    "a choice": ("models/options.py", lambda: mfrank.ALS(dtype="float16")),
    "fractions": ("arrays/checks.py", lambda: mfrank.by_ratio(pairs([0], [1]), train=-1)),
    "NaN": ("data/sources.py", lambda: pairs([0], [1], values=[np.nan])),
    "missing ids": ("data/labels.py", lambda: pairs(["a", None], [1, 2])),
    "odd ids": ("data/labels.py", lambda: pairs([0.5], [1])),
    "unknown ids": ("data/ids.py", lambda: model().similar_items(77)),
    "no fit": ("retrieval/recommender.py", lambda: mfrank.ALS().recommend(3)),
    "a metric": ("evaluation/names.py", lambda: mfrank.evaluate(model(), [], metrics=["x@10"])),
}
"""What is raised, and the file whose message that is."""


@pytest.mark.parametrize(("file", "call"), RAISED.values(), ids=RAISED)
def test_what_is_raised_is_what_the_page_says(
    page: Any, file: str, call: Callable[[], object]
) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        call()
    problem, remedy = map(plain, (*raised.value.args, "")[:2])
    assert any(
        re.fullmatch(rf"(\w+: )?{page.texts.pattern(message.problem)}", problem)
        and re.fullmatch(page.texts.pattern(message.remedy), remedy)
        for message in page.all[ROOT / "mfrank" / file]
        if page.texts.has_words(message.problem)
    ), raised.value


@pytest.mark.parametrize("about", [about for about in RAISED if about != "no fit"])
def test_the_code_of_an_error_leads_to_its_message(about: str, page: Any, built: Path) -> None:
    with pytest.raises(mfrank.InputError) as raised:
        RAISED[about][1]()
    code = raised.value.code
    assert code in "".join(raised.value.__notes__)
    problem = str(raised.value.args[0])
    found = [
        message
        for path, messages in page.all.items()
        for message in messages
        if message.maker is not None
        and page.code_of(page.module_of(path), message.maker) == code
        and re.fullmatch(rf"(\w+: )?{page.texts.pattern(message.problem)}", plain(problem))
    ]
    assert found, (code, problem)
    index = index_of(built)
    [[number, anchor, _]] = index["indexentries"][code]
    assert index["docnames"][number] == "messages"
    [item] = re.findall(rf'<li id="{anchor}">.*?</li>', (built / "messages.html").read_text(), re.S)
    assert code in item


def test_every_code_is_on_the_page(page: Any, built: Path) -> None:
    codes = {
        page.code_of(page.module_of(path), message.maker)
        for path, messages in page.all.items()
        for message in messages
        if message.maker is not None
    }
    assert len(codes) > 500
    assert not codes - index_of(built)["indexentries"].keys()


def index_of(built: Path) -> Any:
    text = (built / "searchindex.js").read_text()
    return json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))


def test_the_search_leads_to_the_section_that_has_the_answer(page: Any, built: Path) -> None:
    index = index_of(built)
    for (name, section), words in page.searched.SEARCHED.items():
        for word in words:
            found = index["indexentries"].get(word.lower(), [])
            assert [index["docnames"].index(name), section, True] in found, word
    assert {"cold start", "event weights", "nan", "which metric"} <= index["indexentries"].keys()


@pytest.mark.parametrize(
    "words", ["NaN", "duplicate ids", "fitted call first", "threshold", "values must finite"]
)
def test_the_search_finds_the_page_by_words_of_a_message(words: str, built: Path) -> None:
    index = index_of(built)
    this = index["docnames"].index("messages")
    for word in words.lower().split():
        found = [
            index[kind][max(stems, key=len)]
            for kind in ("terms", "titleterms")
            if (stems := [stem for stem in index[kind] if word.startswith(stem)])
        ]
        assert any(this in np.atleast_1d(pages) for pages in found), word


def test_code_has_a_button_that_copies_it(built: Path) -> None:
    [script] = re.findall(r'src="(_static/copybutton\.js)', (built / "why-bad.html").read_text())
    assert "div.highlight pre" in (built / script).read_text()
