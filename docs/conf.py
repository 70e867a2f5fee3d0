"""How Sphinx builds these pages: ``python -m sphinx -W -n docs docs/_build/html``.

Nothing is loaded from another host, neither while pages are built nor while they are read:
equations become MathML, which browsers draw themselves.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from mfrank import __version__

project = "mfrank"
author = "the authors of mfrank"
release = version = __version__
extensions = [
    *("sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb", "sphinx_copybutton"),
    *("messages", "searched"),
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"mfrank {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_math_renderer = "mathml"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

# A notebook runs where its data are, in the folder that MFRANK_DATA names; elsewhere its page has
# no outputs.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
nb_execution_excludepatterns = [
    f"notebooks/{path.name}"
    for path in Path(__file__).parent.glob("notebooks/*.ipynb")
    if not Path(
        os.environ.get("MFRANK_DATA", "nowhere"), json.loads(path.read_text())["metadata"]["data"]
    ).is_dir()
]

copybutton_prompt_text = r">>> |\.\.\. |\$ "  # what is copied begins after it
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "groupwise"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

# Docstrings point into modules which are read as code, and so have no page.
nitpick_ignore_regex = [(r"py:.*", r"mfrank\.[a-z_]+(\..+)?")]


def as_mathml(translator: Any, node: nodes.Node, display: bool) -> None:
    """Write an equation as MathML; docutils knows how."""
    translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=display))
    raise nodes.SkipNode


def draw_inline(translator: Any, node: nodes.Node) -> None:
    """Write an equation within a line."""
    as_mathml(translator, node, display=False)


def draw_block(translator: Any, node: nodes.Node) -> None:
    """Write an equation that stands alone."""
    as_mathml(translator, node, display=True)


def as_restructured_text(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Make what docstrings write plainly, for ``help``, into what Sphinx reads."""
    if what in ("attribute", "data", "property") and lines:
        lines[0] = lines[0].replace(": ", ", ", 1)  # before a colon, napoleon expects a type
    headings = [row for row, line in enumerate(lines) if re.fullmatch(r"-{3,}", line)]
    opening = lines[: headings[0] - 1] if headings else list(lines)
    rest = lines[len(opening) :]
    paragraphs = "\n".join(opening).rstrip().split("\n\n")
    shown = [_equations_as_blocks(paragraph) for paragraph in paragraphs]
    if paragraphs and any(paragraph.endswith("::") for paragraph in paragraphs):
        shown = paragraphs  # its blocks are marked already
    lines[:] = [*"\n\n".join(shown).split("\n"), "", *map(_escaped, rest)]


def _equations_as_blocks(paragraph: str) -> str:
    """Make code of a paragraph with indented lines, or of equations alone."""
    lines = paragraph.split("\n")
    stated = lines[0].startswith("L = ") and all(" = " in line for line in lines)
    indented = any(line[:1] == " " for line in lines)
    if re.match(r"\s*(-|\d\.|>>>) ", paragraph) or not (stated or indented):
        return "\n".join(map(_escaped, lines))
    return "\n".join([".. code-block:: text", "", *("    " + line for line in lines)])


def _escaped(line: str) -> str:
    """A bar or a star outside of code is one, not the beginning of markup."""
    if re.match(r"\s*(>>>|\.\.\.) ", line):
        return line
    words = re.split(r"(``.*?``|:\w+:`[^`]*`|(?<!\*)\*\w[^*]*\w\*(?!\*))", line)
    words[::2] = [re.sub(r"([|*]|\b_(?=\s|$))", r"\\\1", word) for word in words[::2]]
    return "".join(words)


def setup(app: Any) -> None:
    """Extend Sphinx by the functions above."""
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
    app.connect("autodoc-process-docstring", as_restructured_text, priority=400)
