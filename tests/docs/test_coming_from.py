"""The programs of docs/coming-from in the other library and in mfrank, and what they share."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank

DOCS = Path(__file__).parents[2] / "docs" / "coming-from"
if not DOCS.is_dir():
    pytest.skip("the pages are not beside the tests", allow_module_level=True)
PAGES = {page.stem: page.read_text() for page in sorted(DOCS.glob("*.md"))}
PROGRAMS = {
    name: found
    for name, text in PAGES.items()
    if (found := re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
}
pd = pytest.importorskip("pandas", reason="the programs read tables with pandas")


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str, int]]:
    """What is in the file that all programs read, beside which they are run."""
    data = mfrank.synthetic(60, 40, 900, random_state=3)
    users = np.array(["alice", *(f"user-{n}" for n in range(1, 60))])[data.entry_users]
    items = [f"item-{n}" for n in data.user_items.indices]
    ratings = np.random.default_rng(0).integers(1, 6, data.nnz)
    rows = list(zip(users.tolist(), items, ratings.tolist(), strict=True))
    lines = [f"{user},{item},{rating}" for user, item, rating in rows]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    return set(rows)


def run(page: str, program: int, names: dict[str, Any] | None = None) -> Any:
    """Run a program of a page, perhaps after another; what it has made, by name."""
    made = {} if names is None else names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other library
        exec(compile(PROGRAMS[page][program], f"coming-from/{page}.md", "exec"), made)
    return made


def triples(data: mfrank.Interactions) -> set[tuple[Any, ...]]:
    return set(data.to_pandas()[["user", "item", "value"]].itertuples(index=False, name=None))


def needs(*packages: str) -> None:
    for package in packages:
        pytest.importorskip(package, reason=f"its page is run where {package} is installed")


def objective(model: Any, matrix: Any, more: float) -> float:
    """WRMF of the programs, as its equation reads, of the factors of any library."""
    users, items = np.asarray(model.user_factors), np.asarray(model.item_factors)
    values, scores = matrix.toarray().astype(float), users.astype(float) @ items.T
    errors = np.where(values > 0, (more + 2.0 * values) * (1 - scores) ** 2, scores**2)
    return float(errors.sum() + (users**2).sum() + (items**2).sum())


def fitted_alike(theirs: Any, matrix: Any, confidence: Any = "alpha*r") -> mfrank.ALS:
    """The model of mfrank's program, fitted to the other's training part; it does as well."""
    wrmf = mfrank.WRMF(alpha=2.0, regularization=1.0, confidence=confidence)
    model = mfrank.ALS(wrmf, factors=8, iterations=30, random_state=0).fit(matrix)
    ours, of_theirs = (objective(one, matrix, confidence[:2] == "1+") for one in (model, theirs))
    assert ours < 1.01 * of_theirs
    assert of_theirs < 1.05 * ours
    return model


def share_of_lists(one: Any, other: Any) -> float:
    """What share of the items of lists is in the other lists, too."""
    pairs = zip(np.asarray(one), np.asarray(other), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in pairs]))


@pytest.mark.parametrize("page", PROGRAMS)
def test_mfranks_program_runs_without_the_other_library(
    page: str, rows: set[tuple[str, str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    ours = run(page, 1)
    assert "@10" in capsys.readouterr().out
    known = {(user, item) for user, item, _ in rows}
    assert {row[:2] for row in triples(ours["data"])} == known
    best = ours["model"].recommend("alice", N=5).ids  # of the model as it was loaded
    assert len(set(best)) == 5
    assert not {("alice", item) for item in best} & triples(ours["split"].train)


def test_implicits_program_does_the_same_job(rows: set[tuple[str, str, int]]) -> None:
    needs("implicit")
    theirs = run("implicit", 0)
    matrix, train, test = (theirs[name] for name in ("user_items", "train", "test"))
    data = run("implicit", 1)["data"]
    ours = data.to_pandas()
    at = theirs["user_ids"].get_indexer(ours["user"]), theirs["item_ids"].get_indexer(ours["item"])
    np.testing.assert_array_equal(np.asarray(matrix[at]).ravel(), ours["value"])
    assert matrix.nnz == data.nnz == len(rows)
    model = fitted_alike(theirs["model"], train)
    users = np.arange(train.shape[0])
    lists = theirs["model"].recommend(users, train, N=5)[0]
    assert share_of_lists(lists, model.recommend(users, train, N=5).ids) > 0.7
    from implicit.evaluation import ranking_metrics_at_k

    told = ranking_metrics_at_k(theirs["model"], train, test, K=10, show_progress=False)
    metrics = mfrank.definitions("implicit", 10)
    judged = mfrank.evaluate(theirs["model"], test, train=train, metrics=metrics)
    for name, metric in zip(("precision", "map", "ndcg", "auc"), metrics, strict=True):
        assert judged[metric].value == pytest.approx(told[name], rel=1e-6), name


def test_lightfms_model_is_the_same_in_mfrank(rows: set[tuple[str, str, int]]) -> None:
    needs("lightfm")
    theirs = run("lightfm", 0)
    from lightfm.evaluation import precision_at_k, recall_at_k, reciprocal_rank

    assert theirs["interactions"].nnz == len(rows)
    assert set(theirs["user_rows"]) == {user for user, _, _ in rows}
    best = theirs["item_ids"][np.argsort(-theirs["scores"])[:5]]
    run("lightfm", 2, theirs)
    assert list(theirs["ids"]) == list(best)
    given = theirs["model"], theirs["test"], theirs["train"]
    judged = mfrank.evaluate(
        theirs["same"],
        theirs["held_out"],
        train=theirs["seen"],
        metrics=["precision@10", "recall@10", "mrr"],
    )
    assert judged["precision@10"].value == pytest.approx(precision_at_k(*given, k=10).mean())
    assert judged["recall@10"].value == pytest.approx(recall_at_k(*given, k=10).mean())
    assert judged["mrr"].value == pytest.approx(reciprocal_rank(*given).mean())


def test_surprises_ratings_and_estimates_are_the_same_in_mfrank(
    rows: set[tuple[str, str, int]],
) -> None:
    needs("surprise")
    theirs = run("surprise", 0)
    run("surprise", 2, theirs)
    assert triples(theirs["rated"]) == triples(run("surprise", 1)["data"]) == rows
    model, items = theirs["model"], theirs["item_ids"]
    estimates = {item: model.predict("alice", item, clip=False).est for item in items}
    seen = {item for user, item, _ in theirs["known"] if user == "alice"}
    best = sorted(set(items) - seen, key=lambda item: -estimates[item])[:5]
    assert list(theirs["ids"]) == best
    scores = theirs["same"].score(["alice"] * len(items), items)
    apart = np.array([estimates[item] for item in items]) - scores
    assert np.ptp(apart) < 1e-5  # the mean of all ratings and alice's bias
    assert apart[0] == pytest.approx(
        model.trainset.global_mean + model.bu[model.trainset.to_inner_uid("alice")], abs=1e-5
    )


def test_rectools_program_does_the_same_job(rows: set[tuple[str, str, int]]) -> None:
    needs("rectools")
    theirs = run("rectools", 0)
    from rectools.metrics import MRR, NDCG, HitRate, Precision, Recall, calc_metrics

    columns = {"user": "user_id", "item": "item_id", "value": "weight", "timestamp": False}
    train, test = (
        mfrank.Interactions.from_frame(theirs[part], **columns) for part in ("train", "test")
    )
    assert triples(train) | triples(test) == rows
    users, items = theirs["model"].get_vectors()
    ids = theirs["dataset"].user_id_map, theirs["dataset"].item_id_map
    same = mfrank.Recommender.of(
        mfrank.FactorStore(users, items, *(list(each.external_ids) for each in ids))
    )
    names = {"precision@10": Precision, "recall@10": Recall, "mrr@10": MRR, "hitrate@10": HitRate}
    known = {name: metric(10) for name, metric in names.items()} | theirs["metrics"]
    judged = mfrank.evaluate(same, test, train=train, metrics=list(known))
    told = calc_metrics(known, theirs["lists"], theirs["test"])
    for name in known:
        assert judged[name].value == pytest.approx(told[name], rel=1e-6), name
    plain = calc_metrics({"ndcg": NDCG(10)}, theirs["lists"], theirs["test"])["ndcg"]
    assert plain < 0.9 * told["ndcg@10"]  # divided by a full list, as the page says
    fitted_alike(theirs["model"].model, theirs["dataset"].get_user_item_matrix())


def test_lenskits_program_does_the_same_job(rows: set[tuple[str, str, int]]) -> None:
    needs("lenskit")
    theirs = run("lenskit", 0)
    columns = {"user": "user_id", "item": "item_id", "value": "rating"}
    train, test = (
        mfrank.Interactions.from_frame(theirs[part], **columns) for part in ("train", "test")
    )
    assert triples(train) | triples(test) == rows
    scorer = theirs["scorer"]
    ids = list(scorer.users.ids()), list(scorer.items.ids())
    store = mfrank.FactorStore(scorer.user_embeddings, scorer.item_embeddings, *ids)
    same = mfrank.Recommender.of(store)
    judged = mfrank.evaluate(same, test, train=train, metrics=["ndcg@10", "mrr@10"])
    assert judged["mrr@10"].value == pytest.approx(theirs["told"]["RecipRank@10"], abs=0.02)
    assert judged["ndcg@10"].value < theirs["told"]["NDCG@10"]  # its gains fall later
    in_order = mfrank.Interactions.from_frame(
        theirs["train"], **columns, user_ids=ids[0], item_ids=ids[1]
    )
    fitted_alike(store, in_order.user_items, "1+alpha*r")


def test_sparks_program_does_the_same_job(rows: set[tuple[str, str, int]]) -> None:
    needs("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    theirs = run("spark", 0)
    try:
        train, test = (theirs[part].toPandas() for part in ("train", "test"))
        sides = (theirs["model"].userFactors.toPandas(), theirs["model"].itemFactors.toPandas())
    finally:
        theirs["spark"].stop()
    read = pd.concat([train, test])[["user", "item", "rating"]]
    assert set(read.itertuples(index=False, name=None)) == rows
    ids = [
        [labels[row] for row in side["id"]]
        for labels, side in zip((theirs["users"], theirs["items"]), sides, strict=True)
    ]
    factors = (np.stack(side["features"].to_list()).astype(np.float32) for side in sides)
    same = mfrank.Recommender.of(mfrank.FactorStore(*factors, *ids))
    held_out = mfrank.Interactions.from_frame(test[["user", "item", "rating"]])
    every = {"filter_already_liked_items": False}  # seen items are listed, too
    judged = mfrank.evaluate(same, held_out, metrics=["ndcg@10"], **every)
    assert judged["ndcg@10"].value == pytest.approx(theirs["ndcg"], rel=1e-6)


@pytest.mark.parametrize("page", PAGES)
def test_every_name_of_mfranks_column_is_there(page: str) -> None:
    for row in re.findall(r"^\|.*\|$", PAGES[page], re.MULTILINE)[2:]:
        ours = row.strip("|").split("|")[1]
        for code in re.findall(r"`([^`]+)`", ours):
            for name in re.findall(r"(?<![.\w])([A-Z]\w+)(?=[(.]|$)", code):
                assert hasattr(mfrank, name), (name, row)
