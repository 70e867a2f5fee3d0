"""Seconds until implicit's objective is reached, start included, as bars: README's picture.

Draws what ``bench/against_implicit.py`` measured; ``pip install matplotlib``.

    python bench/race_figure.py
"""

from __future__ import annotations

import json
from pathlib import Path

from harness.records import RESULTS
from matplotlib.figure import Figure

FIGURE = Path(__file__).parent / "figures" / "race.png"
SHOWN = {
    "mfrank auto": "#1b6ca8",
    "irspack": "#b8860b",
    "implicit cg": "#8a8a8a",
}


def main() -> None:
    """Draw a group of bars for each data set and width."""
    rows = json.loads((RESULTS / "against-implicit.json").read_text())["rows"]
    groups = list(dict.fromkeys((row["data"], row["factors"]) for row in rows))
    present = [name for name in SHOWN if any(row["contender"] == name for row in rows)]
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(present)
    for place, name in enumerate(present):
        seconds = {
            (row["data"], row["factors"]): row.get("seconds_to_objective")
            for row in rows
            if row["contender"] == name
        }
        at = [group + (place - (len(present) - 1) / 2) * width for group in range(len(groups))]
        heights = [seconds.get(group) or 0.0 for group in groups]
        bars = axes.bar(at, heights, width, color=SHOWN[name], label=name)
        axes.bar_label(bars, [f"{h:.1f}" if h else "" for h in heights], fontsize=7)
    axes.set_xticks(range(len(groups)), [f"{data}, {factors}" for data, factors in groups])
    axes.set_yscale("log")
    axes.set_ylabel("seconds")
    axes.set_title("Until implicit's objective after 15 epochs, start included", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=110)
    print(FIGURE)


if __name__ == "__main__":
    main()
