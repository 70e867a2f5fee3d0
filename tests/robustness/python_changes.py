"""Every place where a file of Python can be changed, and the change: the mutants of a mutation run.

A change is one wrong operator, bound, number, condition, argument or result, or one statement too
few. What only words a message is left as it is (arguments of errors, warnings, logs and formatted
text, helps of flags), and so are annotations, decorators, docstrings, imports and ``strict=`` of a
zip.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Change", "changes", "tree_of"]

ROOT = Path(__file__).resolve().parents[2]
_COMPARED = (
    "Lt LtE, LtE Lt, Gt GtE, GtE Gt, Eq NotEq, NotEq Eq, Is IsNot, IsNot Is, In NotIn, NotIn In"
)
_COMPUTED = (
    "Add Sub, Sub Add, Mult Div, Div Mult, FloorDiv Mult, Mod FloorDiv, Pow Mult, "
    "BitAnd BitOr, BitOr BitAnd, BitXor BitAnd, LShift RShift, RShift LShift"
)
COMPARED, COMPUTED = (
    {getattr(ast, one): getattr(ast, other) for one, other in map(str.split, pairs.split(", "))}
    for pairs in (_COMPARED, _COMPUTED)
)
WORDING = (
    *("warn", "debug", "info", "warning", "error", "exception"),
    *("TypeVar", "ParamSpec", "getLogger", "Notice", "within"),
)
LEFT_AS_IT_IS = ("strict", "help", "description", "epilog", "metavar")  # keyword arguments
IGNORED = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.JoinedStr)
SYMMETRIC = ("isinstance", "cast", "max", "min", "maximum", "minimum", "logical_and", "logical_or")
Put = Callable[[Any], None]
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Change:
    """One place of a file, and what comes there.

    ``lines`` are those of its statement. ``where`` is "body" of a function, "default" of a
    parameter, or "module" for what runs while the module is imported.
    """

    path: Path
    number: int
    line: int
    column: int
    says: str
    lines: range
    where: str

    def __str__(self) -> str:
        code = _text_of(self.path).splitlines()[self.line - 1].strip()
        place = f"{self.path.relative_to(ROOT)}:{self.line}:{self.column}"
        return f"{place} {self.says} in: {code}"

    def applied(self) -> ast.Module:
        """The file with the change, as a tree."""
        tree = tree_of(self.path)
        next(make for number, _, make, _ in _numbered(tree) if number == self.number)()
        return ast.fix_missing_locations(tree)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(_text_of(path))


@cache
def _text_of(path: Path) -> str:
    """What the file has when the run begins."""
    return path.read_text(encoding="utf-8")


def changes(path: Path) -> list[Change]:
    """Return every change of a file."""
    return [
        Change(path, number, at.lineno, at.col_offset, says, place.lines, place.where)
        for number, place, _, says in _numbered(tree_of(path))
        for at in [getattr(place.node, "target", place.node)]
    ]


@dataclass(frozen=True)
class Place:
    """A node, how another comes in its place, and where that is."""

    node: Any
    put: Put
    lines: range
    where: str

    def child(self, node: Any, put: Put) -> Place:
        if not isinstance(node, ast.stmt):
            return Place(node, put, self.lines, self.where)
        body = getattr(node, "body", None)
        first = min(one.lineno for one in (node, *getattr(node, "decorator_list", ())))
        last = body[0].lineno - 1 if body else node.end_lineno
        return Place(node, put, range(first, max(node.lineno, last or 0) + 1), self.where)


def _numbered(tree: ast.Module) -> Iterator[tuple[int, Place, Callable[[], None], str]]:
    places = _places(Place(tree, lambda new: None, range(0), "module"))
    for number, (place, says, make) in enumerate(places):
        yield number, place, make, says


Found = Iterator[tuple[Place, str, Callable[[], None]]]


def _places(place: Place) -> Found:
    """What can be changed at a node, then within it."""
    node = place.node
    if isinstance(node, IGNORED) or _only_types(node) or getattr(node, "arg", "") in LEFT_AS_IT_IS:
        return
    yield from ((place, says, make) for says, make in _at(node, place.put))
    for child in _children(place):
        yield from _places(child)


def _only_types(node: ast.AST) -> bool:
    """Whether a statement is read by a type checker only, or is a docstring."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING")
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.annotation) == "TypeAlias"
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _children(place: Place) -> Iterator[Place]:
    node, where = place.node, place.where
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "targets", "target"):
            continue
        if name == "args" and isinstance(node, Function):
            yield from _defaults(place, node.args)
            continue
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _words(node)):
            continue  # the wording of an error
        if (
            isinstance(node, ast.Call)
            and name == "args"
            and _called(node) in ("cast", "isinstance")
        ):
            value = value[1:] if _called(node) == "cast" else value[:1]
        if isinstance(node, ast.Assign) and where == "module" and _is_alias(node):
            continue
        inside = "body" if isinstance(node, Function) and where == "module" else where
        here = Place(node, place.put, place.lines, inside)
        if isinstance(value, list):
            for at, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield here.child(one, partial(value.__setitem__, at))
        elif isinstance(value, ast.AST):
            yield here.child(value, partial(setattr, node, name))


def _defaults(place: Place, given: ast.arguments) -> Iterator[Place]:
    """The defaults of parameters; those of a function within another are part of the outer one."""
    where = "default" if place.where == "module" else place.where
    for values in (given.defaults, given.kw_defaults):
        for at, value in enumerate(values):
            if value is not None:
                lines = range(place.lines.start, place.lines.stop)
                yield Place(value, partial(values.__setitem__, at), lines, where)


def _called(node: ast.Call) -> str:
    called = node.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _words(node: ast.Call) -> bool:
    name = _called(node)
    return name in WORDING or name.endswith(("Error", "Warning"))


def _is_alias(node: ast.Assign) -> bool:
    """``Rows = NDArray[np.int64]``: a name for a type."""
    return isinstance(node.value, ast.Subscript | ast.BinOp) and any(
        word in ast.unparse(node.value)
        for word in ("NDArray", "Callable", "Literal", "tuple[", "dict[", "list[", " | ")
    )


def _at(node: Any, put: Put) -> Iterator[tuple[str, Callable[[], None]]]:
    """The changes of one node: how each reads, and what makes it."""
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                new = COMPARED[type(op)]()
                yield f"{_sign(op)} -> {_sign(new)}", partial(ops.__setitem__, at, new)
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in COMPUTED:
            new = COMPUTED[type(op)]()
            yield f"{_sign(op)} -> {_sign(new)}", partial(setattr, node, "op", new)
        case ast.BoolOp(op=op):
            new = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield f"{_sign(op)} -> {_sign(new)}", partial(setattr, node, "op", new)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield f"{_text(node)} -> {_text(node.operand)}", partial(put, node.operand)
        case ast.Constant(value=bool() | int() | float() | str() as value):
            new = _other(value)
            yield f"{value!r} -> {new!r}", partial(setattr, node, "value", new)
        case ast.Return(value=ast.expr() as value) if _text(value) != "None":
            yield f"return {_text(value)} -> None", partial(setattr, node, "value", _none())
        case ast.Expr(value=ast.Call() as value) if not _words(value):
            yield f"{_text(value)} -> pass", partial(put, ast.copy_location(ast.Pass(), node))
        case ast.Raise():
            yield "raise -> pass", partial(put, ast.copy_location(ast.Pass(), node))
        case ast.Break():
            yield "break -> continue", partial(put, ast.copy_location(ast.Continue(), node))
        case ast.Continue():
            yield "continue -> break", partial(put, ast.copy_location(ast.Break(), node))
    yield from _of_condition(node)
    if isinstance(node, ast.Call) and not _words(node):
        yield from _of_call(node)


def _of_condition(node: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """A condition that has no operator of its own, turned round."""
    tests = [(node, "test")] if isinstance(node, ast.If | ast.IfExp | ast.While) else []
    for owner, name in tests:
        value = getattr(owner, name)
        if not isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
            new = ast.UnaryOp(op=ast.Not(), operand=value)
            yield f"{_text(value)} -> not", partial(setattr, owner, name, new)
    if isinstance(node, ast.comprehension):
        for at, value in enumerate(node.ifs):
            if not isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp):
                new = ast.UnaryOp(op=ast.Not(), operand=value)
                yield f"{_text(value)} -> not", partial(node.ifs.__setitem__, at, new)


def _of_call(node: ast.Call) -> Iterator[tuple[str, Callable[[], None]]]:
    """An argument too few, or two in the wrong order."""
    name = _called(node)
    if name not in SYMMETRIC and len(node.args) >= 2:
        first, second, *rest = node.args
        if not any(isinstance(one, ast.Starred) for one in (first, second)):
            says = f"{name}({_text(first)}, {_text(second)}) -> swapped"
            yield says, partial(setattr, node, "args", [second, first, *rest])
    for at, given in enumerate(node.keywords):
        if given.arg not in (None, *LEFT_AS_IT_IS):
            rest = [*node.keywords[:at], *node.keywords[at + 1 :]]
            yield f"{name}({given.arg}=) -> left out", partial(setattr, node, "keywords", rest)


def _other(value: bool | int | float | str) -> bool | int | float | str:
    if isinstance(value, bool):
        return not value
    return "XX" if isinstance(value, str) else value + 1


def _none() -> ast.Constant:
    return ast.Constant(value=None)


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _sign(op: ast.AST) -> str:
    """``<`` for ast.Lt."""
    one, other = ast.Name("a"), ast.Name("b")
    if isinstance(op, ast.cmpop):
        return ast.unparse(ast.Compare(one, [op], [other]))[2:-2]
    if isinstance(op, ast.boolop):
        return ast.unparse(ast.BoolOp(op, [one, other]))[2:-2]
    return ast.unparse(ast.BinOp(one, op, other))[2:-2]
