"""Shells complete the command line by argcomplete, where that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mfrank eval", ["evaluate"]),
        ("mfrank fit data.csv --solver c", ["cholesky", "cg"]),
        ("mfrank recommend-all --dry", ["--dry-run"]),
    ],
)
def test_tab_completes(line: str, expected: list[str], tmp_path: Path) -> None:
    pytest.importorskip("argcomplete", reason="completion needs argcomplete")
    answer = tmp_path / "answer"
    told = run(
        "import sys; sys.argv = ['mfrank']; from mfrank.cli.main import main; main()",
        _ARGCOMPLETE="1",
        _ARGCOMPLETE_STDOUT_FILENAME=str(answer),
        _ARGCOMPLETE_IFS="\n",
        COMP_LINE=line,
        COMP_POINT=str(len(line)),
    )
    assert told.returncode == 0, told.stderr
    assert {word.strip() for word in answer.read_text().split("\n")} == set(expected)


def test_without_it_the_line_is_run() -> None:
    told = run(
        "import sys; sys.modules['argcomplete'] = None; sys.argv = ['mfrank', '--version']\n"
        "from importlib import util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name: None if name == 'argcomplete' else find(name)\n"
        "from mfrank.cli.main import main; sys.exit(main())",
        _ARGCOMPLETE="1",
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("mfrank ")
