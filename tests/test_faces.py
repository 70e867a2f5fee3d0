"""The faces of folders: what others import from a folder is what its ``__init__`` names."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FACES = sorted(
    path.parent.relative_to(ROOT).as_posix().replace("/", ".")
    for path in [*ROOT.glob("mfrank/*/__init__.py"), *ROOT.glob("mfrank/*/*/__init__.py")]
    if any(isinstance(node, ast.ImportFrom) for node in ast.parse(path.read_text()).body)
)
WITHOUT = (  # imported file by file, because each needs a package of its own or is a command
    *("mfrank.backends.cpu", "mfrank.backends.cuda", "mfrank.cluster.dask", "mfrank.cluster.ray"),
    *("mfrank.cli", "mfrank.pages", "mfrank.serving"),
)


def imports(path: Path) -> Iterator[str]:
    """Files of the package from which a file imports names (not those it imports as a whole)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            whole = [(ROOT / node.module.replace(".", "/") / one.name) for one in node.names]
            if not all(one.with_suffix(".py").exists() or one.is_dir() for one in whole):
                yield node.module


def face_of(module: str) -> str | None:
    if any(module == one or module.startswith(f"{one}.") for one in WITHOUT):
        return None
    within = [face for face in FACES if module.startswith(f"{face}.")]
    return min(within, key=len, default=None)


@pytest.mark.parametrize("folder", ["mfrank", "tests", "bench"])
def test_names_of_another_folder_come_from_its_face(folder: str) -> None:
    behind = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        own = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for module in imports(path):
            face = face_of(module)
            nearer = module in FACES  # a folder within a folder that has a face of its own
            if face and not nearer and not own.startswith(face):
                behind.append(f"{own}: from {module} import ...; take it from {face}")
    assert not behind, "\n".join(behind)


def test_files_of_tests_have_distinct_names() -> None:
    """Pytest imports them by name alone, and so do the processes of a cluster."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []


def test_classes_of_the_package_have_distinct_names() -> None:
    """A reader who searches for a name finds one thing."""
    names = Counter(
        node.name
        for path in (ROOT / "mfrank").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, number in names.items() if number > 1] == []
