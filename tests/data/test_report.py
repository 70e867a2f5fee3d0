"""``Interactions.report`` counts right, and names what is odd and nothing else."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mfrank
from mfrank.cli.main import main
from tests.support.errors import refuses

DAY = 86_400
BEGIN = 1_577_836_800  # 2020-01-01


def data_of(users, items, values=None, **more):
    return mfrank.Interactions.from_arrays(users, items, values, **more)


def odd(data, test=None):
    return "\n".join(data.report(test).odd())


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 5)), max_size=40),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 7)), min_size=1, max_size=20),
)
@settings(max_examples=60, deadline=None)
def test_counts_are_those_of_the_cells(cells, held_out):
    columns = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    data = data_of(columns[0], columns[1], columns[2] / 2, shape=(7, 6))
    dense = np.zeros((7, 6))
    np.add.at(dense, (columns[0], columns[1]), columns[2] / 2)
    users, items = (dense > 0).sum(1), (dense > 0).sum(0)
    report = data.report()
    assert report.n_entries == users.sum()
    assert (report.empty_users, report.empty_items) == ((users == 0).sum(), (items == 0).sum())
    seen = set(zip(columns[0].tolist(), columns[1].tolist(), strict=True))
    assert report.n_seen_only == len(seen) - report.n_entries
    if report.n_entries:
        values, present = dense[dense > 0], users[users > 0]
        assert asdict(report.values) == {
            "least": values.min(),
            "median": np.median(values),
            "most": values.max(),
        }
        assert report.n_values == len(set(values))
        assert report.per_user.median == np.median(present)
        largest = sorted(items, reverse=True)
        assert 2 * sum(largest[: report.half]) >= items.sum() > 2 * sum(largest[: report.half - 1])
    pairs = {(user, item) for user, item in held_out}
    test = data_of(*np.array(sorted(pairs)).T, shape=(9, 8))
    part = data.report(test).test
    new_users = {user for user, _ in pairs if user > 6 or not users[user]}
    new_items = {item for _, item in pairs if item > 5 or not items[item]}
    assert (part.new_users, part.new_items) == (len(new_users), len(new_items))
    assert part.new_entries == sum(u in new_users or i in new_items for u, i in pairs)
    assert part.repeated == sum(u < 7 and i < 6 and dense[u, i] > 0 for u, i in pairs)


def test_ordinary_data_are_not_odd():
    drawn = mfrank.synthetic(300, 200, 9_000, random_state=0)
    times = BEGIN + np.random.default_rng(0).integers(100 * DAY, size=drawn.nnz)
    data = replace(drawn, timestamps=times)
    split = mfrank.by_time(data, test=0.2)
    assert odd(data) == ""
    known = split.test.report(split.test).test
    assert (known.new_users, known.new_items, known.repeated) == (0, 0, split.test.nnz)


def test_a_user_of_thousands_is_named():
    users = np.concatenate([np.full(1_200, 7), np.repeat(np.arange(100, 200), 12)])
    items = np.concatenate([np.arange(1_200), np.tile(np.arange(12), 100)])
    report = data_of(users, items).report()
    assert report.busiest == ((7, 1_200),)
    assert "7 has 1,200 entries" in str(report)
    assert data_of(users[:900], items[:900]).report().n_busy == 0  # nobody has so few
    many = np.repeat(np.arange(5), 1_200)
    assert data_of(many, np.tile(np.arange(1_200), 5)).report().n_busy == 0  # all have as many


def test_three_of_many_busy_users_are_named_the_busiest_first():
    entries = {**dict.fromkeys(range(20), 1_000), 7: 1_100, **dict.fromkeys(range(20, 100), 20)}
    users = np.repeat(list(entries), list(entries.values()))
    items = np.concatenate([np.arange(n) for n in entries.values()])
    report = data_of(users, items).report()
    assert (report.per_user.median, report.n_busy) == (20, 20)
    assert report.busiest == ((7, 1_100), (0, 1_000), (1, 1_000))
    (told,) = report.odd()
    assert told.startswith("20 users with at least 1,000 entries and 50 times the median")
    assert told.endswith("? 7 has 1,100 entries, 0 has 1,000 entries, 1 has 1,000 entries")


@pytest.mark.parametrize(("days", "is_odd"), [(2, False), (30, True)])
def test_a_gap_in_time_is_named(days, is_odd):
    hours = np.arange(2_000) * 3_600
    times = BEGIN + np.where(hours < 40 * DAY, hours, hours + days * DAY)
    data = data_of(np.arange(2_000) % 50, np.arange(2_000) // 50, timestamps=times)
    assert ("is a file missing" in odd(data)) == is_odd
    if is_odd:
        assert "from 2020-02-09 23:00:00 to 2020-03-11: is a file missing?" in odd(data)


def test_a_few_old_entries_are_no_gap_and_few_entries_have_gaps():
    times = BEGIN + np.concatenate([[0, 3_600], 4_000 * DAY + np.arange(998) * 3_600])
    users, items = np.arange(1_000) % 50, np.arange(1_000) // 50
    assert odd(data_of(users, items, timestamps=times)) == ""
    few = BEGIN + np.arange(20) ** 2 * 2 * DAY
    assert odd(data_of(users[:20], items[:20], timestamps=few)) == ""


def gaps(*groups):
    """Whether the longest gap of entries at some hours is named."""
    times = BEGIN + np.concatenate(groups) * 3_600
    users = np.arange(len(times))
    report = data_of(users, users % 7, timestamps=times).report()
    assert len(list(report.odd())) == (report.times.gap is not None)
    return report.times.gap is not None


@pytest.mark.parametrize("n_before", [9, 10, 500, 990, 991])
def test_a_gap_has_a_hundredth_of_all_moments_on_each_side(n_before):
    before, after = np.arange(n_before), 3_000 + np.arange(1_000 - n_before)
    assert gaps(before, after) == (10 <= n_before <= 990)


def test_a_gap_has_three_days_and_is_none_by_chance():
    hours = np.arange(2_000)
    assert gaps(hours, 2_000 + 3 * 24 - 1 + hours)
    assert not gaps(hours, 2_000 + 3 * 24 - 2 + hours)
    for hour in (24, 39 * 24):  # the longest time is the second or the first
        assert gaps([0] * 500, [hour] * 500, [40 * 24] * 500)
        assert not gaps([0] * 3, [hour] * 3, [40 * 24] * 4)
    assert not gaps([0] * 500, [40 * 24] * 500)


def test_the_moment_of_an_import_is_named():
    rng = np.random.default_rng(0)
    times = BEGIN + rng.integers(100 * DAY, size=2_000)
    times[:300] = BEGIN + 5 * DAY + 60
    users, items = np.arange(2_000) % 50, np.arange(2_000) // 50
    data = data_of(users, items, timestamps=times)
    assert "300 entries (15.0%) at 2020-01-06 00:01:00" in odd(data)
    dates = data_of(users, items, timestamps=times // DAY * DAY)
    assert odd(dates) == ""
    assert "in whole days" in str(dates.report())


@pytest.mark.parametrize(
    ("n_at_once", "n", "is_odd"),
    [(99, 5_000, False), (100, 5_000, True), (199, 20_000, False), (200, 20_000, True)],
)
def test_the_moment_of_an_import_has_a_hundredth_and_a_hundred_entries(n_at_once, n, is_odd):
    times = BEGIN + np.arange(n) * 60
    times[:n_at_once] = times[0]
    users = np.arange(n)
    report = data_of(users, users % 7, timestamps=times).report()
    found = report.times.moment, report.times.at_moment
    assert found == ((BEGIN, n_at_once) if is_odd else (None, 0))


@pytest.mark.parametrize(
    ("times", "are_dates"),
    [
        ([630_720_000, BEGIN], True),
        ([630_719_999, BEGIN], False),
        ([BEGIN, 253_402_300_799], True),
        ([BEGIN, 253_402_300_800], False),
    ],
)
def test_seconds_are_those_of_1990_to_9999(times, are_dates):
    data = data_of([1, 2], [1, 2], timestamps=[BEGIN, BEGIN + 1])
    report = replace(data, timestamps=np.array(times)).report()
    assert report.times.seconds == are_dates
    assert ("UTC" in str(report)) == are_dates


def test_times_of_an_unknown_unit_are_no_dates():
    users = np.arange(300) % 10
    report = data_of(users, np.arange(300) // 10, timestamps=np.arange(300)).report()
    assert "0 to 299 (1970-01-01, if these are seconds since 1970)" in str(report)
    assert list(report.odd()) == []


def test_dates_before_1990_are_told_as_days():
    dates = np.array(["1969-07-20", "1989-11-09"], "datetime64[s]")
    report = data_of([1, 2], [1, 2], timestamps=dates).report()
    assert "(1969-07-20 to 1989-11-09, if these are seconds since 1970)" in str(report)
    numbers = data_of([1, 2], [1, 2], timestamps=[BEGIN, BEGIN + 1])
    beyond = replace(numbers, timestamps=np.array([0, 10**18])).report()
    assert "0 to 1000000000000000000" in str(beyond)
    assert "since 1970" not in str(beyond)


def test_a_test_part_beside_the_training_data():
    train = data_of(["a", "a", "b"], ["x", "y", "x"], timestamps=[BEGIN, BEGIN + 9, BEGIN + 5])
    test = data_of(["a", "a", "c"], ["x", "z", "y"], timestamps=[BEGIN + 8, BEGIN + 9, BEGIN + 10])
    told = odd(train, test)
    assert "1 of 2 users and 1 of 3 items of the test part have no entry here" in told
    assert "2 of its 3 entries" in told
    assert "have 1 entry of the test part too" in told
    assert "1 of 3 entries of the test part are older than the last one here" in told
    assert train.report(replace(test, timestamps=None)).test.earlier is None


def test_a_test_part_of_other_rows_is_refused_by_its_name():
    numbered = mfrank.Interactions.from_sparse(data_of([0, 1], [0, 1]).to_scipy())
    with pytest.raises(mfrank.UnknownIdError) as error:
        numbered.report(data_of([5, 6], [0, 1]))
    assert error.value.argument == "test"


def test_training_data_may_be_empty_and_know_nobody():
    test = data_of(["a", "b"], ["x", "x"])
    for train in (data_of([], []), data_of([], [], shape=(0, 0))):
        report = train.report(test)
        part = report.test
        assert (part.new_users, part.new_items, part.new_entries, part.repeated) == (2, 1, 2, 0)
        assert part.other_ids == ()
        assert report.values == report.per_user == report.per_item
        assert set(asdict(report.values).values()) == {0}
        assert report.half == 0


def test_one_user_and_one_item_are_known_or_not():
    train = data_of([1], [1])
    part = train.report(data_of([1, 2], [1, 2])).test
    assert (part.new_users, part.new_items, part.new_entries, part.repeated) == (1, 1, 1, 1)


def test_numbers_and_text_are_not_the_same_id():
    told = odd(data_of([1, 2], ["x", "y"]), data_of(["1", "2"], ["x", "y"]))
    assert "user ids are numbers in one part and text in the other" in told
    assert "item ids are" not in told
    items = odd(data_of(["x", "y"], [1, 2]), data_of(["x", "y"], ["1", "2"]))
    assert "item ids are numbers in one part" in items
    assert "user ids are" not in items


def test_what_is_no_test_part_is_refused():
    data = data_of(["a"], ["x"])
    with refuses(TypeError, "test"):
        data.report(data.to_scipy())
    numbered = mfrank.Interactions.from_sparse(data_of([0, 1], [0, 1]).to_scipy())
    with pytest.raises(mfrank.UnknownIdError):
        numbered.report(data_of([5, 6], [0, 1]))


def test_nothing_can_be_described():
    empty = data_of([], [], shape=(0, 0))
    assert "entries  0" in str(empty.report())
    assert empty.report(empty).test.n_entries == 0
    assert "2, 2 of them without entries" in str(data_of([], [], shape=(2, 3)).report())


def below(report: object) -> list[str]:
    """The lines below what was read."""
    lines = str(report).splitlines()
    return lines[next(at for at, line in enumerate(lines) if line.startswith("users")) :]


def test_the_lines_of_a_report():
    rated = data_of(
        *([0, 0, 1, 2, 2], [0, 1, 0, 0, 3], [5, 4, 3, 1, 2.5]), shape=(4, 5),
        timestamps=[BEGIN, BEGIN + DAY, BEGIN + 2 * DAY, BEGIN, BEGIN],
    )  # fmt: skip
    assert str(rated.report()).splitlines() == [
        "read     from_arrays",
        "         5 rows",
        "ids      users whole numbers, items whole numbers",
        "users    4, 1 of them without entries; each has 1 to 2, median 2",
        "items    5, 2 of them without entries; each has 1 to 3, median 1",
        "entries  5, 25.000% of the cells",
        "values   1 to 5, median 3; 5 different ones",
        "popular  1 item (33.33%) have half of all entries",
        "times    2020-01-01 to 2020-01-03 UTC, 2 days, in whole days",
    ]
    kept = rated.at_least(3)
    assert below(kept.report(kept))[3:] == [
        "only seen  2 more, such as values below 3",
        "values     3 to 5, median 4; 3 different ones",
        "popular    1 item (50.00%) have half of all entries",
        "times      2020-01-01 to 2020-01-03 UTC, 2 days, in whole days",
        "test       3 entries of 2 users and 2 items",
        "look at: these interactions have 3 entries of the test part too",
        "look at: 2 of 3 entries of the test part are older than the last one here: a model is "
        "asked for what came before what it learns from",
    ]
    watched = data_of([1, 1, 2], [1, 2, 1], [2, 2, 0], timestamps=[BEGIN, BEGIN + 60, BEGIN])
    assert below(watched.report()) == [
        "users      2, 1 of them without entries; each has 2 to 2, median 2",
        "items      2; each has 1 to 1, median 1",
        "entries    2, 50.000% of the cells",
        "only seen  1 more",
        "values     all 2",
        "popular    1 item (50.00%) have half of all entries",
        "times      2020-01-01 to 2020-01-01 00:01:00 UTC, 0.000694 days",
    ]
    assert below(data_of([], []).report()) == [
        *("users    0", "items    0", "entries  0", "times    none")
    ]
    assert below(data_of([], [], shape=(2, 3)).report()) == [
        "users    2, 2 of them without entries",
        "items    3, 3 of them without entries",
        *("entries  0, 0.000% of the cells", "times    none"),
    ]


def test_a_notebook_shows_the_same_lines():
    data = data_of(["<b>"], ["x"], timestamps=[BEGIN])
    report = data.report(data)
    html = report._repr_html_()
    for name, text in report.rows():
        assert name in html
        assert text.split("&")[0] in html
    assert "look at" in html
    assert "Interactions" in html


def test_the_command_line_reports_what_python_does(tmp_path, capsys):
    rows = ["u1,3,5,2020-01-01", "u1,4,2,2020-01-02", "u2,3,4,2020-02-01"]
    (tmp_path / "a.csv").write_text("\n".join(["user,item,rating,date", *rows]))
    (tmp_path / "b.csv").write_text("user,item,rating\nu1,03,5\nu1,4,5\nu3,3,1\n")
    train = mfrank.Interactions.from_file(tmp_path / "a.csv").at_least(4)
    assert main(["info", str(tmp_path / "a.csv"), "--at-least", "4"]) == 0
    assert capsys.readouterr().out == f"{train.report()}\n"
    line = ["info", str(tmp_path / "a.csv"), "--at-least", "4", "--test", str(tmp_path / "b.csv")]
    assert main(line) == 0
    assert "0 of 1 user and 2 of 2 items of the test part" in capsys.readouterr().out
    assert main(["info", "--test", "b.csv"]) == 2
    assert "FILE, which is missing" in capsys.readouterr().err
    assert main(["info", "--at-least", "4"]) == 2
