"""Texts that a program makes, read from its source: literal words, and fields that a run fills in.

Nothing is imported or run. A text is known as far as constants, f-strings, variables of the same
function and functions of the same file tell; the rest are fields, named after their expressions.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_PASSED_ON = {"shown", "str", "repr", "int", "float", "min", "max", "map", "sorted", "examples"}
_DEEPEST = 4  # calls and variables that lead from one to the next


@dataclass(frozen=True)
class Field:
    """What a run fills in."""

    name: str


@dataclass(frozen=True)
class Either:
    """One of several texts, of which one may be empty."""

    texts: tuple[Text, ...]


Text = tuple[str | Field | Either, ...]


def written(text: Text) -> str:
    """The text with ⟨fields⟩, [what may be missing] and (one | another)."""
    return "".join(map(_written, text))


def _written(part: str | Field | Either) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Field):
        return f"⟨{part.name}⟩"
    texts = [written(text) for text in part.texts if text]
    if len(texts) == len(part.texts):
        return f"({' | '.join(texts)})"
    return f"[{' | '.join(texts)}]"


def pattern(text: Text) -> str:
    """A regular expression of all that the text can become, without the marks of names."""
    return "".join(map(_pattern, text))


def _pattern(part: str | Field | Either) -> str:
    if isinstance(part, str):
        return re.escape(part.replace("`", ""))
    if isinstance(part, Field):
        return r"[\s\S]*"
    return f"(?:{'|'.join(map(pattern, part.texts))})"


def has_words(text: Text) -> bool:
    """Whether any of it is known before a run."""
    return any(
        any(map(has_words, part.texts)) if isinstance(part, Either) else re.search("[a-z]{2}", part)
        for part in text
        if not isinstance(part, Field)
    )


class Source:
    """A file of the source, whose expressions are read as texts.

    Attributes
    ----------
    purpose : str
        The first sentence of the file.
    calls : list of ast.Call
        All calls in the file.
    raised : set of ast.expr
        What is raised.
    makers : dict of ast.Call to str
        The outermost function in which a call is, or nothing.
    """

    def __init__(self, code: str) -> None:
        tree = ast.parse(code)
        opening = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("``", "`")
        self.purpose = re.split(r"[.:;](?=\s|$)", opening)[0].replace("\n", " ")
        self.calls: list[ast.Call] = []
        self.raised: set[ast.expr | None] = set()
        self.makers: dict[ast.Call, str] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        self._scopes: dict[ast.AST, ast.AST] = {}
        self._given: dict[tuple[ast.AST, str], list[ast.expr]] = {}
        inside: list[tuple[ast.AST, ast.AST, str]] = [(tree, tree, "")]
        while inside:
            node, scope, maker = inside.pop()
            self._enter(node, scope)
            if isinstance(node, ast.Call):
                self.makers[node] = maker
            scope = node if isinstance(node, ast.FunctionDef) else scope
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                maker = maker or node.name
            inside += [(child, scope, maker) for child in ast.iter_child_nodes(node)][::-1]

    def _enter(self, node: ast.AST, scope: ast.AST) -> None:
        match node:
            case ast.Call():
                self.calls.append(node)
            case ast.Raise():
                self.raised.add(node.exc)
            case ast.FunctionDef():
                self._functions[node.name] = node
                self._scopes[node] = scope
            case ast.Name():
                self._scopes[node] = scope
            case ast.Assign(targets=[ast.Name(id=name), *_], value=value):
                self._given.setdefault((scope, name), []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._given.setdefault((scope, name), []).append(value)

    def text(self, node: ast.expr, deep: int = 0) -> Text:
        """What the expression makes."""
        match node:
            case ast.Constant(value=str(words)):
                return (words,) if words else ()
            case ast.JoinedStr(values=parts):
                return sum((self.text(part, deep) for part in parts), ())
            case ast.FormattedValue(value=inner) if isinstance(inner, ast.IfExp | ast.Name):
                return self.text(inner, deep)
            case ast.FormattedValue(value=inner):
                return self._called(inner, deep)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.text(left, deep) + self.text(right, deep)
            case ast.IfExp(body=one, orelse=other):
                return _either([self.text(one, deep), self.text(other, deep)], node)
            case ast.BoolOp(op=ast.Or(), values=values):
                return _either([self.text(value, deep) for value in values], node)
            case ast.Name(id=name) if deep < _DEEPEST:
                given = self._assigned(name, node)
                return _either([self.text(value, deep + 1) for value in given], node)
            case _:
                return self._called(node, deep)

    def tuples(self, call: ast.expr) -> list[tuple[Text, ...]]:
        """What a function of this file returns, each a tuple of texts."""
        returned = self._returns(call) if isinstance(call, ast.Call) else []
        return [
            tuple(self.text(part, 1) for part in value.elts)
            for value in returned
            if isinstance(value, ast.Tuple)
        ]

    def _called(self, node: ast.expr, deep: int) -> Text:
        if isinstance(node, ast.Call) and deep < _DEEPEST and (returned := self._returns(node)):
            return _either([self.text(value, deep + 1) for value in returned], node)
        return (Field(_name(node)),)

    def _returns(self, call: ast.Call) -> list[ast.expr]:
        """What a function of this file returns."""
        function = self._functions.get(last_name(call.func))
        body = ast.walk(function) if function else ()
        return [node.value for node in body if isinstance(node, ast.Return) and node.value]

    def _assigned(self, name: str, inside: ast.AST) -> list[ast.expr]:
        """What a variable gets in the function around a node, or in one around that."""
        scope = self._scopes.get(inside)
        if scope is None:
            return []
        return self._given.get((scope, name)) or self._assigned(name, scope)


def _either(texts: list[Text], node: ast.expr) -> Text:
    """One of the texts, or a field where nothing of them is known."""
    single = (each for text in texts for each in _choices(text))
    distinct = tuple(dict.fromkeys(single))
    if not any(map(has_words, distinct)):
        return (Field(_name(node)),)
    return distinct[0] if len(distinct) == 1 else (Either(distinct),)


def _choices(text: Text) -> tuple[Text, ...]:
    """The texts between which a text chooses, if it is nothing but a choice."""
    match text:
        case (Either(texts=texts),):
            return texts
    return (text,)


def last_name(node: ast.expr) -> str:
    """The name of a function or variable, without what it is in."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _name(node: ast.expr) -> str:
    """A short name of what an expression gives."""
    match node:
        case ast.Attribute(attr="__name__"):
            return "type"
        case ast.Name() | ast.Attribute():
            return _as_words(last_name(node))
        case ast.Call(func=ast.Name(id="len"), args=[counted]):
            return f"number of {_name(counted).removeprefix('of ')}"
        case ast.Call(func=ast.Name(id="counted"), args=[_, ast.Constant(value=noun), *_]):
            return f"n {noun.removesuffix('y')}ies" if noun.endswith("y") else f"n {noun}s"
        case ast.Call(func=ast.Attribute(attr="join"), args=[joined]):
            return _name(joined)
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _PASSED_ON:
            return _name(first)
        case ast.Call(func=called):
            return _as_words(last_name(called)) or "value"
        case ast.Subscript(value=whole) | ast.Starred(value=whole):
            return _name(whole)
        case ast.GeneratorExp(generators=[ast.comprehension(iter=whole)]):
            return _name(whole)
        case _:
            return "value"


def _as_words(name: str) -> str:
    return name.strip("_").replace("_", " ").lower()
