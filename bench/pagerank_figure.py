"""How stationary distributions converge: Nesterov and Nemirovski's method, power iteration.

The left of the paper's Figure 2: the loss of the untuned walk (all weights 1) against the steps of
either method. Beside it is what the figure does not show: the distance to the exact distribution,
with the bound that both methods have on any graph. Power iteration starts where the walk restarts,
or from all nodes of a query alike, which the paper may have meant. The graphs are those of queries
with as many features as the paper's, and one cycle through all nodes, where nothing mixes.

    python bench/pagerank_figure.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.records import line, parser, save
from numpy.typing import NDArray
from pagerank.graphs import queries
from pagerank.peers import ALPHA

from mfrank.backends import Until
from mfrank.pagerank import (
    Graphs,
    Problem,
    Transitions,
    Walker,
    nesterov_nemirovski,
    power,
    power_steps,
)

FIGURES = Path(__file__).parent / "figures"
MOST = 40
BOUND = "bound of both"

Floats = NDArray[np.float64]


def cycle(n_nodes: int = 200) -> Graphs:
    """One query whose walk goes round, every tenth page better than the others."""
    nodes = np.arange(n_nodes)
    labels = np.where(nodes % 10 == 3, 1.0, 0.0)
    return Graphs.from_edges(nodes, (nodes + 1) % n_nodes, seeds=[0], labels=labels)


def from_all(walk: Transitions, steps: int, walker: Walker) -> Floats:
    """Power iteration that starts at every node of a query with the same probability."""
    sizes = np.diff(walk.graphs.nodes)
    begin = np.repeat(1 / sizes, sizes)[:, None]
    restarts = ALPHA * walk.restarts[:, None]
    walked = walker.backend.walk(walk.forward, restarts, begin, 1 - ALPHA, Until(steps))
    return np.asarray(walked.values[:, 0])


METHODS: dict[str, Callable[[Transitions, int, Walker], Floats]] = {
    "Nesterov-Nemirovski": lambda walk, steps, how: nesterov_nemirovski(walk, steps, how).values,
    "power, from the restarts": lambda walk, steps, how: power_steps(walk, steps, how).values,
    "power, from all nodes": from_all,
}


def converge(graphs: Graphs, threads: int) -> list[dict[str, Any]]:
    """A row for each method and number of steps."""
    problem = Problem.of(graphs, alpha=ALPHA, n_threads=threads)
    walk, walker = Transitions.of(graphs), problem.walker
    exact = power(walk, 1e-14, walker).values
    best = float(problem.pairs.losses(exact).mean())
    rows = []
    for steps in range(MOST + 1):
        for name, method in METHODS.items():
            values = method(walk, steps, walker)
            loss = float(problem.pairs.losses(values).mean())
            distance = float(walk.per_query(np.abs(values - exact)).mean())
            rows.append(
                {
                    "method": name,
                    "steps": steps,
                    "loss": loss,
                    "loss_error": abs(loss - best),
                    "distance": distance,
                }
            )
        rows.append({"method": BOUND, "steps": steps, "distance": 2 * (1 - ALPHA) ** (steps + 1)})
    return rows


def plot(found: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Loss and distance against steps, a row of panels for each graph."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3 * len(found)), layout="constrained")
    panels = figure.subplots(len(found), 2, squeeze=False)
    for (graph, rows), (losses, distances) in zip(found.items(), panels, strict=True):
        for name in [*METHODS, BOUND]:
            own = [row for row in rows if row["method"] == name]
            steps, style = [row["steps"] for row in own], ":" if name == BOUND else "-"
            if name != BOUND:
                losses.plot(steps, [row["loss"] for row in own], label=name)
            distances.plot(steps, [row["distance"] for row in own], style, label=name)
        losses.set(xlabel="steps", ylabel="loss", title=graph)
        distances.set(xlabel="steps", ylabel="|x - pi|, mean", yscale="log", title=graph)
        for panel in (losses, distances):
            panel.grid(alpha=0.3)
    panels[0][1].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Iterate, save, plot."""
    made = parser(__doc__)
    made.add_argument("--figures", type=Path, default=FIGURES, help="where the PNG is written")
    args = made.parse_args()

    found = {
        name: converge(graphs, args.threads)
        for name, graphs in (("graphs of queries", queries()), ("a cycle", cycle()))
    }
    rows = [{"graph": name} | row for name, own in found.items() for row in own]
    for row in rows:
        if row["steps"] in (5, 20, MOST):
            print(line(row), flush=True)
    save(args.folder, "pagerank-figure-2", rows)
    plot(found, args.figures / "pagerank-figure-2.png")


if __name__ == "__main__":
    main()
