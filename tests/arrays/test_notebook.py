"""HTML of notebooks has every cell once, in order, and no markup but its own."""

from __future__ import annotations

import pytest

from mfrank.arrays import paragraphs, table


def test_a_table_has_its_cells_in_order() -> None:
    assert table("of 2", [("a", "1", "2"), ("b", "3", "4")], ("", "x", "y")) == (
        "<table><caption>of 2</caption>"
        "<thead><tr><th></th><th>x</th><th>y</th></tr></thead><tbody>"
        "<tr><th>a</th><td>1</td><td>2</td></tr><tr><th>b</th><td>3</td><td>4</td></tr>"
        "</tbody></table>"
    )
    assert table("no rows", []) == (
        "<table><caption>no rows</caption><tbody></tbody></table>"  # and no header
    )


def test_paragraphs_follow_each_other() -> None:
    assert paragraphs(["one", "two"]) == "<p>one</p><p>two</p>"


@pytest.mark.parametrize(
    ("text", "told"),
    [("a < b & c", "a &lt; b &amp; c"), ("é", "é"), ("\ud800x", "\\ud800x")],
)
def test_text_is_no_markup_and_can_be_encoded(text: str, told: str) -> None:
    for html in (paragraphs([text]), table(text, [(text, text)], (text,))):
        assert told in html
        html.encode()
