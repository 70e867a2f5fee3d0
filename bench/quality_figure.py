"""NDCG@20 against the seconds of the fit, mfrank and implicit: a picture in docs/how-it-is-fast.md.

Draws what ``bench/quality.py`` measured: each model as an equal search chose it, on one machine;
``pip install matplotlib``. mfrank's WRMF in implicit's settings, a control, is left out.

    python bench/quality_figure.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.records import RESULTS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

FIGURE = Path(__file__).parent / "figures" / "quality.png"
DRAWN = {"gowalla": (256, 512), "ml-1m": (256,)}
OURS, THEIRS = "#1b6ca8", "#8a8a8a"
NOT_DRAWN = "WRMF as implicit"
OFFSETS = {"RG2": (6, -11), "WRMF": (7, -4)}
"""Where names stand from their points, if not above them, so that none covers another."""


def main() -> None:
    """Draw a panel for each data set."""
    figure = Figure(figsize=(8.6, 3.1), layout="constrained")
    panels = figure.subplots(1, len(DRAWN))
    for axes, (name, widths) in zip(panels, DRAWN.items(), strict=True):
        files = [RESULTS / f"quality-{name}-{width}.json" for width in widths]
        draw(axes, [row for file in files for row in json.loads(file.read_text())["rows"]])
        axes.set_title(name, fontsize=10)
    panels[0].set_ylabel("NDCG@20 on the test part", fontsize=8)
    figure.supxlabel("seconds of the fit", fontsize=8)
    figure.savefig(FIGURE, dpi=110)
    print(FIGURE)


def draw(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    """A point for each model and width, with its standard error and its name."""
    for row in rows:
        if row["model"] == NOT_DRAWN:
            continue
        color = THEIRS if row["model"] == "implicit" else OURS
        place = row["fit_seconds"], row["ndcg@20"]
        axes.errorbar(*place, yerr=row["ndcg@20_error"], fmt="o", color=color, markersize=5)
        told = f"{row['model']}, {row['factors']}"
        offset = OFFSETS.get(row["model"], (6, 4))
        axes.annotate(told, place, offset, textcoords="offset points", color=color, fontsize=8)
    axes.set_xscale("log")
    axes.margins(x=0.22, y=0.12)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
