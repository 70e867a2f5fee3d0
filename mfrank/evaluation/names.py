"""Metrics parsed from text, and metrics as papers and libraries define them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mfrank.arrays import shown
from mfrank.errors import InputTypeError, InputValueError, unreadable
from mfrank.evaluation.beyond import (
    IntraListSimilarity,
    Miscalibration,
    Novelty,
    Serendipity,
    UnbiasedNDCG,
    UnbiasedRecall,
)
from mfrank.evaluation.metrics import ALL as OF_RELEVANCE
from mfrank.evaluation.metrics import (
    MAP,
    MRR,
    NDCG,
    CatalogMetric,
    HitRate,
    KnownMetric,
    LimitedAUC,
    Metric,
    Precision,
    Recall,
)

ALL: tuple[Metric, ...] = (
    *OF_RELEVANCE, Novelty, IntraListSimilarity, Serendipity, Miscalibration,
    UnbiasedRecall, UnbiasedNDCG,
)  # fmt: skip


def metric(text: str) -> Metric:
    """Parse a metric as it is printed: "NDCG@10", "recall(capped=True)@20".

    Case and underscores in names are ignored: "intra_list_similarity@10" is valid, too.

    Raises
    ------
    ValueError
        The metric is unknown, or does not have the option or the cutoff.
    """
    parts = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*(?:@\s*(\d+))?\s*", text)
    named = {known.name.lower(): known for known in ALL}
    name = parts[1].lower().replace("_", "") if parts else ""
    if parts is None or name not in named:
        names = ", ".join(known.name for known in ALL)
        raise InputValueError(f"{text!r} is not a metric", f"write one of {names}, as in ndcg@10")
    try:
        chosen = named[name](**_options(parts[2] or ""))
        return chosen if parts[3] is None else chosen @ int(parts[3])
    except (TypeError, ValueError) as error:
        raise unreadable(repr(text), "is not a metric", error, "") from error


def as_metric(given: Metric | str) -> Metric:
    """The metric itself, or the one of this name."""
    return metric(given) if isinstance(given, str) else given


def as_metrics(given: Metric | str | Iterable[Metric | str]) -> tuple[Metric, ...]:
    """One or more metrics, each once.

    Raises
    ------
    TypeError, ValueError
        There is none, or one is no metric.
    """
    several = [given] if isinstance(given, Metric | str) else given
    if not isinstance(several, Iterable):
        raise InputTypeError(
            f"`metrics` must be metrics such as `mfrank.NDCG @ 10`, got {shown(given)}"
        )
    read: dict[Metric, None] = {}
    for one in several:
        if not isinstance(chosen := as_metric(one), Metric):
            raise InputValueError(
                f"`metrics` must be metrics such as `mfrank.NDCG @ 10`, or names; got {shown(one)}"
            )
        read[chosen] = None
    if not read:
        raise InputValueError("`metrics` must have at least one metric, such as `mfrank.NDCG @ 10`")
    return tuple(read)


def to_maximize(given: Metric | str) -> Metric:
    """The metric; ValueError unless it has values of users, by which a model can be chosen."""
    chosen = as_metric(given)
    if not isinstance(chosen, Metric) or isinstance(chosen, CatalogMetric | KnownMetric):
        raise InputValueError(
            "`metric` must have per-user values of relevance, such as `NDCG @ 10`; got "
            f"{shown(given)}"
        )
    chosen.depth(1)  # raises if it lacks its cutoff
    return chosen


def _options(text: str) -> dict[str, bool | str | float]:
    pairs = [part.partition("=") for part in text.lower().split(",") if part.strip()]
    return {key.strip(): _value(value.strip()) for key, _, value in pairs}


def _value(text: str) -> bool | str | float:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def definitions(name: str, cutoff: int | None = None) -> tuple[Metric, ...]:
    """Metrics exactly as a source defines them, for comparison with its published numbers.

    Parameters
    ----------
    name : {"rg", "lightgcn", "implicit", "trec"}
        - ``rg``: MRR, NDCG, MAP of the RG losses paper (Definitions 1 and 2 with top 10; MAP
          divides by n).
        - ``lightgcn``: Recall, NDCG at 20, as in the code of LightGCN and UltraGCN.
        - ``implicit``: precision, map, ndcg, auc of ``implicit.evaluation.ranking_metrics_at_k``,
          in this order; its precision is a micro-averaged capped recall.
        - ``trec``: P, recall, success, map_cut, ndcg_cut, and recip_rank and map without cutoff,
          of trec_eval.
    cutoff : int, optional
        By default the cutoff of the source: 20 for lightgcn, else 10.

    Raises
    ------
    ValueError
        The source is unknown.
    """
    published = 20 if name == "lightgcn" else 10
    k = published if cutoff is None else cutoff
    sources: dict[str, tuple[Metric, ...]] = {
        "rg": (MRR @ k, NDCG @ k, MAP @ k),
        "lightgcn": (Recall @ k, NDCG @ k),
        "implicit": (
            Recall(capped=True, micro=True) @ k, MAP(capped=True) @ k, NDCG @ k, LimitedAUC @ k,
        ),
        "trec": (
            Precision @ k, Recall @ k, HitRate @ k, MAP @ k, NDCG(gain="linear") @ k, MRR, MAP,
        ),
    }  # fmt: skip
    if name not in sources:
        raise InputValueError(f"`name` must be one of {', '.join(sources)}; got {shown(name)}")
    return sources[name]
