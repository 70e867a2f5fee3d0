"""The command line from end to end: files in, files out, one-line errors, exit codes."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import ended_after

import mfrank
from mfrank.cli.main import main
from mfrank.data import by_ratio, write_table
from mfrank.models import FitPlan
from mfrank.models import als as models

FAST = ["--factors", "4", "--iterations", "2", "--n-threads", "1", "--random-state", "0"]


def save(data, path):
    columns = {
        "user": data.user_ids.raw(data.entry_users),
        "item": data.item_ids.raw(data.user_items.indices),
        "rating": data.user_items.data,
        "timestamp": data.timestamps,
    }
    write_table(path, columns)
    return str(path)


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.fixture(scope="module")
def split():
    data = mfrank.synthetic(60, 40, 900, names=True, random_state=2)
    return by_ratio(data, train=0.7, valid=0.0, test=0.3)


@pytest.fixture
def no_implicit(monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit", None)


@pytest.fixture
def train(split, tmp_path):
    return save(split.train, tmp_path / "train.csv")


@pytest.fixture
def model(train, tmp_path):
    folder = str(tmp_path / "model")
    assert main(["fit", train, "--model", folder, *FAST]) == 0
    return folder


def test_fit_on_worker_processes_makes_the_same_model(model, train, tmp_path):
    line = ["fit", train, "--model", str(tmp_path / "m"), "--cluster", "1", *FAST]
    assert main(line) == 0
    np.testing.assert_array_equal(
        mfrank.load(tmp_path / "m").item_factors, mfrank.load(model).item_factors
    )


def test_fit_goes_on_from_a_checkpoint(model, train, tmp_path):
    line = ["fit", train, "--checkpoint", str(tmp_path / "state"), "--factors", "4"]
    line += ["--random-state", "0"]
    whole, longer = str(tmp_path / "whole"), str(tmp_path / "longer")
    assert main([*line, "--iterations", "2", "--model", str(tmp_path / "a")]) == 0
    assert main([*line, "--iterations", "5", "--model", longer]) == 0
    assert main(["fit", train, *line[4:], "--iterations", "5", "--model", whole]) == 0
    same, wanted = mfrank.load(longer), mfrank.load(whole)
    np.testing.assert_array_equal(same.item_factors, wanted.item_factors)
    assert len(same.store.history) == 5


def test_a_dry_run_tells_what_a_fit_takes_and_fits_nothing(train, tmp_path, capsys, monkeypatch):
    folder, state = tmp_path / "model", tmp_path / "state"
    command = ["fit", train, "--model", str(folder), *FAST, "--factors", "4096"]
    assert main([*command, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert not folder.exists()
    data = mfrank.Interactions.from_file(train)
    users, items = data.n_users * 4096 * 4 / 2**20, data.n_items * 4096 * 4 / 2**20
    matrices = 6 * 4096 * 4096 * 8 / 2**20  # far more than the factors of so few rows
    assert f"about {users + items + matrices:.3g} MiB for factors" in told
    assert f"disk: {users + items:.3g} MiB for the model" in told
    assert f"with a checkpoint {users + 1.5 * items:.3g} MiB more" in told
    assert "seconds an epoch" in told
    where = "mfrank.cli.commands.fit.told_of_cluster"
    monkeypatch.setattr(where, lambda model, data, n: f"{model.factors} {data.n_users} on {n}")
    assert main([*command, "--dry-run", "--cluster", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"4096 {data.n_users} on 2"
    assert main([*command[:-1], "64", "--checkpoint", str(state)]) == 0
    size = sum(file.stat().st_size for file in state.rglob("*"))
    data_plan = FitPlan.of(mfrank.ALS(factors=64), data)
    arrays = data_plan.state + 64 * 64 * 8  # and the turn
    assert arrays <= size <= arrays + 40_000


@pytest.mark.parametrize(
    "flags",
    [
        ["--biases", "--item-features", "items.csv"],
        ["--biases", "--checkpoint", "state"],
        ["--regularization", "0", "--item-features", "items.csv"],
        ["--hold-out", "2"],
        ["--cluster", "2", "--backend", "cuda"],
        ["--at-least", "1000"],
        ["--item-features", "none.csv"],
    ],
    ids=" ".join,
)
def test_a_dry_run_refuses_what_the_fit_refuses(
    train: str, flags: list[str], tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    labels = mfrank.Interactions.from_file(train).item_ids.labels
    Path("items.csv").write_text("item,size\n" + "".join(f"{one},1\n" for one in labels))
    line = ["fit", train, "--model", "model", *FAST, *flags]
    assert main(line) == 2
    refused = capsys.readouterr().err.splitlines()[-1]
    assert main([*line, "--dry-run"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == refused
    assert not Path("model").exists()


def test_a_dry_run_counts_features_and_the_best_epoch_and_reads_their_file(
    train, tmp_path, capsys, monkeypatch
):
    data = mfrank.Interactions.from_file(train)
    table = tmp_path / "items.csv"
    table.write_text("item,size\n" + "".join(f"{one},1\n" for one in data.item_ids.labels))
    asked = []
    plan = FitPlan(1.0, 1, 1, 1, False, 1)
    monkeypatch.setattr(FitPlan, "of", lambda model, data, **how: asked.append(how) or plan)
    line = ["fit", train, "--model", str(tmp_path / "m"), *FAST, "--dry-run"]
    assert main(line) == 0
    assert main([*line, "--item-features", str(table), "--hold-out", "0.2"]) == 0
    none = dict.fromkeys(("checkpoint", "cluster", "user_features", "item_features"))
    assert asked == [
        {**none, "has_best": False},
        {**none, "item_features": str(table), "has_best": True},
    ]
    monkeypatch.undo()
    table.write_text("item,size\n")
    assert main([*line, "--item-features", str(table)]) == 2
    assert "--item-features" in capsys.readouterr().err


def test_fit_makes_the_model_that_python_makes(split, train, tmp_path):
    line = ["fit", train, "--model", str(tmp_path / "m"), "--objective", "ials", "--alpha0", "0.5"]
    assert main([*line, *FAST]) == 0
    saved = mfrank.load(tmp_path / "m")
    assert saved.objective == mfrank.IALS(alpha0=0.5)
    # The file has only users and items with training entries, in the order of their names.
    expected = mfrank.ALS(mfrank.IALS(alpha0=0.5), factors=4, iterations=2, random_state=0)
    expected.fit(mfrank.Interactions.from_file(train))
    np.testing.assert_array_equal(saved.item_factors, expected.item_factors)
    assert saved.item_ids == expected.item_ids


def test_the_objective_of_each_epoch_is_printed_where_it_is_tracked(train, tmp_path, capsys):
    line = ["fit", train, "--model", str(tmp_path / "m"), *FAST]
    assert main([*line, "--track-objective"]) == 0
    *epochs, _, summary = capsys.readouterr().out.splitlines()
    values = [epoch["objective"] for epoch in mfrank.load(tmp_path / "m").store.history]
    assert len(epochs) == 2
    for number, (shown, value) in enumerate(zip(epochs, values, strict=True), 1):
        assert shown.startswith(f"epoch {number}: objective {value:.8g}, ")
    assert f"last objective {values[-1]:.8g}; saved to" in summary
    assert main(line) == 0
    assert "last objective" not in capsys.readouterr().out


def test_who_watches_is_told_that_a_fit_began(train, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    def first(*_arrays, **_how):
        assert "fitting RG2" in capsys.readouterr().err
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "als", first)
    assert main(["fit", train, "--model", str(tmp_path / "m"), *FAST]) == 130


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_every_format_goes_in_and_out(split, tmp_path, suffix, capsys):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="parquet files need pyarrow")
        pytest.importorskip("pandas", reason="parquet files need pandas")
    train, test = (save(part, tmp_path / f"{n}{suffix}") for n, part in vars_of(split))
    folder, recommended = str(tmp_path / "model"), tmp_path / f"recommended{suffix}"
    assert main(["fit", train, "--model", folder, *FAST]) == 0
    assert main(["recommend", "--model", folder, "--output", str(recommended)]) == 0
    assert main(["evaluate", "--model", folder, "--test", test]) == 0
    assert "NDCG@10" in capsys.readouterr().out
    again = mfrank.Interactions.from_file(recommended, value="score")
    users, _ = mfrank.load(folder).recommend(mfrank.load(folder).user_ids.labels)
    assert again.nnz == sum(item is not None for item in users.ravel())


def vars_of(split):
    return ("train", split.train), ("test", split.test)


def test_recommendations_have_raw_ids_and_nothing_seen(model, train, tmp_path):
    output = tmp_path / "recommended.tsv"
    assert main(["recommend", "--model", model, "--n", "5", "--output", str(output)]) == 0
    rows, seen = table(output), {(row["user"], row["item"]) for row in table(Path(train))}
    assert list(rows[0]) == ["user", "rank", "item", "score"]
    assert not seen & {(row["user"], row["item"]) for row in rows}
    assert set(Counter(row["user"] for row in rows)) == {user for user, _ in seen}
    items, scores = mfrank.load(model).recommend("user-00007", N=5)
    mine = [row for row in rows if row["user"] == "user-00007"]
    assert [row["item"] for row in mine] == items.tolist()
    assert [np.float32(row["score"]) for row in mine] == scores.tolist()
    assert [row["rank"] for row in mine] == list("12345")


def test_users_are_named_or_listed_in_a_file(model, tmp_path, capsys):
    (tmp_path / "users.txt").write_text("user-00003\n\nuser-00001\n")
    main(["recommend", "--model", model, "--n", "2", "--users", str(tmp_path / "users.txt")])
    listed = capsys.readouterr().out
    main(
        ["recommend", "--model", model, "--n", "2", "--user", "user-00003", "--user", "user-00001"]
    )
    assert capsys.readouterr().out == listed
    rows = list(csv.reader(listed.splitlines()))
    assert [row[0] for row in rows[1:]] == ["user-00003"] * 2 + ["user-00001"] * 2


def test_whole_numbers_are_ids_too(tmp_path, capsys):
    (tmp_path / "plays.txt").write_text("10\t7\t2\n10\t8\t1\n20\t8\t5\n30\t9\t1\n")
    folder = str(tmp_path / "model")
    assert main(["fit", str(tmp_path / "plays.txt"), "--model", folder, *FAST]) == 0
    assert "no header found" in capsys.readouterr().err
    assert main(["recommend", "--model", folder, "--user", "20"]) == 0
    items = [line.split(",")[2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert sorted(items) == ["7", "9"]
    assert main(["recommend", "--model", folder, "--user", "20", "--include-seen"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["recommend", "--model", folder, "--user", "bob"]) == 2
    assert "unknown ids: 'bob'" in capsys.readouterr().err


def test_evaluate_gives_the_scores_of_python(model, split, tmp_path, capsys):
    test = save(split.test, tmp_path / "test.csv")
    with open(test, "a") as file:
        file.write("stranger,drama-0001,1.0,0\n")
    scores = tmp_path / "scores.json"
    line = ["evaluate", "--model", model, "--test", test, "--json", str(scores)]
    assert main([*line, "--metric", "ndcg@5", "--metric", "recall@20"]) == 0
    shown = capsys.readouterr()
    assert "1 test interaction left out" in shown.err
    saved = json.loads(scores.read_text())
    assert list(saved["metrics"]) == ["NDCG@5", "Recall@20"]
    assert main([*line[:-1], "-", "--metric", "ndcg@5", "--metric", "recall@20"]) == 0
    assert json.loads(capsys.readouterr().out) == saved

    fitted = mfrank.load(model)
    lists, _ = fitted.recommend(fitted.user_ids.labels, N=20)
    found = []
    for user, listed in zip(fitted.user_ids.labels, lists.tolist(), strict=True):
        row = split.test.user_items[split.test.user_ids.rows([user])]
        relevant = set(split.test.item_ids.raw(row.indices)) & set(fitted.item_ids.labels)
        if relevant:
            found.append(len(relevant & set(listed)) / len(relevant))
    assert saved["metrics"]["Recall@20"]["value"] == pytest.approx(np.mean(found))
    assert saved["n_users"] == len(found)


def test_evaluate_can_be_told_what_not_to_rank(model, train, tmp_path, capsys):
    line = ["evaluate", "--model", model, "--test", train, "--metric", "recall@40"]
    assert main(line) == 2
    assert "has a relevant item that is ranked; items of the fit are not" in capsys.readouterr().err
    (tmp_path / "other.csv").write_text("user,item\nuser-00001,drama-0001\n")
    assert main([*line, "--train", str(tmp_path / "other.csv")]) == 0
    assert "Recall@40  1.00000" in capsys.readouterr().out


def test_at_least_takes_high_ratings_only(tmp_path):
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("who,what,stars\na,x,5\na,y,1\nb,x,2\nb,y,4\n")
    columns = ["--user", "who", "--item", "what", "--at-least", "4"]
    assert main(["fit", str(ratings), "--model", str(tmp_path / "m"), *columns, *FAST]) == 0
    assert mfrank.load(tmp_path / "m").store.counts.users.tolist() == [1, 1]


@pytest.mark.parametrize("how", ["ratio", "leave-last", "leave-out", "time"])
@pytest.mark.usefixtures("no_implicit")
def test_compare_prints_and_saves_its_table(split, tmp_path, capsys, how):
    data = save(split.train, tmp_path / "all.csv")
    saved = [tmp_path / "table.json", tmp_path / "table.csv"]
    files = ["--json", str(saved[0]), "--csv", str(saved[1])]
    chosen = ["--objective", "rg2:alpha=0.5", "--metric", "ndcg@5", "--repeats", "1"]
    assert main(["compare", data, "--split", how, *chosen, *files, *FAST]) == 0
    printed = capsys.readouterr().out
    row, baseline = json.loads(saved[0].read_text())["rows"]
    assert baseline["model"] == "mfrank Popularity"
    assert row["objective_name"].startswith("rg2:alpha=0.5,")
    assert f"{row['NDCG@5']:.4f}" in printed
    assert "pip install mfrank[compare]" in printed
    assert table(saved[1])[0]["model"] == row["model"] == "mfrank RG2"


@pytest.mark.usefixtures("no_implicit")
def test_a_walk_takes_part_in_compare(train, tmp_path, capsys):
    saved = tmp_path / "table.json"
    chosen = ["--objective", "ials", "--repeats", "1", "--json", str(saved)]
    assert main(["compare", train, "--split", "leave-last", "--walk", *chosen, *FAST]) == 0
    rows = json.loads(saved.read_text())["rows"]
    assert [row["model"] for row in rows] == [
        "mfrank IALS",
        "mfrank Popularity",
        "mfrank SupervisedPageRank",
    ]
    assert all(0 < row["NDCG@20"] < 1 for row in rows)
    without = tmp_path / "no_times.csv"
    without.write_text("user,item\na,x\na,y\nb,x\nb,y\nc,x\nc,y\n")
    assert main(["compare", str(without), "--walk", *chosen, *FAST]) != 0
    assert "timestamps" in capsys.readouterr().err


@pytest.mark.usefixtures("no_implicit")
def test_compare_takes_a_test_file(split, train, tmp_path, capsys):
    test = save(split.test, tmp_path / "test.csv")
    chosen = ["--objective", "ials", "--repeats", "1", *FAST]
    assert main(["compare", train, "--test", test, *chosen]) == 0
    shown = capsys.readouterr().out
    assert f"{split.train.nnz} training and" in shown


@pytest.mark.usefixtures("no_implicit")
def test_compare_tunes_for_as_long_as_it_is_told(train, tmp_path, capsys):
    saved = tmp_path / "table.json"
    fast = [*FAST[:2], *FAST[4:]]  # without --iterations, which the searches find
    options = ["--tune", "0.005", "--repeats", "1", "--json", str(saved), *fast]
    assert main(["compare", train, "--metric", "ndcg@5", *options]) == 0
    written = json.loads(saved.read_text())
    names = [row["model"] for row in written["rows"]]
    searched = ["mfrank.tune", "mfrank EASE", "mfrank ItemKNN", "mfrank recent popularity"]
    assert names == [*searched[:3], "mfrank Popularity", searched[3]]
    assert list(written["leaderboards"]) == searched
    assert "tuned for 0.005 min each by NDCG@5" in capsys.readouterr().out
    assert main(["compare", train, "--tune", "0", *fast]) != 0
    assert "tune must be a finite number > 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "the following arguments are required: COMMAND (see mfrank --help)"),
        ("sing", "invalid choice: 'sing'"),
        ("fit train.csv", "required: --model (see mfrank fit --help)"),
        ("fit nowhere.csv --model m", "there is no file nowhere.csv"),
        ("fit header.csv --model m", "header.csv: the file has a header and no rows"),
        ("fit faulty.csv --model m", "faulty.csv: line 3: the item is missing"),
        ("fit train.csv --model m --factors 0", "--factors must be at least 1"),
        ("fit train.csv --model m --hold-out 2.0", "--hold-out must be a fraction in (0, 1)"),
        (
            "fit train.csv --model m --cluster here",
            "cluster must be the address of a Dask scheduler",
        ),
        ("fit train.csv --model m --factors x", "invalid int value: 'x'"),
        ("fit train.csv --model m --objective bpr", "unknown objective 'bpr'"),
        ("fit train.csv --model m --objective wrmf --beta 1", "--beta is not an option of wrmf"),
        ("fit train.csv --model m --user nobody", "column 'nobody' must exist"),
        ("fit train.csv --model train.csv", "cannot save to train.csv: it is a file"),
        ("descend train.csv --model train.csv/m", "train.csv is a file; pass another folder"),
        ("pagerank train.csv --model .", "cannot save to .: it holds other files"),
        ("recommend --model nowhere", "make it with mfrank fit FILE --model nowhere"),
        ("evaluate --test train.csv --model nowhere", "there is no model nowhere"),
        ("info --model nowhere", "there is no model nowhere"),
        ("plot nothing a.json --output a.png", "invalid choice: 'nothing'"),
        ("descend train.csv --model m --start nowhere", "there is no model nowhere"),
        ("recommend --model empty", "empty is not a saved model: it has no manifest.json; pass a"),
        ("recommend --model train.csv", "not a saved model: it is a file, and models are folders"),
        ("recommend --model model --users all --user x", "not allowed with"),
        ("recommend --model model --n 0", "--n must be at least 1"),
        ("recommend --model model --output list.doc", "expected a suffix"),
        ("recommend --model model --output no/list.csv", "cannot write no/list.csv: there is no"),
        ("recommend --model model --output empty.csv", "empty.csv: it is a folder; pass a file"),
        ("evaluate --model model --test train.csv --json no/a.json", "no/a.json: there is no fol"),
        ("evaluate --model model --test train.csv --json /dev/null", "/dev/null: it is a device"),
        ("compare train.csv --csv no/table.csv", "cannot write no/table.csv: there is no folder"),
        ("recommend --model model --users alice", "for the user alice, pass --user alice"),
        ("recommend --model model --person x", "--person x (see mfrank recommend --help)"),
        ("recommend --model model --users bytes.txt", "bytes.txt: line 1: byte 0xff is not UTF-8"),
        ("evaluate --model model --test train.csv --metric speed", "'speed' is not a metric"),
        ("evaluate --model model --test other.csv", "whose user and item are both known"),
        ("compare train.csv --repeats 0", "--repeats must be at least 1"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    model, tmp_path, monkeypatch, capsys, line, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.csv").write_text("user,item\nx,y\n")
    (tmp_path / "header.csv").write_text("user,item\n\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.csv").mkdir()
    (tmp_path / "bytes.txt").write_bytes(b"a\xff\n")
    (tmp_path / "faulty.csv").write_text("user,item\nx,y\nx,\n")
    capsys.readouterr()
    assert main(line.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    *_, last = shown.err.splitlines()
    assert last.startswith("mfrank: error: ")
    assert message in last
    assert "Traceback" not in shown.err


def test_other_failures_are_exit_code_1_and_debug_shows_where(model, monkeypatch, capsys):
    def broken(*_args, **_how):
        raise RuntimeError("out of\nluck")

    monkeypatch.setattr("mfrank.cli.commands.recommend.read_model", broken)
    capsys.readouterr()
    assert main(["recommend", "--model", model]) == 1
    error = capsys.readouterr().err
    assert error == "mfrank: error: RuntimeError: out of luck (--debug shows where)\n"
    for line in (["--debug", "recommend"], ["recommend", "--debug"]):
        assert main([*line, "--model", model]) == 1
        assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_keeps_the_last_complete_epoch(train, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models, "als", ended_after(models.als, 3))
    folder = str(tmp_path / "m")
    assert main(["fit", train, "--model", folder, "--iterations", "9", "--factors", "4"]) == 130
    assert "saved the model after 3 of 9 epochs" in capsys.readouterr().err
    assert len(mfrank.load(folder).store.history) == 3


def test_ctrl_c_before_the_first_epoch_saves_nothing(train, tmp_path, monkeypatch, capsys):
    def interrupted(*_arrays, **_how):
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "als", interrupted)
    assert main(["fit", train, "--model", str(tmp_path / "m")]) == 130
    assert "nothing was saved" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_a_table_from_a_pipe_with_semicolons_and_no_dates_is_fitted(tmp_path, monkeypatch):
    rows = [f"{user};{item};good;01/02/2024" for user in "abcde" for item in range(ord(user), 105)]
    text = "\n".join(["user;item;rating;date", *rows]).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    model = str(tmp_path / "model")
    ignored = ["--no-value", "--no-timestamp"]
    assert main(["fit", "-", "--model", model, *ignored, *FAST]) == 0
    assert mfrank.load(model).store.user_ids.labels.tolist() == list("abcde")
