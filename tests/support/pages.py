"""Reads the HTML that objects show in notebooks, and refuses what a browser would have to mend."""

from __future__ import annotations

from html.parser import HTMLParser

KNOWN = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


class Page(HTMLParser):
    """The texts of a page, cell by cell; every tag is known, bare, closed and in its place.

    Attributes
    ----------
    rows : list of list of str
        Cells of each row of all tables.
    texts : list of str
        Every text.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"left open: {self.open}"
        html.encode("utf-8")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in KNOWN, f"tag {tag} came from a text"
        assert not attrs
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"comment {data!r} came from a text")

    def cell(self, name: str, column: int = 1) -> str:
        """The cell of the row with this name."""
        return next(row for row in self.rows if row[0] == name)[column]


def page(shown: object) -> Page:
    """What an object shows in a notebook."""
    html = shown._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(html, str)
    return Page(html)
