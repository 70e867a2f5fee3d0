"""What the pages of docs/ show is run, page by page, each in the order in which it is read."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from shop import pairs_of_a_shop

import mfrank
from mfrank import backends
from mfrank.cli.dispatch import _parser
from tests.support.errors import refuses

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS.parent / "bench" / "results"
if not DOCS.is_dir():
    pytest.skip("the pages are not beside the tests", allow_module_level=True)
PAGES = {
    page.relative_to(DOCS).with_suffix("").as_posix(): page.read_text()
    for page in (*sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("coming-from/*.md")))
}
BLOCKS = {
    name: found
    for name, text in PAGES.items()
    if not name.startswith("coming-from/")  # test_coming_from.py runs these
    and (
        found := re.findall(
            r"^```(?:python|{code-cell})\n(.*?)^```", text, re.MULTILINE | re.DOTALL
        )
    )
}
NEEDS = {
    "data": ("pandas",),
    "evaluation": ("matplotlib",),
    "first-steps": ("pandas",),
    "gallery": ("matplotlib",),
    "lists": ("pandas", "polars", "pyarrow"),
    "optuna": ("optuna",),
    "other-tools": ("pandas", "sklearn"),
    "serving": ("fastapi",),
    "tracking": ("mlflow", "wandb"),
}
SMALLER = {
    "factors=64": "factors=8",
    "factors=256": "factors=8",
    "minutes=10": "trials=2, factors=4",
    'backend="cuda"': 'backend="reference"',  # tests need no GPU
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages read, from which they are run."""
    pairs = pairs_of_a_shop()
    files = {
        "ratings.csv": (
            "user,item,rating",
            [f"{user},{item},{3 + n % 3}" for n, (user, item) in enumerate(pairs)],
        ),
        "orders.csv": (
            "buyer;sku;ordered",
            [
                f"{user};{item};2024-03-{1 + n % 28:02} 09:30:00"
                for n, (user, item) in enumerate(pairs)
            ],
        ),
        "european.csv": (
            "buyer;sku;ordered",
            [f"{user};{item};{1 + n % 12:02}/03/2024" for n, (user, item) in enumerate(pairs)],
        ),
    }
    for name, (header, lines) in files.items():
        (tmp_path / name).write_text("\n".join([header, *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", BLOCKS)
def test_a_page_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS.get(page, ()):
        pytest.importorskip(package, reason=f"the page {page} shows what {package} serves for")
    if page == "tracking":  # what MLflow calls of other packages is deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.syspath_prepend(str(folder))
    for block in BLOCKS[page]:
        for large, small in SMALLER.items():
            block = block.replace(large, small)
        if named := re.match(r"# (\w+)\.py\n", block):  # a module that later blocks import
            (folder / f"{named[1]}.py").write_text(block)
            monkeypatch.delitem(sys.modules, named[1], raising=False)
        else:
            exec(compile(block, f"{page}.md", "exec"), vars(module))


def test_the_gpu_is_asked_for_by_name() -> None:
    if backends.named("cuda").why_unavailable() is None:
        pytest.skip("there is a GPU here")
    with refuses(ValueError, "backend"):
        exec(compile(BLOCKS["gpu"][0], "gpu.md", "exec"), {})


def test_dates_in_another_style_are_refused_as_the_page_says(folder: Path) -> None:
    with refuses(ValueError, "timestamps", remedy="timestamp=False"):
        mfrank.Interactions.from_file("european.csv", user="buyer", item="sku", timestamp="ordered")


def test_every_name_that_pages_give_is_there() -> None:
    for page, text in PAGES.items():
        for name in set(re.findall(r"(?<!/)\bmfrank\.([A-Za-z]\w*)", text)) - {"serving"}:
            assert hasattr(mfrank, name), (page, name)
        for name in re.findall(r"`(?:ALS|Descent)\((\w+)\(", text):
            assert hasattr(mfrank, name), (page, name)


def test_commands_that_pages_give_are_understood() -> None:
    commands = set()
    for page, text in PAGES.items():
        if page == "history":  # as they were
            continue
        for shown in re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            lines = (line.partition(" && ")[0] for line in shown.splitlines())
            commands.update(line for line in lines if line.startswith("mfrank "))
        commands.update(re.findall(r"`(mfrank [\w-]+ [^`]+)`", text))
    assert len(commands) > 8
    for command in commands - {"mfrank serve --help"}:
        _parser().parse_args(shlex.split(command)[1:])


def test_links_between_pages_lead_somewhere() -> None:
    for page, text in PAGES.items():
        for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
            assert ((DOCS / page).parent / link).exists(), (page, link)


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = set(re.findall(r"^[a-z/-]+$", PAGES["index"] + PAGES["coming-from"], re.MULTILINE))
    assert PAGES.keys() - listed == {"index"}


@pytest.mark.skipif(not (RESULTS / "rerank-ml-1m.json").exists(), reason="there are no results")
def test_tables_are_those_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(RESULTS.parent))
    tables = runpy.run_path(str(RESULTS.parent / "tables.py"))
    for page, text in PAGES.items():
        assert tables["filled"](text, RESULTS) == text, f"bench/tables.py --write docs/{page}.md"
