"""A fit says that it does not read values, or that they are no confidences."""

from __future__ import annotations

import logging
import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from engines import Shuffled

import mfrank
from mfrank.cli.main import main
from mfrank.models import values_vary


def plays() -> mfrank.Interactions:
    """Counts of plays: most are few, one is of a machine that plays day and night."""
    data = mfrank.synthetic(60, 40, 600, random_state=0)
    counts = np.random.default_rng(0).integers(1, 9, data.nnz).astype(float)
    counts[7] = 352_698
    return data.weighted(counts)


def fitted(objective, data):
    return mfrank.ALS(objective, factors=4, iterations=1, random_state=0).fit(data)


def test_a_fit_to_raw_counts_says_what_to_do_at_the_line_that_called_it() -> None:
    said = r"WRMF takes values as confidences, and they go up to 352,698 \(the median is \d\)"
    with pytest.warns(RuntimeWarning, match=said + r".*mfrank\.log_weight\(data\)") as caught:
        fitted(mfrank.WRMF(), plays())
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("objective", "data"),
    [
        (mfrank.WRMF(), mfrank.log_weight(plays())),
        (mfrank.WRMF(alpha=1e-4), plays()),
        (mfrank.WRMF(alpha=40), plays().weighted(1 / plays().user_items.data)),  # ones
        (mfrank.WRMF(), plays().weighted(51 / plays().user_items.data)),
        (mfrank.RG2(), plays()),
        (mfrank.IALS(), plays()),
    ],
    ids=["logarithms", "a lower alpha", "ones", "all alike", "RG2", "IALS"],
)
def test_no_warning_where_no_cell_outweighs_the_others(objective, data) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(objective, data)


def test_dislikes_are_confidences_too_and_have_no_logarithms() -> None:
    matrix = plays().to_scipy()
    matrix.data[7] *= -1
    with pytest.warns(RuntimeWarning, match="up to 352,698 .* all others; lower alpha"):
        fitted(mfrank.WRMF(), matrix)


def test_an_old_value_does_not_make_the_new_ones_heavy() -> None:
    """Recency takes most values far below the largest, which is that of a common interaction."""
    data = plays().weighted(np.r_[1.0, np.full(599, 1e-9)] / plays().user_items.data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(mfrank.WRMF(), data)


@pytest.mark.parametrize(
    ("usual", "largest", "alpha", "sides", "outweighs"),
    [
        (1.0, 1000.0, 1.0, (5, 4), True),
        (1.0, 1000.0, 1.0, (2000, 1000), False),  # in few cells of many, it is less
        (1.0, 1000.0, 0.001, (5, 4), False),
        (1000.0, 1000.0, 1.0, (5, 4), False),  # all weigh the same
        (2.0, 20.0, 100.0, (5, 4), True),  # ten times the median
        (2.0, 19.0, 100.0, (5, 4), False),
        (0.001, 1.0, 1e6, (5, 4), False),  # values of at most 1 are scaled
        (0.001, 1.5, 1e6, (5, 4), True),
    ],
)
def test_how_heavy_the_largest_value_must_be(
    usual: float, largest: float, alpha: float, sides: tuple[int, int], outweighs: bool
) -> None:
    users, items = np.divmod(np.arange(20), 4)
    values = np.r_[np.full(19, usual), largest]
    data = mfrank.Interactions.from_arrays(users, items, values, shape=sides)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(mfrank.WRMF(alpha=alpha), data)
    assert ["confidences" in str(each.message) for each in caught] == [True] * outweighs


RATINGS = mfrank.synthetic(60, 40, 600, random_state=0)
RATINGS = RATINGS.weighted(np.random.default_rng(0).integers(1, 6, RATINGS.nnz))
TIMED = replace(RATINGS, timestamps=np.arange(RATINGS.nnz))
IGNORING = {
    **{
        name: mfrank.ALS(getattr(mfrank, name)(), factors=4, iterations=1, random_state=0)
        for name in ("IALS", "RG2", "RGX", "RGXPrinted", "EALS")
    },
    "RG2Sampled": mfrank.ALS(mfrank.RG2Sampled(negatives=3), factors=4, iterations=1),
    "BPR": mfrank.Descent(mfrank.BPR(), factors=4, iterations=1),
    "SampledSoftmax": mfrank.Descent(mfrank.SampledSoftmax(), factors=4, iterations=1),
    "EASE": mfrank.EASE(),
    "ItemFilter": mfrank.ItemFilter(),
    "Popularity": mfrank.Popularity(),
    "SupervisedPageRank": mfrank.SupervisedPageRank(method=None),
}
READING = {
    "WRMF": mfrank.ALS(mfrank.WRMF(), factors=4, iterations=1),
    "weighted IALS": mfrank.ALS(mfrank.IALS(weighted=True), factors=4, iterations=1),
    "weighted EALS": mfrank.ALS(mfrank.EALS(weighted=True), factors=4, iterations=1),
    "ItemKNN": mfrank.ItemKNN(),
}


def said(caplog, act) -> list[tuple[str, str]]:
    """Level and text of all that ``act`` logs about values."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "mfrank"):
        act()
    return [(r.levelname, r.getMessage()) for r in caplog.records if "values" in r.getMessage()]


@pytest.mark.parametrize("name", [*IGNORING, *READING])
def test_a_fit_that_reads_no_values_says_so_once(name: str, caplog) -> None:
    model = (IGNORING | READING)[name]
    assert model.uses_values == (name in READING)
    told = said(caplog, lambda: deepcopy(model).fit(TIMED))
    if name in READING:
        assert not told
    else:
        ((level, text),) = told
        assert level == "WARNING"
        assert name in text
        assert "from 1 to 5" in text
        assert "WRMF(alpha=" in text
        assert "at_least" in text


@pytest.mark.parametrize("name", IGNORING)
def test_what_it_says_is_true(name: str) -> None:
    """Other values above 0 give the same lists; under a model that reads them, they do not."""

    def scores(model, data):
        fitted = deepcopy(model)
        if "random_state" in vars(fitted):
            fitted.set_params(random_state=0)
        return fitted.fit(data).recommend(data.user_ids.labels, N=10).scores

    ones = TIMED.weighted(1 / TIMED.user_items.data)
    np.testing.assert_array_equal(scores(IGNORING[name], TIMED), scores(IGNORING[name], ones))
    assert not np.array_equal(
        scores(READING["WRMF"], TIMED), scores(READING["WRMF"], ones), equal_nan=True
    )


def frame_of(data: mfrank.Interactions):
    pytest.importorskip("pandas")
    return data.to_pandas()


DOORS = {
    "Interactions": lambda data: deepcopy(IGNORING["RG2"]).fit(data),
    "matrix": lambda data: deepcopy(IGNORING["RG2"]).fit(data.to_scipy()),
    "frame": lambda data: deepcopy(IGNORING["RG2"]).fit(frame_of(data)),
    "weighted by recency": lambda data: deepcopy(IGNORING["RG2"]).fit(
        mfrank.recency_weight(replace(data, timestamps=np.arange(data.nnz)), 100)
    ),
    "partial_fit": lambda data: MODEL.partial_fit(data),
    "partial_fit_users": lambda data: MODEL.partial_fit_users([0, 1], data),
    "partial_fit_items": lambda data: MODEL.partial_fit_items([0, 1], data),
    "recommend_from_items": lambda data: MODEL.recommend_from_items(
        [0, 1], values=[data.user_items.data.min(), data.user_items.data.max()]
    ),
    "cluster": lambda data: deepcopy(IGNORING["RG2"]).fit(data, cluster=Shuffled(2)),
    "tune": lambda data: mfrank.tune(data, trials=2, factors=4, n_threads=1),
    "compare": lambda data: mfrank.compare(
        data, data, models={"a": deepcopy(IGNORING["RG2"])}, repeats=2, peak_memory=False
    ),
}
MODEL = deepcopy(IGNORING["RG2"]).fit(RATINGS.to_scipy() > 0)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_says_it_once_and_nothing_of_ones(door: str, caplog) -> None:
    told = said(caplog, lambda: DOORS[door](RATINGS))
    assert len(told) == 1, told
    assert told[0][0] == "WARNING"
    if door != "weighted by recency":
        ones = RATINGS.weighted(1 / RATINGS.user_items.data)
        assert not said(caplog, lambda: DOORS[door](ones))


def test_shares_below_one_are_told_too(caplog) -> None:
    low = RATINGS.weighted(np.full(RATINGS.nnz, 0.1))
    ((level, text),) = said(caplog, lambda: fitted(mfrank.IALS(), low))
    assert level == "WARNING"
    assert "from 0.1 to 0.5" in text


def test_an_update_is_told_only_of_values_beyond_those_that_the_model_had(caplog) -> None:
    data = mfrank.Interactions.from_arrays([0, 1, 2, 2], [0, 1, 2, 0], [2.0, 4.0, 2.0, 4.0])
    for values, level in (
        ([2, 4], "INFO"),
        ([2, 3], "INFO"),
        ([3, 4], "INFO"),
        ([1, 4], "WARNING"),
        ([2, 5], "WARNING"),
    ):
        model = fitted(mfrank.IALS(), data)
        new = mfrank.Interactions.from_arrays([0, 1], [2, 0], np.array(values, dtype=float))
        assert [each for each, _ in said(caplog, lambda m=model, n=new: m.partial_fit(n))] == [
            level
        ]


def test_values_that_are_all_the_same_are_told_quietly(caplog) -> None:
    ((level, text),) = said(caplog, lambda: deepcopy(IGNORING["IALS"]).fit(RATINGS.at_least(5)))
    assert level == "INFO"
    assert "all 5" in text


def test_only_values_above_0_count() -> None:
    """Models that count likes leave dislikes out, which is reading all there is to read."""
    likes = np.array([1.0, -2.0, 1.0])
    assert not values_vary(likes)
    assert values_vary(np.array([-1.0, 1.0, 3.0]))
    assert not values_vary(np.array([-1.0, -3.0]))
    assert not values_vary(np.empty(0))


def test_tune_tells_who_reads_values_and_tries_them_first(caplog) -> None:
    found, options = [], {"trials": 2, "factors": 4, "n_threads": 1, "predict": "any"}
    ((_, text),) = said(caplog, lambda: found.append(mfrank.tune(RATINGS, **options)))
    read, unread = text.split("; not read by ")
    assert "WRMF" in read
    assert "ItemKNN" in read
    assert "IALS" in unread
    assert "Popularity" in unread
    assert "WRMF" in [row["family"] for row in found[0].leaderboard]
    assert found[0].uses_values in (True, False)
    assert "their values" in repr(found[0])


def test_tune_searches_ones_as_it_always_did() -> None:
    ones = RATINGS.weighted(1 / RATINGS.user_items.data)
    found = mfrank.tune(ones, trials=1, factors=4, n_threads=1, predict="any")
    tried = {row["family"] for row in found.leaderboard if row["error"] is None}
    assert tried - {"blend"} == {"IALS", "Popularity", "ItemKNN"}
    assert found.uses_values is None


@pytest.mark.parametrize(
    "line",
    [
        "fit --objective rg2 --factors 4 --iterations 1 --model {folder}/model",
        "fit --objective rg2 --factors 4 --iterations 1 --model {folder}/model --hold-out 0.2",
        "descend --loss bpr --factors 4 --iterations 1 --model {folder}/model",
        "pagerank --untuned --model {folder}/model",
        "tune --trials 1 --factors 4 --model {folder}/model",
    ],
    ids=lambda line: " ".join(line.split()[:1]),
)
def test_commands_say_it_once_in_their_own_words(line: str, tmp_path, capsys) -> None:
    rows = [f"{u},{i},{u % 5 + 1},{u + i}" for u in range(12) for i in range(0, 12, 1 + u % 3)]
    file = tmp_path / "ratings.csv"
    file.write_text("\n".join(["user,item,rating,timestamp", *rows]))
    command, *flags = line.format(folder=tmp_path).split()
    assert main([command, str(file), *flags]) == 0
    told = [each for each in capsys.readouterr().err.splitlines() if "from 1 to 5" in each]
    assert len(told) == 1
    assert "mfrank.ALS" not in told[0]
    assert "at_least" not in told[0]


def test_who_has_chosen_by_a_threshold_is_not_warned(caplog) -> None:
    """README's first flow: of ratings, 4 and 5 are likes, and differ no more."""
    likes = RATINGS.at_least(4)
    model = fitted(mfrank.RG2(), likes)
    for act in (
        lambda: fitted(mfrank.RG2(), likes),
        lambda: mfrank.EASE().fit(likes),
        lambda: mfrank.Descent(factors=2, iterations=1).fit(likes),
        lambda: mfrank.tune(likes, trials=1, factors=4),
        lambda: model.partial_fit(likes),
    ):
        told = said(caplog, act)
        assert [level for level, _ in told] == ["INFO"]
        assert "4 to 5" in told[0][1]
    assert (
        said(caplog, lambda: fitted(mfrank.RG2(), RATINGS.at_least(4, keep_seen=False)))[0][0]
        == "WARNING"
    )
