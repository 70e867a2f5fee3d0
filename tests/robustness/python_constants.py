"""Exchanges a module's constant, or a default of a dataclass, in modules that are imported.

A module's constant is exchanged wherever it was imported by its name. What was computed from it
during an import stays as it was: a change that no test sees in this way is to be tried by an
import.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from typing import Any

from python_changes import ROOT, Change, tree_of

__all__ = ["exchange_constant", "lines_that_name"]


def exchange_constant(change: Change) -> bool:
    """Make a change in the imported modules; False where only an import makes it."""
    name = ".".join(change.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    module = sys.modules.get(name)
    found = _differing(change)
    if module is None or found is None:
        return False
    owner, target, value = found
    try:
        new = eval(compile(ast.Expression(value), "constant", "eval"), dict(vars(module)))
    except Exception:
        return False
    if owner is None:
        return _in_modules(module, target, new)
    return isinstance(target, ast.Name) and _in_class(vars(module).get(owner), target.id, new)


def lines_that_name(change: Change) -> set[int]:
    """The lines of the file in which the changed name occurs."""
    found = _differing(change)
    names = [one.id for one in ast.walk(found[1]) if isinstance(one, ast.Name)] if found else []
    pattern = re.compile("|".join(rf"\b{name}\b" for name in names) or r"(?!)")
    lines = change.path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if pattern.search(line)}


def _differing(change: Change) -> tuple[str | None, ast.expr, ast.expr] | None:
    """The class, the target and the new value of the assignment that a change makes another."""

    def assignments(body: list[ast.stmt], owner: str | None = None) -> list[Any]:
        found = list[Any]()
        for one in body:
            if isinstance(one, ast.ClassDef) and owner is None:
                found += assignments(one.body, one.name)
            elif isinstance(one, ast.Assign) and len(one.targets) == 1:
                found.append((owner, one.targets[0], one.value))
            elif isinstance(one, ast.AnnAssign) and one.value is not None:
                found.append((owner, one.target, one.value))
        return found

    pairs = zip(
        assignments(tree_of(change.path).body), assignments(change.applied().body), strict=True
    )
    return next((new for old, new in pairs if ast.dump(old[2]) != ast.dump(new[2])), None)


def _in_modules(module: Any, target: ast.expr, new: Any) -> bool:
    if isinstance(target, ast.Name):
        names, values = [target], [new]
    elif isinstance(target, ast.Tuple) and isinstance(new, tuple):
        names, values = target.elts, list(new)
    else:
        return False
    for one, value in zip(names, values, strict=False):
        if not isinstance(one, ast.Name) or one.id not in vars(module):
            return False
        old = vars(module)[one.id]
        for name, other in list(sys.modules.items()):
            if name.startswith("mfrank") and vars(other).get(one.id) is old:
                setattr(other, one.id, value)
    return True


def _in_class(owner: Any, name: str, new: Any) -> bool:
    """Also in subclasses that have the default, and in what makes their objects."""
    if not isinstance(owner, type) or isinstance(new, dataclasses.Field) or name not in vars(owner):
        return False
    old = vars(owner)[name]
    if hasattr(type(old), "__get__"):  # of a named tuple, or a slot
        return False
    setattr(owner, name, new)
    for one in (owner, *_subclasses(owner)):
        field = vars(one).get("__dataclass_fields__", {}).get(name)
        made_by = vars(one).get("__init__")
        if field is None or field.default is not old or made_by is None:
            continue
        field.default = new
        code = made_by.__code__
        with_defaults = code.co_varnames[: code.co_argcount][-len(made_by.__defaults__ or ()) :]
        made_by.__defaults__ = tuple(
            new if argument == name else value
            for argument, value in zip(with_defaults, made_by.__defaults__ or (), strict=False)
        )
        if name in (made_by.__kwdefaults__ or {}):
            made_by.__kwdefaults__[name] = new
    return True


def _subclasses(owner: type) -> list[type]:
    direct = owner.__subclasses__()
    return [*direct, *(one for each in direct for one in _subclasses(each))]
