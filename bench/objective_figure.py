"""The objective of every library against seconds, start included.

Draws what ``bench/time_to_objective.py`` measured; ``pip install matplotlib``.

    python bench/objective_figure.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.records import RESULTS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from time_to_objective import NEAR, PACEMAKER

FIGURE = Path(__file__).parent / "figures" / "objective.png"
FACTORS = 128
COLORS = {
    "mfrank auto": "#1b6ca8",
    "irspack cg": "#b8860b",
    "implicit cg": "#8a8a8a",
    "cmfrec cg": "#a05195",
}


def main() -> None:
    """Draw a panel for each data set."""
    files = sorted(RESULTS.glob("time-to-objective-*.json"))
    rows = [row for file in files for row in json.loads(file.read_text())["rows"]]
    rows = [row for row in rows if row["factors"] == FACTORS]
    panels = list(dict.fromkeys(row["data"] for row in rows))
    figure = Figure(figsize=(2.6 * len(panels), 2.7), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw(axes, {row["contender"]: row for row in rows if row["data"] == name})
        axes.set_title(name, fontsize=10)
    first = figure.axes[0]
    first.set_ylabel("objective above implicit's\nafter 15 epochs, %", fontsize=8)
    first.legend(frameon=False, fontsize=8)
    figure.supxlabel(f"seconds, start included, {FACTORS} factors", fontsize=8)
    figure.savefig(FIGURE, dpi=110)
    print(FIGURE)


def draw(axes: Axes, rows: dict[str, dict[str, Any]]) -> None:
    """The curves of one data set, and the goal as a dashed line."""
    last = rows[PACEMAKER]["curve"][-1][1]
    for name, color in COLORS.items():
        if name in rows:
            seconds, values = zip(*rows[name]["curve"], strict=True)
            above = [100 * (value / last - 1) for value in values]
            axes.plot(seconds, above, color=color, label=name.split()[0], marker=".", markersize=4)
    axes.axhline(100 * (NEAR - 1), color="#444444", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-6, 20)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main()
