"""How well items and users without any interaction are ranked, by their features alone.

A fifth of the items, or of the users, is held out whole. Models are fitted to the rest and to the
features; then the held-out items are ranked for every user who has one, or all items for the
held-out users. Hyper-parameters are chosen by NDCG@20 on a fifth of what is left, held out in the
same way: the same number of points of one low-discrepancy sequence for every contender, whether
features are weighted by their inverse frequency among them. With ``--minutes`` a contender that is
not through by then leaves out the rest; ``tried`` tells how many it had. What is found is fitted
once more, to all that is not held out, and judged once. Differences are paired by users.

``warm`` asks the other way round whether features cost anything where there are interactions: an
ordinary split, searched without them and with them.

    python bench/cold.py items
    python bench/cold.py users
    python bench/cold.py users --data ml-1m-seq --minutes 30
    python bench/cold.py items --data citeulike-a --factors 512 --contenders mfrank LightFM:128
    python bench/cold.py warm
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.cold_subjects import SUBJECTS, Cold, subject, weighted
from harness.records import line, parser, save
from harness.tuning import points
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import mfrank
from mfrank.evaluation import Evaluation

CHOSEN_BY = mfrank.NDCG @ 20
METRICS = (mfrank.Recall @ 20, CHOSEN_BY)
PART = 0.2

Scores = NDArray[Any]
Options = dict[str, float]
"""``plain`` above 0.5 leaves features as they are, 0 and 1; else they are weighted."""


def features_of(cold: Cold, options: Options) -> sp.csr_array:
    """The features as these options want them."""
    return cold.features if options["plain"] > 0.5 else weighted(cold.features, cold.rows)


def mfrank_als(cold: Cold, options: Options, args: argparse.Namespace) -> Scores:
    """Features as where the ridge of iALS pulls to."""
    model = fitted(cold.train, cold.side, features_of(cold, options), options, args)
    users, items = model.user_factors, model.item_factors
    return users @ items[cold.rows].T if cold.side == "items" else users[cold.rows] @ items.T


def fitted(
    train: sp.csr_array,
    side: str,
    features: sp.csr_array | None,
    options: Options,
    args: argparse.Namespace,
) -> mfrank.ALS:
    """An ALS with features, or with none."""
    model = mfrank.ALS(
        mfrank.IALS(alpha0=options["alpha0"], regularization=options["regularization"], nu=1),
        args.factors,
        round(options["epochs"]),
        feature_regularization=options["features"],
        random_state=args.seed,
        n_threads=args.threads,
    )
    if features is None:
        return model.fit(train)
    return model.fit(train, **{f"{side[:-1]}_features": with_ones(features)})


def with_ones(features: sp.csr_array) -> sp.csr_array:
    """The features and a column of ones, for what all rows have in common."""
    ones = sp.csr_array(np.ones((features.shape[0], 1)))
    return sp.csr_array(sp.hstack([features, ones], format="csr"))


def cmfrec(cold: Cold, options: Options, args: argparse.Namespace) -> Scores:
    """Collective factorization of likes and features, the cold side as cmfrec's users.

    Features that are not there count as 0, in fits and in factors from features alone. Each fit is
    in a process of its own: with wide sparse features, later fits of a process may be all NaN.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(cmfrec_here, cold, options, args).result()


def cmfrec_here(cold: Cold, options: Options, args: argparse.Namespace) -> Scores:
    """The same in this process."""
    from cmfrec import CMF_implicit

    features = with_ones(features_of(cold, options))
    sparse = features.shape[1] > 500
    rows = cold.train.T if cold.side == "items" else cold.train
    warm = np.setdiff1d(np.arange(rows.shape[0]), cold.rows)
    model = CMF_implicit(
        k=args.factors,
        lambda_=options["lambda"],
        alpha=options["alpha"],
        w_user=options["features"],
        niter=round(options["epochs"]),
        center_U=not sparse and options["centered"] > 0.5,
        NA_as_zero_user=sparse,
        use_float=False,  # in float32 some fits end in NaN
        random_state=args.seed + 1,
        nthreads=args.threads,
    )

    def taken(which: NDArray[np.int64]) -> Any:
        part = features[which]
        return sp.coo_matrix(part) if sparse else part.toarray()

    model.fit(sp.coo_matrix(sp.csr_array(rows)[warm]), U=taken(warm))
    told = features[cold.rows]
    if sparse:
        # Its own function returns NaN where what is not there counts as 0. Where it does not, it
        # also counts interactions that a cold row lacks as zeros; here they are unknown.
        weight, of_features = options["features"], model.C_
        inner = weight * of_features.T @ of_features + options["lambda"] * np.eye(args.factors)
        factors = np.linalg.solve(inner, weight * (told @ of_features).T).T
    else:
        factors = np.array([model.factors_cold(U=row) for row in told.toarray()])
    scores: Scores = factors @ model.B_.T
    return scores.T if cold.side == "items" else scores


def lightfm(cold: Cold, options: Options, args: argparse.Namespace) -> Scores:
    """LightFM (lightfm-next) by WARP; rows have their features, and warm ones an own one."""
    from lightfm import LightFM

    features = with_ones(features_of(cold, options))
    known = np.ones(features.shape[0])
    known[cold.rows] = 0
    told = sp.csr_matrix(sp.hstack([sp.diags_array(known), features]).astype(np.float32))
    told.indptr, told.indices = told.indptr.astype(np.int32), told.indices.astype(np.int32)
    side = cold.side[:-1]
    model = LightFM(
        args.factors,
        loss="warp",
        learning_rate=options["rate"],
        random_state=args.seed,
        **{f"{side}_alpha": options["alpha"]},
    )
    named = {f"{side}_features": told}
    rows = sp.coo_matrix(cold.train.astype(np.float32))
    model.fit(rows, epochs=round(options["epochs"]), num_threads=args.threads, **named)
    biases, factors = getattr(model, f"get_{side}_representations")(told)
    if side == "item":
        item_scores: Scores = model.user_embeddings @ factors[cold.rows].T + biases[cold.rows]
        return item_scores
    user_scores: Scores = factors[cold.rows] @ model.item_embeddings.T + model.item_biases
    return user_scores


def feature_knn(cold: Cold, options: Options, args: argparse.Namespace) -> Scores:
    """The likes of the most similar rows, by the cosine of their features."""
    features = features_of(cold, options)
    lengths = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
    unit = sp.csr_array(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ features)
    near = (unit[cold.rows] @ unit.T).toarray()
    near[:, cold.rows] = 0
    keep = min(round(options["neighbors"]), near.shape[1])
    bounds = np.partition(near, -keep, axis=1)[:, [-keep]]
    near = sp.csr_array(np.where(near >= bounds, near, 0))
    likes = cold.train.T if cold.side == "items" else cold.train
    scores: Scores = (near @ likes).toarray()
    return scores.T if cold.side == "items" else scores


def popularity(cold: Cold, options: Options, args: argparse.Namespace) -> Scores:
    """Likes of each item; no held-out item has one, so these are in random order."""
    if cold.side == "items":
        return np.random.default_rng(args.seed).random(cold.asked.shape)
    likes = np.asarray(cold.train.sum(axis=0)).ravel()
    return np.tile(likes, (len(cold.rows), 1))


_FEATURES = {"plain": (0.1, 2.5), "epochs": (3.0, 12.0)}
CONTENDERS: dict[str, tuple[Callable[..., Scores], dict[str, tuple[float, float]]]] = {
    "mfrank": (
        mfrank_als,
        {
            "alpha0": (0.003, 3.0),
            "regularization": (0.003, 0.1),
            "features": (0.003, 3.0),
            **_FEATURES,
        },
    ),
    "kNN on features": (feature_knn, {"plain": (0.1, 2.5), "neighbors": (5.0, 500.0)}),
    "cmfrec": (
        cmfrec,
        {
            "alpha": (1.0, 100.0),
            "lambda": (3.0, 300.0),
            "features": (0.003, 30.0),
            "centered": (0.1, 2.5),
            **_FEATURES,
        },
    ),
    "LightFM": (
        lightfm,
        {"rate": (0.005, 0.2), "alpha": (1e-7, 1e-4), "plain": (0.1, 2.5), "epochs": (5.0, 60.0)},
    ),
}


def judge(scores: Scores, cold: Cold) -> Evaluation:
    """Recall@20 and NDCG@20 of the ranked held-out items, or of all items for held-out users."""

    def recommend(users: NDArray[Any], user_items: Any, N: int = 10, **_: Any) -> Any:
        asked = scores[users]
        ids = np.argsort(-asked, axis=1, kind="stable")[:, :N]
        return ids, np.take_along_axis(asked, ids, 1)

    return mfrank.evaluate(recommend, cold.asked, filter_already_liked_items=False, metrics=METRICS)


def of_width(contender: str, args: argparse.Namespace) -> tuple[str, argparse.Namespace]:
    """The contender's name, and the arguments with its own number of factors if it has one."""
    name, _, factors = contender.partition(":")
    return name, argparse.Namespace(**{**vars(args), "factors": int(factors or args.factors)})


def searched(name: str, cold: Cold, args: argparse.Namespace) -> list[tuple[float, Options]]:
    """The points tried and their values on the validation part, the best first."""
    contender, box = CONTENDERS[name]
    inner, tried = cold.again(PART, args.seed + 1), list[tuple[float, Options]]()
    end = time.perf_counter() + 60 * args.minutes
    for options in points(box, args.trials, args.seed):
        value = judge(contender(inner, options, args), inner)[CHOSEN_BY].value
        print(f"  {name} {options} valid NDCG@20 {value:.4f}", flush=True)
        tried.append((value, options))
        if time.perf_counter() > end:
            break
    return sorted(tried, key=lambda trial: -trial[0])


def rows_of(name: str, side: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each contender, with its paired difference to the first."""
    cold, first = subject(name, side, PART, args.seed), None
    for wanted in (*args.contenders, "random" if side == "items" else "popularity"):
        began, valid, options, n_tried = time.perf_counter(), None, Options(), 0
        contender, of_it = of_width(wanted, args)
        if contender in CONTENDERS:
            try:
                tried = searched(contender, cold, of_it)
                (valid, options), n_tried = tried[0], len(tried)
            except ModuleNotFoundError as error:
                print(f"{contender} is left out: {error}", flush=True)
                continue
            scores = CONTENDERS[contender][0](cold, options, of_it)
        else:
            scores = popularity(cold, options, args)
        result = judge(scores, cold)
        named = contender if contender == wanted else f"{contender}, {of_it.factors} factors"
        row: dict[str, Any] = {"data": name, "model": named}
        for metric in METRICS:
            row[str(metric).lower()] = result[metric].value
            row[f"{metric} error".lower()] = result[metric].standard_error
        if first is None:
            first = result
        else:
            behind = first.compare(result, CHOSEN_BY)
            row["ndcg@20 below the first"] = f"{behind.low:+.4f} to {behind.high:+.4f}"
        seconds = time.perf_counter() - began
        yield row | {"valid": valid, "tried": n_tried, "options": options, "seconds": seconds}


def warm_rows(name: str, side: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """An ordinary split, searched without features and with them, the same number of points."""
    whole = subject(name, side, 0.0, args.seed)
    outer = mfrank.by_ratio(whole.train, train=0.8, valid=0, test=0.2, random_state=args.seed)
    inner = mfrank.by_ratio(outer.train, train=0.8, valid=0, test=0.2, random_state=args.seed)
    box = CONTENDERS["mfrank"][1] | {"features": (0.1, 1000.0)}

    def ranked(split: mfrank.Split, told: bool, options: Options) -> Evaluation:
        features = features_of(whole, options) if told else None
        model = fitted(split.train.user_items, side, features, options, args)
        return mfrank.evaluate(model, split.test, train=split.train, metrics=METRICS)

    found = dict[bool, tuple[float, Options, Evaluation]]()
    for told in (False, True):
        tried = points(box, args.trials, args.seed)
        values = [ranked(inner, told, options)[CHOSEN_BY].value for options in tried]
        options = tried[int(np.argmax(values))]
        found[told] = max(values), options, ranked(outer, told, options)
    (valid, options, without), (valid_with, options_with, with_them) = found[False], found[True]
    gained = with_them.compare(without, CHOSEN_BY)
    yield {
        "data": name,
        "features of": side,
        "valid without": valid,
        "valid with": valid_with,
        "chosen": "with" if valid_with > valid else "without",
        "ndcg@20 without": without[CHOSEN_BY].value,
        "ndcg@20 with": with_them[CHOSEN_BY].value,
        "gained": f"{gained.low:+.4f} to {gained.high:+.4f}",
        "options without": options,
        "options with": options_with,
    }


def main() -> None:
    """Search, judge, print and save."""
    made = parser(__doc__)
    made.add_argument("question", choices=(*SUBJECTS, "warm"))
    made.add_argument("--data", nargs="+", help="default all that have such features")
    made.add_argument(
        "--contenders", nargs="+", default=list(CONTENDERS), help="LightFM:128 is one"
    )
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--trials", type=int, default=16)
    made.add_argument("--minutes", type=float, default=math.inf, help="of a contender's search")
    made.add_argument("--seed", type=int, default=0)
    args = made.parse_args()
    if unknown := {of_width(each, args)[0] for each in args.contenders} - set(CONTENDERS):
        made.error(f"--contenders: {unknown} are not among {list(CONTENDERS)}")
    asked = SUBJECTS if args.question == "warm" else [args.question]
    found = warm_rows if args.question == "warm" else rows_of
    for side in asked:
        for name in args.data or SUBJECTS[side]:
            rows = []
            with threadpool_limits(args.threads, "blas"):
                for row in found(name, side, args):
                    print(line(row), flush=True)
                    rows.append(row)
                    title = f"cold-{args.question}-{name}" + f"-{side}" * (args.question == "warm")
                    save(args.folder, title, rows, trials=args.trials, factors=args.factors)


if __name__ == "__main__":
    main()
