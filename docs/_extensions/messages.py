"""The page of messages: what errors say and advise, where the search of the pages finds it.

``messages`` with ``data files`` lists the errors that the files of ``mfrank/data`` and
``mfrank/files`` raise, under what each file is for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import index
from sphinx.util.docutils import SphinxDirective
from texts import Source, Text, has_words, last_name, written

from mfrank.errors import RESTORE, code_of

SOURCE = Path(__file__).parents[2] / "mfrank"
_WORDED = re.compile(
    r"(?!Assertion|NotImplemented|Attribute|Key)\w+Error|CannotAnswer|HTTPException"
)
"""Other errors that are told to users where their words are mfrank's."""


@dataclass(frozen=True)
class Message:
    """What an error says, and what it advises."""

    problem: Text
    remedy: Text
    maker: str | None
    """The function that makes it; None if it is an error of Python's, which has no code."""
    line: int = field(compare=False)


@cache
def kinds() -> frozenset[str]:
    """The classes of errors about what a caller passed, and the function that makes some."""
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    bases = re.findall(r"^class (\w+)\(([\w, ]+)\):", text, re.MULTILINE)
    known = {"InputError"}
    while more := {name for name, of in bases if known & set(of.split(", "))} - known:
        known |= more
    return frozenset(known - {"InputError"} | {"unreadable"})


def messages(source: Source) -> Iterator[Message]:
    """The messages of a file, in its order, one or more for each place that makes an error."""
    for call in sorted(source.calls, key=lambda call: (call.lineno, call.col_offset)):
        name = last_name(call.func)
        if name in kinds() and call.args:
            yield from _of_call(source, name, call)
        elif call in source.raised and call.args and _WORDED.fullmatch(name):
            yield from (one for one in _of_call(source, name, call) if has_words(one.problem))


def _of_call(source: Source, name: str, call: ast.Call) -> Iterator[Message]:
    """What an error made by this call says: by the order of its class's arguments."""
    if isinstance(call.args[0], ast.Starred):
        for texts in source.tuples(call.args[0].value) or [(source.text(call.args[0]),)]:
            remedy = texts[1] if len(texts) > 1 else ()
            yield Message(texts[0], remedy, source.makers[call], call.lineno)
        return
    named = {each.arg: source.text(each.value) for each in call.keywords}
    remedy = named.get("remedy", (RESTORE,) if name == "unreadable" else ())
    match name, [source.text(each) for each in call.args]:
        case "unreadable", [place, how, *more]:
            why = (": ", *more[0]) if more and more[0] else ()
            problem, rest = (*place, " ", *how, *why), more[1:]
        case "BadRow", [what, row]:
            problem, rest = (*what, " in row ", *row), []
        case "UnknownIdError", [problem, _, *rest]:
            pass
        case "HTTPException", [_, problem]:
            rest = []
        case _, [problem, *rest]:
            pass
    maker = source.makers[call] if name in kinds() else None
    yield Message(problem, rest[0] if rest else remedy, maker, call.lineno)


def shown_of(all_of_them: Iterable[Message]) -> list[Message]:
    """Those with words of their own, and one without them where its code has no other."""
    found = list(all_of_them)
    told = [one for one in found if has_words(one.problem)]
    makers = {one.maker for one in told} | {None}
    return told + [one for one in found if one.maker not in makers]


def module_of(path: Path) -> str:
    """The name by which a file is imported."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


class Messages(SphinxDirective):
    """The messages of some folders of the source."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Make a list of each file's messages."""
        shown: list[nodes.Node] = []
        for folder in self.arguments[0].split():
            for path in sorted((SOURCE / folder).rglob("*.py")):
                self.env.note_dependency(str(path))
                source = Source(path.read_text())
                found = dict.fromkeys(shown_of(messages(source)))
                if found:
                    shown.append(nodes.rubric("", "", *_inline(source.purpose or path.stem)))
                    items = [self._item(one, module_of(path)) for one in found]
                    shown.append(nodes.bullet_list("", *items, support_smartquotes=False))
        return shown

    def _item(self, message: Message, module: str) -> nodes.list_item:
        """A message, under its code, to which the search leads."""
        text = nodes.paragraph("", "", *_inline(written(message.problem)))
        item = nodes.list_item("", text)
        if message.remedy:
            remedy = written(message.remedy)
            item += nodes.paragraph("", "", *_inline(remedy), classes=["remedy"])
        if message.maker is not None:
            code = code_of(module, message.maker)
            text += [nodes.Text(" "), nodes.literal("", code, classes=["error-code"])]
            name = nodes.make_id(code)
            if name not in self.state.document.ids:
                item["ids"].append(name)
                self.state.document.ids[name] = item
                text.insert(0, index(entries=[("single", code, name, "main", None)]))
        return item


def _inline(text: str) -> Iterator[nodes.Node]:
    """Text with code between backticks."""
    for place, part in enumerate(text.split("`")):
        if part:
            yield nodes.literal("", part) if place % 2 else nodes.Text(part)


def setup(app: Any) -> dict[str, bool]:
    """Extend Sphinx by the directive."""
    app.add_directive("messages", Messages)
    return {"parallel_read_safe": True}
