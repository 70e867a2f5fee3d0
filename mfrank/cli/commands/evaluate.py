"""Rank all items for the users of a test file and score the rankings.

Seen items (of the training data) are excluded. With --against, the model is compared with an
earlier version of it, by interactions that neither has learned. The exit status is 0, or 3 if
--alert finds a fall (2 and 1 are errors).
"""

from __future__ import annotations

import argparse
import sys

from mfrank.arrays import check_at_least_zero
from mfrank.cli.flags import add_cluster_flag, add_steering_flags, add_threads_flag, steering_of
from mfrank.cli.inputs import read_like
from mfrank.cli.model_folders import check_holds_model, model_version, read_model
from mfrank.cli.printing import add_json_flag, check_json, tell, tell_unknown
from mfrank.cli.table_flags import add_table_flags, add_target_flag, refuse_sums
from mfrank.cluster import check_cluster
from mfrank.data import Interactions, without_password
from mfrank.errors import InputValueError
from mfrank.evaluation import DEFAULT_METRICS, Difference, evaluate, paired_change
from mfrank.models import n_versions
from mfrank.retrieval import Recommender

EXAMPLES = """\
  mfrank evaluate --model model --test test.csv
  mfrank evaluate --model model --test test.csv --metric ndcg@10 --metric recall@20 --json scores.json
  mfrank evaluate --model model --test june.csv --target purchase
  mfrank evaluate --model model --against model@1 --test today.csv --metric ndcg@20 --alert 3
  mfrank evaluate --model model --test test.csv --metric ndcg@10 --metric coverage@10 --diversity 0.3
"""  # noqa: E501 (a command line)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank evaluate``."""
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a saved model")
    parser.add_argument("--test", required=True, metavar="FILE", help="held-out interactions")
    add_target_flag(parser, "held out, and in --train, are only events of this kind")
    ranked = parser.add_mutually_exclusive_group()
    ranked.add_argument(
        "--train",
        metavar="FILE",
        help="interactions to exclude from the ranking (default: those of the fit)",
    )
    ranked.add_argument(
        "--include-seen", action="store_true", help="also rank the items that users had in the fit"
    )
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME@K",
        help="metric such as ndcg@10; may be repeated "
        f"(default: {' '.join(map(str, DEFAULT_METRICS)).lower()})",
    )
    parser.add_argument(
        "--against",
        metavar="FOLDER",
        help="an earlier version, such as model@1, the one before --model: compare the first "
        "--metric of users whom both know, paired by users; before --keep has kept a version, "
        "nothing is compared",
    )
    parser.add_argument(
        "--alert",
        type=float,
        metavar="FLOAT",
        help="with --against: exit with status 3 if the metric is lower by more than this many "
        "standard errors of the paired difference",
    )
    add_json_flag(parser, "the scores")
    add_threads_flag(parser)
    add_steering_flags(parser)
    add_table_flags(parser)
    add_cluster_flag(parser, "evaluate users", "the numbers are the same")


def run(args: argparse.Namespace) -> int:
    """Evaluate and print; the status is that of an alert."""
    check_json(args.json)
    check_cluster(args.cluster)
    _check_against(args)
    if args.target is not None and args.weights is not None:
        raise ValueError("--weights is for all kinds of events, and --target reads one")
    if args.target is not None:
        refuse_sums(args, "it is of weighted events of all kinds, and --target reads one")
    model = read_model(args.model)
    if model.seen is None and not (args.train or args.include_seen):
        raise InputValueError(
            "the model was saved without the interactions of its fit:",
            "pass their file with --train, or rank every item with --include-seen",
            place=args.model,
        )
    test, unknown = read_like(args, args.test, model)
    tell_unknown(unknown)
    scores = evaluate(
        model,
        test,
        train=read_like(args, args.train, model)[0] if args.train else None,
        filter_already_liked_items=not args.include_seen,
        metrics=args.metric or DEFAULT_METRICS,
        n_threads=args.n_threads,
        steer=steering_of(args, model.item_ids),
        cluster=args.cluster,
    )
    if not scores.n_users:
        name = without_password(args.test)
        seen = "" if args.include_seen else "; items of the fit are not, without --include-seen"
        raise InputValueError(
            f"nothing to evaluate: no user of {name} has a relevant item that is ranked{seen}",
            place=name,
        )
    change = None if args.against is None else _change(args, model, test)
    told = scores.to_dict()
    if change is None:
        tell(scores, told, args.json)
        return 0
    falls = args.alert is not None and change.is_fall(args.alert)
    alert = f"\nALERT: it has fallen by more than {args.alert:g} standard errors" if falls else ""
    told["against"] = {
        name: getattr(change, name)
        for name in ("mean", "standard_error", "low", "high", "p_value", "n_users")
    }
    tell(f"{scores}\nagainst {args.against}: {change}{alert}", told, args.json)
    return 3 if falls else 0


def _check_against(args: argparse.Namespace) -> None:
    if args.against is None:
        if args.alert is not None:
            raise InputValueError(
                "--alert is about a change:", "name the model before with --against"
            )
        return
    others = {"--train": args.train, "--include-seen": args.include_seen, "--cluster": args.cluster}
    if used := [flag for flag, given in others.items() if given]:
        raise InputValueError(f"{used[0]} does not go with --against", "leave it out")
    if args.alert is not None:
        check_at_least_zero(alert=args.alert)


def _change(args: argparse.Namespace, model: Recommender, test: Interactions) -> Difference | None:
    """The change from an earlier version; None, which is told, if none was kept yet."""
    folder, version = model_version(args.against)
    check_holds_model(folder)
    if version > 0 and n_versions(folder) == 1:
        print(
            f"mfrank: {folder} has no earlier version yet, and is compared with none; --keep of "
            "mfrank update keeps them",
            file=sys.stderr,
        )
        return None
    metric = (args.metric or DEFAULT_METRICS)[0]
    return paired_change(model, read_model(args.against), test, metric, n_threads=args.n_threads)
