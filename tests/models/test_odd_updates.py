"""Updates that most likely mean something else are told by every door; ordinary ones are not."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.retrieval import ValueScale
from mfrank.serving import Event, EventJournal

_RNG = np.random.default_rng(0)
_N = 2000
_USERS, _ITEMS = _RNG.integers(0, 60, _N), _RNG.integers(0, 80, _N)
_RATINGS = _RNG.choice([1.0, 2.0, 3.0, 4.0, 5.0], _N, p=[0.05, 0.1, 0.25, 0.35, 0.25])
_OLD, _NEW = np.arange(_N) < 1600, np.arange(_N) >= 1600


def _part(
    rows: Any, values: Callable[[Any], Any] = lambda ratings: ratings, ids: Any = lambda ids: ids
) -> mfrank.Interactions:
    cells = ids(_USERS[rows]), ids(_ITEMS[rows])
    return mfrank.Interactions.from_arrays(*cells, values(_RATINGS[rows]), duplicates="max")


READERS: dict[str, Callable[[], Any]] = {
    "WRMF": lambda: mfrank.ALS(mfrank.WRMF(), factors=4, random_state=0),
    "weighted IALS": lambda: mfrank.ALS(mfrank.IALS(weighted=True), factors=4, random_state=0),
    "ItemKNN": mfrank.ItemKNN,
    "Blend": lambda: mfrank.Blend([mfrank.EASE(), READERS["WRMF"]()]),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "RG2": lambda: mfrank.ALS(factors=4, random_state=0),
    "Descent": lambda: mfrank.Descent(factors=4, iterations=1, random_state=0),
    "EASE": mfrank.EASE,
    "Popularity": mfrank.Popularity,
}
SCALES: dict[str, Callable[[Any], Any]] = {
    "shares": lambda ratings: ratings / 5,
    "percents": lambda ratings: 20 * ratings,
    "of ten stars": lambda ratings: 2 * ratings,
    "none": np.ones_like,
}
_UNIT, _TWICE, _IDS = "reads both as of one unit", "count twice", "has none of them"
_SWAPPED, _RAW = "in each other's place", "has values as they are"


def _told(caplog: pytest.LogCaptureFixture, update: Callable[[], object]) -> list[str]:
    caplog.clear()
    with caplog.at_level("WARNING", "mfrank"):
        update()
    texts = [record.getMessage() for record in caplog.records]
    return [
        each for text in texts for each in (_UNIT, _TWICE, _IDS, _SWAPPED, _RAW) if each in text
    ]


@pytest.fixture(scope="module", params=READERS)
def reader(request: pytest.FixtureRequest) -> Any:
    return READERS[request.param]().fit(_part(_OLD))


@pytest.mark.parametrize("scale", SCALES)
def test_values_of_another_scale_are_told_once(reader: Any, scale: str, caplog: Any) -> None:
    new = _part(_NEW, SCALES[scale])
    assert _told(caplog, lambda: copy(reader).partial_fit(new)) == [_UNIT]
    assert _told(caplog, lambda: copy(reader).partial_fit(new.user_items)) == [_UNIT]


def test_all_interactions_in_place_of_the_new_ones_are_told_once(reader: Any, caplog: Any) -> None:
    for rows in (_OLD, _OLD | _NEW, _OLD & (_USERS < 9)):
        assert _told(caplog, lambda rows=rows: copy(reader).partial_fit(_part(rows))) == [_TWICE]


@pytest.mark.parametrize("share", [0.005, 0.02, 0.5, 1.0])
def test_ordinary_updates_are_not_told(reader: Any, share: float, caplog: Any) -> None:
    new = _NEW & (np.arange(_N) < 1600 + 400 * share)
    assert not _told(caplog, lambda: copy(reader).partial_fit(_part(new)))


def test_counts_of_a_day_are_of_the_scale_of_a_year(caplog: Any) -> None:
    counts = mfrank.Interactions.from_arrays(_USERS[_OLD], _ITEMS[_OLD], _RATINGS[_OLD] ** 4)
    model = READERS["WRMF"]().fit(counts)
    for values in (np.ones_like, lambda ratings: np.minimum(ratings, 3)):
        assert not _told(caplog, lambda v=values: copy(model).partial_fit(_part(_NEW, v)))


def test_values_that_have_decayed_are_of_the_same_scale(caplog: Any) -> None:
    model = READERS["WRMF"]().fit(_part(_OLD))
    for day in range(4):
        new = _part(_NEW & (np.arange(_N) % 4 == day))
        assert not _told(caplog, lambda new=new: model.partial_fit(new, decay=0.9))


@pytest.mark.parametrize("kind", READERS | OTHERS)
def test_ids_of_another_catalog_are_told_once(kind: str, caplog: Any) -> None:
    for first, others in (
        (lambda ids: 7 * ids + 3, lambda ids: ids + 1000),
        (
            lambda ids: np.char.add("a", ids.astype(str)),
            lambda ids: np.char.zfill(ids.astype(str), 6),
        ),
    ):
        model = (READERS | OTHERS)[kind]().fit(_part(_OLD, ids=first))
        of_others = _part(_NEW, ids=others)
        assert _told(caplog, lambda m=model, n=of_others: copy(m).partial_fit(n)) == [_IDS]


def _popular(seed: int, n: int) -> tuple[Any, Any]:
    """Users and items, numbers of the same range, some of which have much more than others."""
    rng, order = np.random.default_rng(seed), np.random.default_rng(7)
    both = []
    for n_ids in (300, 350):
        ids, weights = order.permutation(n_ids), 1 / np.arange(1.0, n_ids + 1)
        both.append(rng.choice(ids, n, p=weights / weights.sum()))
    return both[0], both[1]


@pytest.mark.parametrize("kind", READERS | OTHERS)
@pytest.mark.parametrize("begin", [0, 10_000])
def test_users_in_place_of_items_are_told_once(kind: str, begin: int, caplog: Any) -> None:
    """By what is popular, or by ids that are known on the other side alone."""
    of = mfrank.Interactions.from_arrays
    (users, items), (new_users, new_items) = _popular(0, 3000), _popular(1, 1500)
    model = (READERS | OTHERS)[kind]().fit(of(users, items + begin))
    swapped, same = of(new_items + begin, new_users), of(new_users, new_items + begin)
    newcomers = of(new_users + 300, new_items + begin)
    new_catalog = of(new_users, new_items + begin + 350)
    assert _told(caplog, lambda: copy(model).partial_fit(swapped)) == [_SWAPPED]
    for ordinary in (same, newcomers, new_catalog):
        assert not _told(caplog, lambda new=ordinary: copy(model).partial_fit(new))


def test_users_in_place_of_items_are_told_in_tests_and_refits(caplog: Any) -> None:
    of = mfrank.Interactions.from_arrays
    (users, items), (new_users, new_items) = _popular(0, 3000), _popular(1, 1500)
    known = np.isin(new_users, items) & np.isin(new_items, users)
    known &= np.isin(new_users, users) & np.isin(new_items, items)
    new = new_users[known], new_items[known]
    model = READERS["WRMF"]().fit(of(users, items))
    for data, told in ((of(*new), []), (of(*new[::-1]), [_SWAPPED])):
        assert _told(caplog, lambda data=data: mfrank.evaluate(model, data)) == told
        assert _told(caplog, lambda data=data: mfrank.refit(model, data)) == told


def test_a_service_tells_of_users_in_place_of_items(tmp_path: Path, caplog: Any) -> None:
    of = mfrank.Interactions.from_arrays
    users, items = _popular(0, 3000)
    model = READERS["WRMF"]().fit(of(users, items))
    journal = EventJournal(tmp_path)
    journal.append([Event(int(i), int(u)) for u, i in zip(*_popular(1, 1500), strict=True)])
    assert _told(caplog, lambda: journal.update(model)) == [_SWAPPED]


def test_no_values_in_place_of_ratings_are_told_where_some_ratings_are_1(caplog: Any) -> None:
    ratings = np.where(np.arange(_N) % 4 == 0, 1.0, _RATINGS)
    data = mfrank.Interactions.from_arrays(_USERS, _ITEMS, ratings, duplicates="max")
    new = mfrank.Interactions.from_arrays(_USERS[_NEW], _ITEMS[_NEW], duplicates="max")
    again = mfrank.Interactions.from_arrays(_USERS[_NEW], _ITEMS[_NEW])
    assert again.user_items.data.max() > 1
    clicks = mfrank.Interactions.from_arrays(_USERS, _ITEMS, np.ceil(ratings / 3))
    for kind in READERS:
        model = READERS[kind]().fit(data)
        for each in (new, again):
            assert _told(caplog, lambda m=model, n=each: copy(m).partial_fit(n)) == [_UNIT]
        model = READERS[kind]().fit(clicks)
        assert not _told(caplog, lambda m=model: copy(m).partial_fit(new))
    of_one = _NEW & (_USERS == 7)
    one = mfrank.Interactions.from_arrays(_USERS[of_one], _ITEMS[of_one], np.ones(of_one.sum()))
    assert not _told(caplog, lambda: READERS["WRMF"]().fit(data).partial_fit(one))


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("weight", [mfrank.log_weight, mfrank.bm25_weight])
def test_values_as_they_are_beside_weighted_ones_are_told(
    weight: Any, kind: str, is_saved: bool, tmp_path: Path, caplog: Any
) -> None:
    old, new = _part(_OLD), _part(_NEW)
    model = READERS[kind]().fit(weight(old))
    if is_saved:
        model = mfrank.load(model.save(tmp_path / "model"))
    assert model.weightings == (weight.__name__,)
    few = _part(_NEW & (_USERS == 3))
    for data in (new, few):
        assert _RAW in _told(caplog, lambda data=data: copy(model).partial_fit(data))
        assert _RAW not in _told(caplog, lambda data=data: copy(model).partial_fit(weight(data)))
    model.partial_fit(weight(few))
    assert model.weightings == (weight.__name__,)
    assert _RAW in _told(caplog, lambda: mfrank.refit(model, old))
    assert not _told(caplog, lambda: mfrank.refit(model, weight(old)))
    assert not _told(caplog, lambda: mfrank.evaluate(model, new))


def test_new_values_are_not_aged_where_old_ones_are(caplog: Any) -> None:
    times = np.arange(_N)
    old = mfrank.Interactions.from_arrays(
        _USERS[_OLD], _ITEMS[_OLD], _RATINGS[_OLD], times[_OLD], duplicates="max"
    )
    model = READERS["WRMF"]().fit(mfrank.recency_weight(old, 5000))
    assert _RAW not in _told(caplog, lambda: model.partial_fit(_part(_NEW), decay=0.9))


IN_ORDER: dict[str, Callable[[], Any]] = {
    "NextItem": mfrank.NextItem,
    "SequentialRules": mfrank.SequentialRules,
    "AsymmetricALS": lambda: mfrank.AsymmetricALS(factors=3),
    "Blend": lambda: mfrank.Blend([mfrank.NextItem(), OTHERS["RG2"]()]),
}


@pytest.mark.parametrize("kind", IN_ORDER)
def test_new_times_in_another_unit_are_told(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    begin, few = 1_700_000_000, np.flatnonzero(_NEW)[:30]

    def of(rows: Any, times: Any) -> mfrank.Interactions:
        cells = _USERS[rows], _ITEMS[rows]
        return mfrank.Interactions.from_arrays(*cells, timestamps=times, timestamp_unit="s")

    fits = {"seconds": begin + np.flatnonzero(_OLD), "an order": np.flatnonzero(_OLD)}
    for name, times in fits.items():
        model = IN_ORDER[kind]().fit(of(_OLD, times))
        for new, is_told in (
            (begin + few, False),
            (1000 * (begin + few), name == "seconds"),
            (few, name == "seconds"),
            (19_000 + few, name == "seconds"),
        ):
            caplog.clear()
            copy(model).partial_fit(of(few, new))
            told = [line for line in caplog.messages if "to the unit of the fit" in line]
            assert len(told) == is_told


@pytest.mark.parametrize("kind", OTHERS)
def test_who_reads_no_values_has_no_scale(kind: str, caplog: Any) -> None:
    model = OTHERS[kind]().fit(_part(_OLD))
    for new in (_part(_OLD | _NEW), _part(_NEW, SCALES["percents"])):
        assert not _told(caplog, lambda new=new: copy(model).partial_fit(new))


def test_rows_that_are_solved_anew_are_of_the_scale_of_the_fit(caplog: Any) -> None:
    model = READERS["WRMF"]().fit(_part(_OLD))
    ids = model.user_ids.labels[:20]
    for new, told in ((_part(_OLD), []), (_part(_OLD, SCALES["percents"]), [_UNIT])):
        assert _told(caplog, lambda n=new: copy(model).partial_fit_users(ids, n)) == told
        assert _told(caplog, lambda n=new: copy(model).partial_fit_items(ids, n)) == told


def _files_of_lists(model: Any, data: mfrank.Interactions) -> None:
    with TemporaryDirectory() as folder:
        model.recommend_all(Path(folder) / "lists", data, recalculate_user=True)


FOLDED: dict[str, Callable[[Any, mfrank.Interactions, Any], object]] = {
    "factors of a user": lambda model, data, user: model.recalculate_user(user, data),
    "lists": lambda model, data, user: model.recommend(user, data, recalculate_user=True),
    "lists of a matrix": lambda model, data, user: model.recommend(
        user, data.user_items[[data.user_ids.rows([user])[0]]], recalculate_user=True
    ),
    "files of lists": lambda model, data, _: _files_of_lists(model, data),
    "an explanation": lambda model, data, user: model.explain(user, data, data.item_ids.labels[0]),
    "somebody new": lambda model, data, user: model.recommend_from_items(
        data.item_ids.labels[data.user_items[[user]].indices],
        values=data.user_items[[user]].data,
    ),
    "held-out users": lambda model, data, _: mfrank.evaluate(
        model, mfrank.held_out_users(data, test=9).test
    ),
}
FACTORS: dict[str, Callable[[Any, mfrank.Interactions, Any], object]] = {
    "factors of an item": lambda model, data, _: model.recalculate_item(
        data.item_ids.labels[3], data
    ),
    "items like a new one": lambda model, data, _: model.similar_items(
        data.item_ids.labels[3], recalculate_item=True, item_users=data
    ),
    "users like a new one": lambda model, data, user: model.similar_users(
        user, recalculate_user=True, user_items=data
    ),
}
ALS = [kind for kind in READERS if kind not in ("ItemKNN", "Blend")]
DOORS = [(kind, door) for kind in ("Blend", *ALS) for door in FOLDED if door != "factors of a user"]
DOORS += [(kind, door) for kind in ALS for door in ("factors of a user", *FACTORS)]


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize(("kind", "door"), DOORS)
def test_values_to_fold_in_are_of_the_scale_of_the_fit(
    kind: str, door: str, is_saved: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Told once for each model, however often they are given."""
    ask = (FOLDED | FACTORS)[door]
    for scale, told in (("same", []), ("percents", [_UNIT]), ("shares", [_UNIT])):
        model = READERS[kind]().fit(_part(_OLD))
        if is_saved:
            model = mfrank.load(model.save(tmp_path / scale))
        data = _part(_OLD, SCALES.get(scale, lambda ratings: ratings))
        for again in (told, []):
            assert _told(caplog, lambda: ask(model, data, 7)) == again  # noqa: B023


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("door", FOLDED)
def test_values_to_fold_in_have_no_scale_where_none_are_read(
    kind: str, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = OTHERS[kind]().fit(_part(_OLD))
    if door == "an explanation" and kind == "Popularity":
        return
    if door == "factors of a user" and kind == "EASE":
        return
    percents = _part(_OLD, SCALES["percents"])
    assert not _told(caplog, lambda: FOLDED[door](model, percents, 7))


@pytest.mark.parametrize("kind", ["Blend", *ALS])
def test_items_without_a_value_count_1_which_is_told_where_that_is_little(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    of_events = np.where(_RATINGS > 3, 1.0, 5.0)
    for values, told in ((_RATINGS, [_UNIT]), (np.ones(_N), []), (of_events, [])):
        data = mfrank.Interactions.from_arrays(_USERS, _ITEMS, values, duplicates="max")
        model = READERS[kind]().fit(data)
        for again in (told, []):
            assert _told(caplog, lambda: model.recommend_from_items([3, 5])) == again  # noqa: B023


def test_ordinary_rows_of_users_and_items_are_of_the_scale_of_the_fit() -> None:
    """Of ratings and of counts, whose largest a sample may lack; short rows, too."""
    rng = np.random.default_rng(1)
    for values in (
        rng.choice([1.0, 2.0, 3.0, 4.0, 5.0], 40_000, p=[0.05, 0.1, 0.25, 0.35, 0.25]),
        np.ceil(rng.pareto(1.2, 40_000)),
        np.log1p(np.ceil(rng.pareto(1.2, 40_000))),
    ):
        scale = ValueScale.of_some(values)
        assert scale is not None
        for length in (1, 2, 5, 15, 40):
            rows = values[: 40_000 // length * length].reshape(-1, length)
            assert not any(map(scale.is_other, rows))


def test_the_command_line_tells_of_a_saved_model(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def write(name: str, data: mfrank.Interactions) -> str:
        data.to_pandas().to_csv(tmp_path / name, index=False)
        return str(tmp_path / name)

    model, output = str(tmp_path / "model"), str(tmp_path / "newer")
    old = write("old.csv", _part(_OLD))
    assert main(["fit", old, "--model", model, "--objective", "wrmf", "--factors", "4"]) == 0
    for new, expected in (
        (_part(_OLD | _NEW), _TWICE),
        (_part(_NEW, SCALES["shares"]), _UNIT),
        (_part(_NEW & (_USERS < 50), ids=lambda ids: ids + 1000), _IDS),
        (_part(_NEW), ""),
    ):
        capfd.readouterr()
        line = ["update", write("new.csv", new), "--model", model, "--output", output]
        assert main(line) == 0
        told = capfd.readouterr().err
        assert [each for each in (_TWICE, _UNIT, _IDS) if each in told] == [expected][
            : bool(expected)
        ]
