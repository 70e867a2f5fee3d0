"""Words that the search of the pages leads to a section of a guide, above all that mention them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import index
from sphinx.transforms import SphinxTransform

SEARCHED = {
    ("data", "events-of-several-kinds"): ("event weights",),
    ("data", "values"): ("NaN", "infinity", "missing values"),
    ("data", "ids"): ("duplicate ids", "missing ids"),
    ("data", "data-beside-a-model"): ("threshold",),
    ("evaluation", "is-the-difference-real"): ("significance", "p value"),
    ("messages", "messages"): ("error", "error message", "not fitted"),
    ("why-bad", "it-is-no-worse-than-it-seems"): ("which metric",),
    ("why-bad", "cold-start"): ("cold start",),
}
"""What readers search for, by the page and the id of the section that has it."""


class Searched(SphinxTransform):
    """Put these words into the index, from which the search takes what it shows first."""

    default_priority = 800  # before the index is collected

    def apply(self, **_: Any) -> None:
        """Mark the sections of a page."""
        for section in self.document.findall(nodes.section):
            for name in section["ids"]:
                words = SEARCHED.get((self.env.docname, name), ())
                entries = [("single", word, name, "main", None) for word in words]
                if entries:
                    section.insert(1, index(entries=entries))


def setup(app: Any) -> dict[str, bool]:
    """Extend Sphinx by the words."""
    app.add_transform(Searched)
    return {"parallel_read_safe": True}
