"""``similar-items``, ``explain`` and ``--skip-unknown`` write what Python answers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.data import write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of interactions and models of it: als, wrmf, walk, ranked."""
    folder = tmp_path_factory.mktemp("lists")
    data = mfrank.synthetic(60, 40, 900, names=True, random_state=2)
    columns = {
        "user": data.user_ids.raw(data.entry_users),
        "item": data.item_ids.raw(data.user_items.indices),
        "count": 1 + np.arange(data.nnz) % 3,
        "timestamp": data.timestamps,
    }
    write_table(folder / "train.csv", columns)
    few = ["--random-state", "0", "--n-threads", "1"]
    fit = [str(folder / "train.csv"), *few, "--model"]
    small = ["--factors", "4", "--iterations", "2"]
    assert main(["fit", *fit, str(folder / "als"), *small]) == 0
    assert main(["fit", *fit, str(folder / "wrmf"), *small, "--objective", "wrmf"]) == 0
    assert main(["descend", *fit, str(folder / "ranked"), *small, "--negatives", "5"]) == 0
    assert main(["pagerank", *fit, str(folder / "walk"), "--untuned"]) == 0
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Run a command that must succeed; return its rows and what it told on stderr."""

    def run(*line: object) -> tuple[list[dict[str, str]], str]:
        capsys.readouterr()
        assert main([str(word) for word in line]) == 0
        shown = capsys.readouterr()
        return list(csv.DictReader(io.StringIO(shown.out))), shown.err

    return run


def test_somebody_new_is_recommended_to_by_items_oldest_first(folder, run, tmp_path, capsys):  # type: ignore[no-untyped-def]
    data = mfrank.Interactions.from_file(folder / "train.csv", timestamp="timestamp")
    mfrank.NextItem().fit(data).save(tmp_path / "next")
    first, second = data.item_ids.labels[:2].tolist()
    for name, model in (("als", folder / "als"), ("next", tmp_path / "next")):
        lists = []
        for given in ([first, second], [second, first]):
            flags = [word for item in given for word in ("--item", item)]
            rows, _ = run("recommend", "--model", model, "--n", 5, *flags)
            ids, scores = mfrank.load(model).recommend_from_items(given, 5)
            assert [row["item"] for row in rows] == ids.tolist()
            np.testing.assert_allclose([float(row["score"]) for row in rows], scores, rtol=1e-6)
            assert {row["user"] for row in rows} == {"somebody new"}
            lists.append([float(row["score"]) for row in rows])
        assert (lists[0] == lists[1]) == (name == "als")
    rows, told = run(*("recommend", "--model", model, *flags, "--item", "none", "--skip-unknown"))
    assert [row["item"] for row in rows][:5] == ids.tolist()
    assert "1 unknown item left out" in told
    line = ["recommend", "--model", str(model), "--item", first]
    capsys.readouterr()
    assert main([*line, "--json", "-"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["user"] == "somebody new"
    assert len(listed["items"]) == 10
    for wrong, remedy in (
        (["--include-seen"], "leave it out"),
        (["--item", "none"], "--skip-unknown"),
    ):
        assert main([*line, *wrong]) == 2
        assert remedy in capsys.readouterr().err


def test_lists_are_steered_by_flags(folder, run, tmp_path):  # type: ignore[no-untyped-def]
    model = mfrank.load(folder / "als")
    boosted, other = model.item_ids.labels[:2].tolist()
    table = tmp_path / "items.csv"
    table.write_text(f"item,title,genres\n{boosted},One,a|b\n{other},Other,b\nunknown,Old,c\n")
    flags = ["--boost", f"{boosted}=900", "--diversity", ".3", "--popularity-penalty", ".2"]
    rows, _ = run(
        *("recommend", "--model", folder / "als", "--include-seen", "--n", "4", *flags),
        *("--categories", table, "--at-most", "1", "--calibration", ".1"),
    )
    steer = mfrank.Steering(
        {boosted: 900}, 0.2, {boosted: ["a", "b"], other: "b"}, 1, 0.3, calibration=0.1
    )
    users = model.user_ids.labels
    asked = {"N": 4, "filter_already_liked_items": False, "steer": steer}
    assert [row["item"] for row in rows] == model.recommend(users, **asked).ids.ravel().tolist()
    assert rows[0]["item"] == boosted


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--boost", "tea"], "--boost takes ID=NUMBER, such as tea=0.5; got tea"),
        (["--diversity", "2"], "--diversity must be a number from 0 to 1, got 2.0"),
        (["--at-most", "2"], "--at-most needs categories"),
        (["--boost", "no-such-item=1"], "no-such-item"),
        (["--categories", "no-such-file.csv"], "no-such-file.csv"),
    ],
)
def test_wrong_steering_flags_are_told(folder, capsys, flags, told):  # type: ignore[no-untyped-def]
    assert told in refused(capsys, "recommend", "--model", folder / "als", *flags)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("{item},a\n{other},b\n", "first line, which must name the columns"),
        ("item,genre\nno-such,a\n", "has none of the items"),
    ],
)
def test_tables_of_categories_that_have_no_effect_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, table: str, told: str
) -> None:
    item, other = mfrank.load(folder / "als").item_ids.labels[:2].tolist()
    (tmp_path / "genres.csv").write_text(table.format(item=item, other=other))
    flags = ["--categories", tmp_path / "genres.csv", "--at-most", "1"]
    assert told in refused(capsys, "recommend", "--model", folder / "als", *flags)


def test_the_column_of_categories_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    labels = mfrank.load(folder / "als").item_ids.labels
    (tmp_path / "genres.csv").write_text(f"item,genre,price\n{labels[0]},a,3\n")
    flags = ["--categories", tmp_path / "genres.csv", "--at-most", "1"]
    line = ["recommend", "--model", folder / "als", *flags]
    assert main([str(word) for word in line]) == 0
    told = capsys.readouterr().err
    assert f"the column 'price', in which {len(labels) - 1} of {len(labels)} items" in told


def refused(capsys: pytest.CaptureFixture[str], *line: object) -> str:
    capsys.readouterr()
    assert main([str(word) for word in line]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["als", "ranked", "walk"])
def test_similar_items_are_pythons_without_the_item_itself(folder, run, name):  # type: ignore[no-untyped-def]
    model = mfrank.load(folder / name)
    asked = model.item_ids.labels[[3, 7]].tolist()
    rows, _ = run("similar-items", "--model", folder / name, *asked, "--n", "5")
    assert list(rows[0]) == ["item", "rank", "similar", "score"]
    for item in asked:
        ids, scores = model.similar_items(item, N=6)
        mine = [row for row in rows if row["item"] == item]
        expected = [
            (other, score) for other, score in zip(ids, scores, strict=True) if other != item
        ]
        assert [row["similar"] for row in mine] == [other for other, _ in expected[:5]]
        assert [float(row["score"]) for row in mine] == pytest.approx([s for _, s in expected[:5]])
        assert [row["rank"] for row in mine] == list("12345")


def test_lists_are_written_to_files_too(folder, run, tmp_path):  # type: ignore[no-untyped-def]
    item = mfrank.load(folder / "als").item_ids.labels[0]
    told = run(
        "similar-items", "--model", folder / "als", item, "--n", "3", "--output", tmp_path / "s.tsv"
    )[1]
    assert "3 rows written to" in told
    assert len((tmp_path / "s.tsv").read_text().splitlines()) == 4


def test_results_are_json_on_stdout_or_in_a_file(folder, capsys, tmp_path):  # type: ignore[no-untyped-def]
    model = mfrank.ALS.load(folder / "als")
    user, other = model.user_ids.labels[:2].tolist()
    item = model.item_ids.labels[9]

    def told(command: str, *line: object) -> Any:
        capsys.readouterr()
        words = [command, "--model", str(folder / "als"), *map(str, line)]
        assert main([*words, "--json", "-"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert main([*words, "--json", str(tmp_path / "result.json")]) == 0
        assert json.loads((tmp_path / "result.json").read_text()) == shown
        return shown

    lists = model.recommend([user, other], N=3).to_dicts()
    shown = told("recommend", "--user", user, "--user", other, "--n", 3)
    assert shown == [{"user": user, "items": lists[0]}, {"user": other, "items": lists[1]}]
    near = model.similar_items(item, N=3, filter_items=[item]).to_dicts()
    assert told("similar-items", item, "--n", 3) == [{"item": item, "items": near}]
    why = model.explain(user, None, item, N=2)
    shown = told("explain", user, item, "--n", 2)
    assert (shown["user"], shown["item"]) == (user, item)
    assert [(each["id"], each["contribution"]) for each in shown["contributions"]] == [
        *why.contributions
    ]
    parts = sum(each["contribution"] for each in shown["contributions"])
    assert shown["score"] == pytest.approx(shown["baseline"] + shown["others"] + parts)
    about = told("info")
    assert about["users"] == len(model.user_ids)
    assert about["options"]["factors"] == 4


def test_paths_of_a_walk_are_json_too(folder, capsys):  # type: ignore[no-untyped-def]
    model = mfrank.SupervisedPageRank.load(folder / "walk")
    user = model.user_ids.labels[5]
    item = model.recommend(user, N=1).ids[0]
    capsys.readouterr()
    assert main(["explain", "--model", str(folder / "walk"), user, item, "--json", "-"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["paths"][0]["items"][-1] == item
    masses = sum(path["mass"] for path in shown["paths"])
    assert shown["score"] == pytest.approx(masses + shown["others"])


def test_an_explanation_has_the_items_that_python_names(folder, run):  # type: ignore[no-untyped-def]
    model = mfrank.ALS.load(folder / "als")
    user, item = model.user_ids.labels[5], model.item_ids.labels[9]
    rows, told = run("explain", "--model", folder / "als", user, item, "--n", "4")
    expected = model.explain(user, None, item, N=4)
    assert [(row["user"], row["item"], row["rank"]) for row in rows] == [
        (user, item, rank) for rank in "1234"
    ]
    assert [row["because"] for row in rows] == [name for name, _ in expected.contributions]
    parts = [float(row["contribution"]) for row in rows]
    assert parts == [amount for _, amount in expected.contributions]
    assert f"score {expected.score:.6g} = {sum(parts):.6g} of these rows" in told


def test_values_that_no_model_has_come_from_the_file(folder, run, capsys, tmp_path):  # type: ignore[no-untyped-def]
    model = mfrank.ALS.load(folder / "wrmf")
    user, item = model.user_ids.labels[5], model.item_ids.labels[9]
    model.save(tmp_path / "bare", with_seen=False)
    line = ["explain", "--model", tmp_path / "bare", user, item]
    assert "--train is needed" in refused(capsys, *line)
    rows, _ = run(*line, "--train", folder / "train.csv")
    data = mfrank.Interactions.from_file(folder / "train.csv")
    expected = model.explain(user, data, item)
    assert [row["because"] for row in rows] == [name for name, _ in expected.contributions]
    (folder / "other.csv").write_text(f"user,item,count\n{model.user_ids.labels[0]},{item},1\n")
    assert "has no interaction of" in refused(capsys, *line, "--train", folder / "other.csv")


def test_a_walk_is_explained_by_its_paths(folder, run):  # type: ignore[no-untyped-def]
    model = mfrank.SupervisedPageRank.load(folder / "walk")
    user = model.user_ids.labels[5]
    item = model.recommend(user, N=1)[0][0]
    rows, _ = run("explain", "--model", folder / "walk", user, item, "--n", "2")
    expected = model.explain(user, None, item, N=2)
    assert [row["because"].split(" > ") for row in rows] == [
        list(path.items) for path in expected.paths
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("similar-items --model als nothing", "item: unknown ids: 'nothing'"),
        ("similar-items --model nowhere x", "there is no model nowhere"),
        ("similar-items --model als drama-0001 --n 0", "--n must be at least 1"),
        ("explain --model als nobody drama-0001", "user: unknown ids: 'nobody'"),
        ("explain --model als user-00001 nothing", "item: unknown ids: 'nothing'"),
        ("recommend --model als --user nobody", "leave them out with --skip-unknown"),
    ],
)
def test_what_cannot_be_answered_is_one_line(folder, monkeypatch, capsys, line, message):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(folder)
    assert message in refused(capsys, *line.split())


def test_unknown_users_are_skipped_and_counted(folder, run, tmp_path):  # type: ignore[no-untyped-def]
    (tmp_path / "users.txt").write_text("zoe\nuser-00003\nyan\nuser-00001\n")
    line = ["recommend", "--model", folder / "als", "--n", "2", "--skip-unknown"]
    rows, told = run(*line, "--users", tmp_path / "users.txt")
    assert [row["user"] for row in rows] == ["user-00003"] * 2 + ["user-00001"] * 2
    assert told == "mfrank: 2 unknown users left out\n"
    assert run(*line, "--user", "zoe") == ([], "mfrank: 1 unknown user left out\n")
    assert run(*line, "--user", "user-00001") == (rows[2:], "")
    popular = ["--fallback", "popularity", "--users", tmp_path / "users.txt"]
    filled, told = run(*line, *popular)
    assert [row["user"] for row in filled[::2]] == ["zoe", "user-00003", "yan", "user-00001"]
    assert told == "mfrank: popular items for 2 unknown users\n"


def test_unknown_users_among_whole_numbers_are_skipped(run, tmp_path):  # type: ignore[no-untyped-def]
    (tmp_path / "plays.csv").write_text("user,item\n10,7\n10,8\n20,8\n30,9\n")
    model = tmp_path / "m"
    run("fit", tmp_path / "plays.csv", "--model", model, "--factors", "2", "--iterations", "1")
    asked = ["--user", "20", "--user", "bob", "--user", "99", "--skip-unknown"]
    rows, told = run("recommend", "--model", model, *asked)
    assert {row["user"] for row in rows} == {"20"}
    assert "2 unknown users" in told


# --- who has nothing to go by


def test_who_has_nothing_has_no_list_or_popular_items(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = mfrank.synthetic(20, 12, 90, names=True, random_state=0)
    somebody = mfrank.Interactions.from_arrays(
        data.user_ids.raw(data.entry_users),
        data.item_ids.raw(data.user_items.indices),
        user_ids=["a nobody", *data.user_ids.labels],
        item_ids=["an unmet", *data.item_ids.labels],
    )
    model = mfrank.ALS(factors=3, iterations=2, random_state=0).fit(somebody)
    model.save(tmp_path / "model")
    command = ["--model", str(tmp_path / "model")]

    def listed(*more: str) -> tuple[list[dict[str, str]], str]:
        assert main(["recommend", *command, "--n", "20", *more]) == 0
        told = capsys.readouterr()
        return list(csv.DictReader(io.StringIO(told.out))), told.err

    rows, told = listed()
    assert not [row for row in rows if row["user"] == "a nobody" or row["item"] == "an unmet"]
    assert told.startswith("mfrank: 1 of 21 users: nothing to go by")
    assert "--fallback popularity lists popular items" in told
    popular = model.recommend("a nobody", N=20, fallback="popularity").ids
    rows, told = listed("--fallback", "popularity")
    found = [row["item"] for row in rows if row["user"] == "a nobody"]
    assert found == [each for each in popular if each is not None]
    assert "lists are of the most popular items" in told
    unknown = ["--user", "a nobody", "--user", "zoe", "--skip-unknown"]
    assert {row["user"] for row in listed(*unknown)[0]} == set()
    rows, _ = listed(*unknown, "--fallback", "popularity")
    assert [row["item"] for row in rows if row["user"] == "zoe"] == found
    folder = tmp_path / "lists"
    all_of_them = ["recommend-all", *command, "--folder", str(folder), "--format", "csv"]
    assert main([*all_of_them, "--n", "20", "--fallback", "popularity"]) == 0
    assert "1 of 21 users" in capsys.readouterr().err
    with open(folder / "part-00000.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["item"] for row in rows if row["user"] == "a nobody"] == found
    model.save(tmp_path / "model", with_seen=False)
    assert main(["recommend", *command, "--include-seen", "--fallback", "popularity"]) == 2
