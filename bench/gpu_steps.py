"""Seconds of a step of mfrank.Descent on a GPU, on the processor, and of PyTorch on the same GPU.

    python bench/gpu_steps.py
    python bench/gpu_steps.py --data ml-1m --factors 64 --losses SONG BPR

Steps are those of trainers_cost.py: batches of 256 users, up to 10 positives and 300 negatives
each, with draws, scores, loss, gradients and Adam. PyTorch's use autograd in the fastest of its
ways (ranking_losses/torch/models.py), eagerly and, for the losses of ``--compiled``, by
``torch.compile``, whose compiling is not counted. Seconds are those of an epoch of a few steps,
waiting for the GPU at its end, divided by the steps: medians of rounds in alternating order.
``over_cuda`` is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
from gpu import described
from harness.records import line, parser, save
from harness.subjects import interactions
from ranking_losses.step_race import BATCH, emptied, faster_ways, in_turns, scores_of
from ranking_losses.torch.steps import Step, torch_pace
from trainers_cost import LOSSES

import mfrank
from mfrank.arrays import device as gpu
from mfrank.data import Interactions


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__)
    made.add_argument("--data", nargs="+", default=["ml-1m", "gowalla"])
    made.add_argument("--factors", nargs="+", type=int, default=[64, 256])
    made.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    made.add_argument("--compiled", nargs="*", choices=LOSSES, default=["SONG", "BPR"])
    made.add_argument("--steps", type=int, default=20, help="of an epoch")
    args = made.parse_args()
    if reason := gpu.why_unavailable():
        sys.exit(f"no GPU to measure: {reason}")
    torch.set_default_device("cuda")
    rows: list[dict[str, Any]] = []
    for name in args.data:
        part = emptied(interactions(name), args.steps * BATCH)
        for factors in args.factors:
            kinds = {scores_of(loss) for loss in args.losses}
            ways = {kind: faster_ways(kind, factors, part, args.threads)[0] for kind in kinds}
            for loss in args.losses:
                entries = {loss: contenders(loss, factors, ways[scores_of(loss)], part, args)}
                rounds = in_turns(entries, args.repeats)[loss]
                for contender, seconds in rounds.items():
                    pairs = zip(seconds, rounds["cuda"], strict=True)
                    row = {"data": name, "factors": factors, "loss": loss, "contender": contender}
                    ratio = median(theirs / own for theirs, own in pairs)
                    rows.append({**row, "seconds_per_step": median(seconds), "over_cuda": ratio})
                    print(line(rows[-1]), flush=True)
                save(args.folder, "gpu-steps", rows, gpu=described())


def contenders(
    loss: str, factors: int, way: str, part: Interactions, args: argparse.Namespace
) -> dict[str, Callable[[], float]]:
    """Who times a step of the loss."""
    own = partial(seconds_of_a_step, loss, part, factors, args)
    step = Step(loss, factors, way, scores_of(loss))
    found = {
        "cuda": partial(own, "cuda"),
        "cpu": partial(own, "cpu"),
        f"torch {way}": lambda: torch_pace(step, part.user_items, args.steps, args.threads).step,
    }
    if loss in args.compiled:
        whole = replace(step, compiled=True)
        found[f"torch {way} compiled"] = lambda: (
            torch_pace(whole, part.user_items, args.steps, args.threads, warm=6).step
        )
    return found


def seconds_of_a_step(
    loss: str, part: Interactions, factors: int, args: argparse.Namespace, backend: str
) -> float:
    """Of the second epoch, which has no kernel to compile."""
    epochs: list[float] = []
    began = perf_counter()

    def after(*_: object) -> None:
        gpu.device().synchronize()
        epochs.append(perf_counter() - began)

    mfrank.Descent(
        getattr(mfrank, loss)(),
        factors=factors,
        scores=scores_of(loss),
        temperature=1.0,
        item_biases=False,
        init="random",
        iterations=2,
        n_threads=args.threads,
        random_state=0,
        backend=backend,
    ).fit(part, callback=after)
    return (epochs[1] - epochs[0]) / args.steps


if __name__ == "__main__":
    main()
