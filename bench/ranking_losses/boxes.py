"""Where trainers_quality.py searches each trainer: main option, lists, and the engine's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness import tuning

import mfrank
from mfrank.losses import Loss

Lists = Mapping[str, Any]

LONG: Lists = {"positives": 100, "negatives": 1000, "shared_negatives": True}
SHORT: Lists = {"positives": 30, "negatives": 60}
WHOLE: Lists = {"positives": None, "negatives": None}
GOWALLA: Lists = {"positives": 30, "negatives": 2048, "shared_negatives": True}


@dataclass(frozen=True)
class Trainer:
    """A loss, its main option with the bounds it is searched in, and the lists it is given."""

    loss: type[Loss]
    option: tuning.Box = field(default_factory=dict)
    lists: Lists = field(default_factory=lambda: LONG)
    whole_numbers: bool = False

    def __call__(self, options: dict[str, float]) -> Loss:
        """The loss with its main option."""
        kind = round if self.whole_numbers else float
        return self.loss(**{name: kind(options[name]) for name in self.option})


TRAINERS = {
    "SampledSoftmax": Trainer(mfrank.SampledSoftmax),
    "SONG": Trainer(mfrank.SONG, {"decay": (0.1, 1.0)}),
    "K-SONG": Trainer(mfrank.KSONG, {"k": (10, 500)}, whole_numbers=True),
    "SOLC": Trainer(mfrank.SOLC, {"decay": (0.1, 1.0)}),
    "BPR": Trainer(mfrank.BPR),
    "BCE": Trainer(mfrank.BCE),
    "ListMLE": Trainer(mfrank.ListMLE),
    "LambdaRank": Trainer(mfrank.LambdaRank, {"steepness": (0.3, 3.0)}, SHORT),
    "ApproxNDCG": Trainer(mfrank.ApproxNDCG, {"sharpness": (0.3, 10.0)}, SHORT),
    "SmoothAP": Trainer(mfrank.SmoothAP, {"temperature": (0.01, 1.0)}, SHORT),
    "Sparsemax": Trainer(mfrank.Sparsemax),
    "ListNet": Trainer(mfrank.ListNet),
    "UIB": Trainer(mfrank.UIB, {"boundary_learning_rate": (0.01, 1.0)}),
    "SOPRC": Trainer(mfrank.SOPRC, {"hinge": (0.03, 1.0)}),
    "StochasticRank": Trainer(mfrank.StochasticRank, {"noise": (0.1, 3.0)}, SHORT),
    "SML": Trainer(mfrank.SML, {"largest_margin": (0.1, 1.0)}, SHORT),
    "NeuralNDCG": Trainer(mfrank.NeuralNDCG, {"temperature": (0.1, 10.0)}, SHORT),
    "Softmax": Trainer(mfrank.Softmax, lists=WHOLE),
}
"""RankNet is BPR where all likes are worth the same."""
PEERS = ("RG2", "IALS", "WRMF", "implicit", "implicit BPR")
LEADERS = ("SampledSoftmax", "SONG", "K-SONG", "SOLC")

BOXES: dict[tuple[bool, str], tuning.Box] = {
    (False, "dot"): {"learning_rate": (0.003, 0.03), "weight_decay": (1e-7, 5e-6)},
    (False, "cosine"): {"learning_rate": (0.015, 0.08), "temperature": (0.07, 0.3)},
    (False, "distance"): {"learning_rate": (0.003, 0.03)},
    (True, "dot"): {
        "learning_rate": (1e-4, 3e-3),
        "weight_decay": (1e-8, 1e-5),
        "temperature": (0.05, 1.0),
    },
    (True, "cosine"): {"learning_rate": (0.004, 0.03), "temperature": (0.07, 0.3)},
    (True, "distance"): {"learning_rate": (0.003, 0.03)},
}
"""By whether a trainer goes on from the factors of another, and by its scores."""
_WEIGHTED: tuning.Box = {"alpha": (1.0, 20.0), "regularization": (5.0, 300.0)}
_RANKING: tuning.Box = {"alpha": (0.02, 0.2), "regularization": (0.03, 0.2)}
_BY_MASS: tuning.Box = {"alpha0": (0.003, 0.6), "regularization": (0.002, 0.06), "nu": (0.5, 1.0)}
_OF_GOWALLA: tuning.Box = {
    "alpha0": (0.004, 0.05),
    "regularization": (0.01, 0.08),
    "nu": (0.55, 0.85),
}
PEER_BOXES: dict[str, dict[str, tuning.Box]] = {
    data: {"WRMF": _WEIGHTED, "IALS": ials, "RG2": _RANKING, "implicit": _WEIGHTED}
    for data, ials in (("ml-1m", _BY_MASS), ("gowalla", _OF_GOWALLA))
}
"""Narrower than quality.py's, as fits their few trials here: in favor of the peers."""
IMPLICIT_BPR: tuning.Box = {
    "learning_rate": (0.01, 0.2),
    "regularization": (1e-4, 0.03),
    "iterations": (30, 300),
}


def points(name: str, trials: int, *, started: bool) -> list[dict[str, Any]]:
    """The trials of a trainer, from scratch or from the factors of another."""
    trainer, found = TRAINERS[name], []
    loss = {f"loss_{key}": bounds for key, bounds in trainer.option.items()}
    for number in range(trials):
        scores = trainer.loss.scores
        if trainer.loss not in (mfrank.SOPRC, mfrank.SML):  # which take no other
            scores = "cosine" if number % 2 else "dot"
        point = tuning.points({**BOXES[started, scores], **loss}, trials, seed=0)[number]
        options: dict[str, Any] = {k: v for k, v in point.items() if k not in loss}
        options |= {"scores": scores, "loss": {key: point[f"loss_{key}"] for key in trainer.option}}
        if scores == "cosine":  # which cannot tell how popular an item is
            options["item_biases"] = True
        found.append(options)
    return found
