"""Plain HTML for ``_repr_html_`` in notebooks; all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["paragraphs", "table"]


def table(title: str, rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """An HTML table captioned with its title; the first cell of each row is the row's header."""
    head = f"<thead><tr>{_cells('th', header)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{_cells('th', row[:1])}{_cells('td', row[1:])}</tr>" for row in rows)
    return f"<table><caption>{_text(title)}</caption>{head}<tbody>{body}</tbody></table>"


def paragraphs(texts: Iterable[str]) -> str:
    """One HTML paragraph per text."""
    return "".join(f"<p>{_text(text)}</p>" for text in texts)


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{_text(text)}</{tag}>" for text in texts)


def _text(text: str) -> str:
    """Escape the text; lone surrogates, which UTF-8 cannot encode, become backslash escapes."""
    return escape(text.encode("utf-8", "backslashreplace").decode("utf-8"))
