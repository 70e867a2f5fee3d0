"""How large the package is, and how many files and functions a call enters.

The counts are a compass, not limits: they show whether the package grows faster than what it does.
A column for this checkout, and one for each earlier count named by ``--beside``:

    python bench/house.py --save before.json
    python bench/house.py --beside before.json
    python bench/house.py --no-walks  # without calling anything

A walk counts the files of ``mfrank/`` that a call enters, and its functions (without lambdas and
comprehensions), in all threads; the call has been made once before, so that imports do not count.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, TESTS = ROOT / "mfrank", ROOT / "tests"
SMALL = 40  # code lines


class Source:
    """A file: its lines, code lines, imports and classes."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.parts = path.relative_to(root).with_suffix("").parts
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.lines = self.text.count("\n")
        self.code = len(_code_lines(self.text) - _docstring_lines(self.tree))

    @property
    def module(self) -> str:
        """Its name in imports."""
        parts = self.parts[:-1] if self.parts[-1] == "__init__" else self.parts
        return ".".join(("mfrank", *parts))

    def imports(self) -> Iterator[tuple[str, int]]:
        """Modules of the package that are imported, with the lines of each statement."""
        for node in ast.walk(self.tree):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            lines = _length(node) if names else 0
            for name in names:
                if name.split(".")[0] == "mfrank":
                    yield name, lines
                    lines = 0

    def ceremony(self) -> int:
        """Lines of imports, of ``__all__``, and of signatures, on the way to a function's body."""
        count = 0
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom) or (
                isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            ):
                count += _length(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count += node.body[0].lineno - node.lineno
        return count

    def classes(self) -> list[str]:
        """Names of all its classes."""
        return [node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]


def _length(node: Any) -> int:
    return int(node.end_lineno - node.lineno + 1)


def _code_lines(text: str) -> set[int]:
    blank = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        line
        for one in tokens
        if one.type not in blank
        for line in range(one.start[0], one.end[0] + 1)
    }


def _docstring_lines(tree: ast.Module) -> set[int]:
    """Lines of strings that are statements: docstrings, also those of attributes."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def sizes() -> dict[str, str]:
    """Counts of lines, files and names."""
    sources = [Source(path, PACKAGE) for path in sorted(PACKAGE.rglob("*.py"))]
    importers, behind, by_file = defaultdict[str, set[str]](set), 0, 0
    modules = {one.module for one in sources}
    for one in sources:
        for name, lines in one.imports():
            by_file += lines
            if name in modules and name != one.module:
                importers[name].add(one.module)
                folder = name.split(".")[1:2]
                behind += folder != one.module.split(".")[1:2] and name.count(".") > 1
    files = Counter(one.path.name for one in sources if one.path.name != "__init__.py")
    classes = Counter(name for one in sources for name in one.classes())
    tests = [Source(path, TESTS) for path in sorted(TESTS.rglob("*.py"))]
    tested = {name for one in tests for name, _ in one.imports() if name in modules}
    code = sum(one.code for one in sources)
    full = [one for one in sources if one.code]
    return {
        "lines": f"{sum(one.lines for one in sources):,}",
        "code lines": f"{code:,}",
        "files": f"{len(sources):,}",
        "code lines a file": f"{code / len(full):.0f}",
        f"files with fewer than {SMALL} code lines": str(sum(one.code < SMALL for one in sources)),
        "files that one other imports": str(
            sum(len(importers[one.module]) == 1 for one in sources)
        ),
        "lines of imports, `__all__` and signatures": f"{sum(s.ceremony() for s in sources):,}",
        "lines that import from the package": f"{by_file:,}",
        "imports of a file behind another folder's face": f"{behind:,}",
        "class names that occur twice": str(sum(times > 1 for times in classes.values())),
        "file names that occur twice": str(sum(times > 1 for times in files.values())),
        "lines of tests": f"{sum(one.lines for one in tests):,}",
        "modules that tests import": str(len(tested)),
        "`match=` in tests": str(sum(one.text.count("match=") for one in tests)),
    }


def walked(call: Callable[[], object]) -> str:
    """Files and functions of the package that a second call enters."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        call()
        entered = set[tuple[str, str, int]]()

        def enters(frame: FrameType, event: str, _: Any) -> None:
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(f"{PACKAGE}/"):
                entered.add((code.co_filename, code.co_name, code.co_firstlineno))

        threading.setprofile(enters)
        sys.setprofile(enters)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    functions = [name for _, name, _ in entered if not name.startswith("<")]
    return f"{len({file for file, *_ in entered})}, {len(functions)}"


def walks(folder: Path) -> dict[str, str]:
    """Files and functions that five calls enter."""
    sys.path.insert(0, str(ROOT))
    import mfrank
    from mfrank.cli.main import main

    data = mfrank.synthetic(200, 100, interactions=3000, random_state=0)
    model = mfrank.ALS(factors=8, random_state=0).fit(data)
    text = folder / "ratings.csv"
    rows = [f"u{row},i{item}" for row, item in zip(*data.to_scipy().nonzero(), strict=True)]
    text.write_text("\n".join(["user,item", *rows]) + "\n", encoding="utf-8")

    def fit() -> None:
        with contextlib.suppress(SystemExit):
            main(["fit", str(text), "--model", str(folder / "model")])

    return {
        "`ALS.fit`: files, functions": walked(lambda: mfrank.ALS(random_state=0).fit(data)),
        "`Descent.fit`": walked(lambda: mfrank.Descent(iterations=2, random_state=0).fit(data)),
        "`recommend`, one user": walked(lambda: model.recommend(0)),
        "`tune`": walked(lambda: mfrank.tune(data, trials=6, random_state=0)),
        "`mfrank fit`": walked(fit),
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-walks", action="store_true")
    parser.add_argument("--save", type=Path, help="where the counts are written, as JSON")
    parser.add_argument("--beside", type=Path, nargs="*", default=[], help="counts saved before")
    asked = parser.parse_args()
    counts = sizes()
    if not asked.no_walks:
        with tempfile.TemporaryDirectory() as folder:
            counts |= walks(Path(folder))
    if asked.save:
        asked.save.write_text(json.dumps(counts, indent=2) + "\n")
    columns = {path.stem: json.loads(path.read_text()) for path in asked.beside} | {"now": counts}
    print(f"| | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in counts:
        print(f"| {name} | {' | '.join(one.get(name, '-') for one in columns.values())} |")


if __name__ == "__main__":
    main()
