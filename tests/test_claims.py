"""What the pages say of the code and of the results, where these can tell."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

import mfrank

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "bench"
RESULTS = sorted((BENCH / "results").glob("*.json"))
PAGES = [
    ROOT / "README.md",
    *sorted((BENCH / "pages").glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
needs_bench = pytest.mark.skipif(not RESULTS, reason="bench/ is not beside the tests")


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("harness", "tables")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="the settings are not here")
def test_a_release_has_one_version_and_names_the_pythons_that_it_has_wheels_for() -> None:
    version = mfrank.__version__
    assert f"\n## {version} " in (ROOT / "CHANGELOG.md").read_text()
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["build"]
    wheels = re.findall(r"cp3(\d+)-", built)
    named = re.findall(r"Python :: 3\.(\d+)\n", (ROOT / "setup.cfg").read_text())
    assert named == wheels
    [tested] = re.findall(r"with Python (3\S+.*?)\. ", (ROOT / "README.md").read_text())
    assert set(re.findall(r"3\.(\d+)", tested)) <= set(wheels)


@pytest.mark.skipif(not (ROOT / "mfrank").is_dir(), reason="mfrank/ is not beside the tests")
def test_contributing_names_files_and_names_that_are_there() -> None:
    """Paths in full, or from mfrank/ or cext/ on; a name stands in the file that follows it."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    path = r"([\w./-]+/(?:[\w.-]+\.(?:py|pyi|h|cpp|md))?)"
    places = set(re.findall(f"`{path}`", text))
    assert len(places) > 100
    for place in (place for place in places if not re.search("[A-Z]{4}", place)):
        assert any((ROOT / start / place).exists() for start in ("", "mfrank", "cext")), place
    named = re.findall(rf"(?:`(\w+)` (?:and|or) )?`(\w+)` (?:in|of) `{path}`", text)
    assert len(named) > 20
    for *names, place in named:
        (file,) = (ROOT / s / place for s in ("", "mfrank") if (ROOT / s / place).is_file())
        assert all(re.search(rf"\b{name}\b", file.read_text()) for name in names if name), place


@needs_bench
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_have_the_numbers_of_the_results(page: Path) -> None:
    """Whatever has changed since: ``bench/tables.py --write`` says that, and nothing else."""
    import tables

    def numbers(text: str) -> str:
        return re.sub(r"†|; changed since: [\w/, ]+(?=  $)", "", text, flags=re.MULTILINE)

    text = page.read_text()
    assert numbers(tables.filled(text, BENCH / "results")) == numbers(text)


@needs_bench
@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_a_result_knows_the_code_that_it_measured(file: Path) -> None:
    from harness.measured_code import MEASURED, digests

    record = json.loads(file.read_text())
    script = re.search(r"bench/(\w+)\.py", record["command"])
    assert script
    assert (BENCH / f"{script[1]}.py").exists()
    assert set(record["code"]) == set(MEASURED[script[1]])
    assert all((ROOT / folder).is_dir() for folder in digests(record["command"]))


@needs_bench
def test_a_result_is_old_once_the_code_has_changed_and_not_before(tmp_path: Path) -> None:
    from harness.measured_code import changed_since, digests

    def write(code: str) -> None:
        for name in ("mfrank/retrieval", "mfrank/backends/cpu", "cext/kernels/topk"):
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "mfrank/retrieval/lists.py").write_text(code)

    write("def best(n):\n    return n + 1\n")
    (tmp_path / "cext/kernels/topk/top.h").write_text("int a = 1; // one\n")
    command = "python bench/topk_cost.py --n 10"
    record = {"command": command, "code": digests(command, tmp_path)}
    write('"""Lists."""\n\n\ndef best(n):  # the best\n    """Of them."""\n    return n + 1\n')
    (tmp_path / "cext/kernels/topk/top.h").write_text("int a\n  = 1; /* the\n first */\n")
    assert changed_since(record, tmp_path) == []
    write("def best(n):\n    return n + 2\n")
    assert changed_since(record, tmp_path) == ["mfrank/retrieval"]
    (tmp_path / "cext/kernels/topk/top.h").write_text("int a = 2;\n")
    assert changed_since(record, tmp_path) == ["mfrank/retrieval", "cext/kernels/topk"]
    assert changed_since({"command": command}, tmp_path) == list(digests(command, tmp_path))
