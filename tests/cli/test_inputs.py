"""What commands read: flags are the arguments of ``Interactions.from_file``, ids the model's."""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mfrank
from mfrank.cli.inputs import read_left_out, read_like, read_spelled_like, read_table
from mfrank.cli.main import main
from mfrank.cli.model_folders import check_takes_model, check_writable
from mfrank.cli.table_flags import add_leave_out_flag, add_table_flags, kind_weights
from mfrank.cli.typed_ids import ids_in, ids_of
from mfrank.data import Ids
from tests.support.errors import refuses

TABLE = "user,item,rating,time\nann,tea,5,3\nann,pie,2,1\nbob,tea,3,2\n"


def flags(line: str = "", **options: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_table_flags(parser, **options)
    return parser.parse_args(line.split())


def refused(line: str) -> None:
    with pytest.raises(SystemExit):
        flags(line)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "plays.csv"
    path.write_text(TABLE)
    return str(path)


def cells(data: mfrank.Interactions) -> set[tuple[str, str, float]]:
    users, items = data.user_ids.raw(data.entry_users), data.item_ids.raw(data.user_items.indices)
    return set(zip(users, items, data.user_items.data.tolist(), strict=True))


def seen_only(data: mfrank.Interactions) -> int:
    return 0 if data.seen_only is None else int(data.seen_only.nnz)


def arguments(line: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a line of flags gives to ``Interactions.from_file``."""
    given: dict[str, Any] = {}
    read = mfrank.synthetic(4, 4, 8, random_state=0)
    monkeypatch.setattr(
        mfrank.Interactions, "from_file", lambda path, **more: given.update(more) or read
    )
    assert read_table(flags(line), "no such file") is read
    return given


def test_without_flags_a_file_is_read_as_python_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = inspect.signature(mfrank.Interactions.from_file).parameters
    for name, value in arguments("", monkeypatch).items():
        assert value == parameters[name].default, name


def test_every_flag_is_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "--user u --item 2 --value v --timestamp t --timestamp-unit ms --sep ; --quote none"
    more = " --header --columns a,b,-,d --ids text --duplicates last"
    more += " --event e --weights view=1,cart=2.5,like=none --cap 9 --half-life 2"
    more += " --encoding cp1252 --comment # --lines rows --where kind=a --where kind=b"
    assert arguments(line + more, monkeypatch) == {
        "user": "u",
        "item": "2",
        "value": "v",
        "timestamp": "t",
        "timestamp_unit": "ms",
        "event": "e",
        "weights": {"view": 1.0, "cart": 2.5, "like": None},
        "sep": ";",
        "quote": None,
        "header": True,
        "columns": ["a", "b", "-", "d"],
        "ids": "text",
        "duplicates": "last",
        "encoding": "cp1252",
        "comment": "#",
        "lines": "rows",
        "cap": 9.0,
        "half_life": 2 * 86_400,
        "where": {"kind": ["a", "b"]},
    }
    line = "--no-value --no-timestamp --no-header --quote ' --columns a,b"
    given = arguments(line, monkeypatch)
    names = ("value", "timestamp", "header", "quote", "columns")
    assert [given[name] for name in names] == [False, False, False, "'", ["a", "b"]]


@pytest.mark.parametrize(
    "line",
    [
        "--timestamp-unit years",
        "--ids numbers",
        "--duplicates most",
        "--at-least much",
        "--no-user",
        "--weights view",
        "--weights view=much",
        "--weights view=1,buy=none,view=2",
        "--weights view=1,",
        *(f"--where kind{operator}view" for operator in ("!=", "==", ">=", "<=", "<>", ">", "~=")),
    ],
)
def test_other_values_are_refused(line: str) -> None:
    refused(line)


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("view=1, buy = 5", {"view": 1.0, "buy": 5.0}),
        ("view=1,add, to cart=3,a=b=-2", {"view": 1.0, "add, to cart": 3.0, "a=b": -2.0}),
        ("add, to, cart=none", {"add, to, cart": None}),
        ("kauf, später=1e1", {"kauf, später": 10.0}),
    ],
)
def test_kinds_of_events_may_have_commas(text: str, weights: dict[str, float | None]) -> None:
    """As the error of a kind without a weight writes them."""
    assert kind_weights(text) == weights
    for wrong in ("", "=", "=1", ",", f"{text},", f"{text},buy", f"{text},=1"):
        with pytest.raises(argparse.ArgumentTypeError):
            kind_weights(wrong)


def test_an_ingest_has_no_threshold() -> None:
    assert "at_least" not in flags(at_least=False)
    with pytest.raises(SystemExit):
        flags("--at-least 4", at_least=False)


def test_what_is_below_at_least_is_seen_unless_told_otherwise(file: str) -> None:
    kept = read_table(flags("--at-least 3"), file)
    assert cells(kept) == {("ann", "tea", 5), ("bob", "tea", 3)}
    assert (kept.threshold, seen_only(kept)) == (3, 1)
    assert seen_only(read_table(flags("--at-least 3 --no-keep-seen"), file)) == 0


def cut(threshold: float | None) -> Any:
    """What knows the threshold of a fit, and that all rows were read."""
    return SimpleNamespace(threshold=threshold, where={})


def test_the_threshold_of_a_fit_is_that_of_other_files_and_told(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = read_table(flags(), file, cut(3.0))
    assert (cells(kept), kept.threshold) == ({("ann", "tea", 5), ("bob", "tea", 3)}, 3)
    assert seen_only(kept) == 1
    told = capsys.readouterr()
    assert "1 of 3 interactions below 3, the --at-least of the fit, are only seen" in told.err
    assert not told.out
    assert seen_only(read_table(flags("--no-keep-seen"), file, cut(3.0))) == 0
    capsys.readouterr()
    for line, threshold in (("--at-least 0", 3.0), ("", 2.0), ("", None)):
        assert len(cells(read_table(flags(line), file, cut(threshold)))) == 3
    assert not capsys.readouterr().err


def test_values_of_1_beside_a_fit_of_high_ratings_are_marks_and_that_is_told(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text("user,item,rating\nann,tea,1\nann,pie,1\nbob,tea,0\n")
    marks = {("ann", "tea", 1), ("ann", "pie", 1)}
    kept = read_table(flags(), file, cut(3.0))
    assert (cells(kept), kept.threshold, seen_only(kept)) == (marks, 1, 1)
    told = capsys.readouterr()
    assert "if they are ratings, --at-least 3 cuts them like those of the fit" in told.err
    assert not told.out
    kept = read_table(flags("--no-keep-seen"), file, cut(3.0))
    assert (cells(kept), kept.threshold, seen_only(kept)) == (marks, 1, 0)


def test_no_keep_seen_needs_something_seen(file: str) -> None:
    with refuses(ValueError, "at_least"):
        read_table(flags("--no-keep-seen"), file)
    assert len(cells(read_table(flags("--no-keep-seen"), file, cut(1.0)))) == 3
    Path(file).write_text(TABLE + "bob,pie,0,4\n")
    assert seen_only(read_table(flags(), file)) == 1
    assert seen_only(read_table(flags("--no-keep-seen"), file)) == 0


def fitted(users: list[str], items: list[str], threshold: float | None = None) -> Any:
    ids = (Ids.factorize(np.array(labels))[0] for labels in (users, items))
    return SimpleNamespace(
        **dict(zip(("user_ids", "item_ids"), ids, strict=True)), threshold=threshold, where={}
    )


def test_a_file_beside_a_model_has_its_rows_and_counts_what_is_unknown(file: str) -> None:
    model = fitted(["ann", "bob", "cem"], ["pie", "tea", "zoo"])
    data, unknown = read_like(flags(), file, model)
    assert (data.user_items.shape, unknown) == ((3, 3), 0)
    data, unknown = read_like(flags(), file, fitted(["cem", "ann"], ["tea"]))
    assert (cells(data), unknown) == ({("ann", "tea", 5)}, 2)
    with pytest.raises(ValueError, match=r"no interaction .* both known.*'ann'.*'cem'"):
        read_like(flags(), file, fitted(["cem"], ["tea"]))
    with pytest.raises(ValueError, match="has no interactions of at least 6"):
        read_like(flags(), file, fitted(["ann"], ["tea"], 6.0))
    Path(file).write_text("user,item,rating\nann,tea,0\n")
    with pytest.raises(ValueError, match=r"has no interactions\n"):
        read_like(flags(), file, model)


def test_new_ids_of_an_update_are_spelled_as_the_models(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("user,item\n1,tea\n20,pie\n")
    data = read_spelled_like(flags(), str(tmp_path / "new.csv"), fitted(["1", "x"], ["tea", "jam"]))
    assert cells(data) == {("1", "tea", 1), ("20", "pie", 1)}
    assert data.user_ids.labels.tolist() == ["1", "20"]


@pytest.mark.parametrize("flag", ["--no-value", "--user user", "--ids text", "--header"])
def test_a_folder_is_read_as_it_is_and_that_is_told(
    flag: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(mfrank.Interactions.from_file(file).to_folder(tmp_path / "plays"))
    read = read_table(flags(flag), folder)
    assert cells(read) == {("ann", "tea", 5), ("ann", "pie", 2), ("bob", "tea", 3)}
    told = capsys.readouterr()
    assert f"{folder}: a folder of mfrank ingest is read as it is" in told.err
    assert told.err.endswith(f"without {flag.split()[0]}\n")
    assert not told.out
    read_table(flags("--at-least 3 --no-keep-seen"), folder)
    assert "as it is" not in capsys.readouterr().err


EVENTS = "user,item,event\nann,tea,view\nann,pie,buy\nbob,tea,buy\nbob,pie,back\n"
WEIGHTS = ["--weights", "view=1,buy=5,back=none"]


def left_out(path: str, *line: str, ids: tuple[list[str], list[str]] = ([], [])) -> Any:
    """What the lists of a model of a file leave out, by a line of flags."""
    parser = argparse.ArgumentParser()
    add_table_flags(parser)
    add_leave_out_flag(parser)
    args = parser.parse_args(line)
    args.interactions = path
    return read_left_out(args, fitted(*ids, 3.0))


def pairs(data: mfrank.Interactions) -> set[tuple[str, str]]:
    """Of all that is seen, whatever its value."""
    rows, columns = data.seen.nonzero() if data.seen_only is None else data.seen.tocoo().coords
    return set(zip(data.user_ids.raw(rows), data.item_ids.raw(columns), strict=True))


@pytest.mark.parametrize("more", ["", "--at-least 3", "--at-least 3 --no-keep-seen"])
def test_events_of_some_kinds_are_left_out_whatever_they_count(more: str, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text(EVENTS)
    line = [*WEIGHTS, *more.split()]
    assert left_out(str(file), *line) is None
    bought = {("ann", "pie"), ("bob", "tea")}
    assert pairs(left_out(str(file), *line, "--leave-out-events", "buy")) == bought
    both = left_out(str(file), *line, "--leave-out-events", "buy, back")
    assert pairs(both) == {*bought, ("bob", "pie")}


@pytest.mark.parametrize("more", ["", "--at-least 3", "--at-least 3 --no-keep-seen"])
def test_a_file_is_left_out_whatever_its_values(
    more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: Any
) -> None:
    file = tmp_path / "bought.csv"
    file.write_text("user,item,rating\n1,tea,5\n1,pie,0.5\n2,pie,0\n")
    line = [*WEIGHTS, "--event", "event", *more.split(), "--leave-out", str(file)]
    caplog.set_level("INFO", "mfrank")
    found = left_out("no such file", *line, ids=(["1", "2"], ["pie", "tea"]))
    assert pairs(found) == {("1", "tea"), ("1", "pie"), ("2", "pie")}
    assert " below " not in caplog.text  # nothing is told of a threshold
    assert not capsys.readouterr().err


def test_events_to_leave_out_are_those_of_a_file_with_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "events.csv"
    file.write_text(EVENTS)
    for flags_ in (WEIGHTS, []):
        with pytest.raises(ValueError, match="--weights has no kind of event 'sell'"):
            left_out(str(file), *flags_, "--leave-out-events", "sell,buy")
    weights = {"view": 1, "buy": 5, "back": None}
    mfrank.Interactions.ingest([file], tmp_path / "folder", weights=weights)
    for path, why in (("-", "read only once"), (str(tmp_path / "folder"), "no kinds of events")):
        with refuses(ValueError, None, place=path, remedy="use --leave-out FILE") as error:
            left_out(path, *WEIGHTS, "--leave-out-events", "buy")
        assert f"--leave-out-events: {path}" in str(error.value)
        assert why in str(error.value)
    with pytest.raises(SystemExit):
        left_out(str(file), *WEIGHTS, "--leave-out-events", "buy", "--leave-out", str(file))
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    ["explain ann tea --model m --at-least 4", "explore m --sep ;", "explore m --no-keep-seen"],
)
def test_flags_about_no_file_are_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert re.search("is about the file of --(train|data), which is", capsys.readouterr().err)


def test_ids_are_lines_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_bytes(b"ann\r\n bob \n\ncem")
    assert ids_in(str(tmp_path / "users.txt")) == ["ann", " bob ", "cem"]
    (tmp_path / "none.txt").write_bytes(b"\xff\xfe\x00a\x81")
    with refuses(ValueError, place="none.txt", remedy="--users takes a text file"):
        ids_in(str(tmp_path / "none.txt"))
    with pytest.raises(FileNotFoundError, match=r"for the user .*nobody, pass --user"):
        ids_in(str(tmp_path / "nobody"))


@pytest.mark.parametrize(
    ("flag", "header"),
    [
        *(("--users", header) for header in ("user_id", "userId", '"user"', "ID", "Users")),
        *(("--items", header) for header in ("item_id", "Item", "id")),
        ("--filter-items", "itemId"),
    ],
)
def test_a_header_above_ids_is_told_and_no_id(
    flag: str, header: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ids.csv").write_text(f"{header}\nann\nbob\n")
    assert ids_in(str(tmp_path / "ids.csv"), flag) == ["ann", "bob"]
    assert f"{header}, is taken as a header" in capsys.readouterr().err
    for first in ("ann", "user-1", "idea", "item_ids_of_ann", "s"):
        (tmp_path / "ids.csv").write_text(f"{first}\nbob\n")
        assert ids_in(str(tmp_path / "ids.csv"), flag) == [first, "bob"]
    (tmp_path / "ids.csv").write_text(f"{header}\n")
    assert ids_in(str(tmp_path / "ids.csv"), flag) == [header]
    assert not capsys.readouterr().err


def test_a_file_without_ids_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It makes a table without rows, or excludes nothing: an upstream query may have failed."""
    (tmp_path / "ids.txt").write_text("\n")
    assert ids_in(str(tmp_path / "ids.txt")) == []
    assert "ids.txt has no ids" in capsys.readouterr().err


def test_ids_that_are_known_once_they_are_written_otherwise_are_not_left_out() -> None:
    known = Ids.factorize(np.array(["ann", "bob"]))[0]
    for wrong in ("ann,bob", '"ann"', " ann", "ann, cem"):
        with refuses(mfrank.UnknownIdError, remedy="by itself|as the model has them"):
            ids_of(["bob", wrong], known, "user", skip_unknown=True)


def test_unknown_ids_are_an_error_or_left_out_and_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = Ids.factorize(np.array(["ann", "bob"]))[0]
    with refuses(ValueError, remedy="leave them out"):
        ids_of(["ann", "cem"], known, "user", skip_unknown=False)
    assert ids_of(["ann", "bob"], known, "user", skip_unknown=True).tolist() == ["ann", "bob"]
    assert not capsys.readouterr().err
    assert ids_of(["ann", "cem", "bob"], known, "user", skip_unknown=True).tolist() == [
        "ann",
        "bob",
    ]
    assert "1 unknown user left out" in capsys.readouterr().err


def test_where_nothing_can_be_written_is_told_before(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refuses(ValueError, remedy="pass a file"):
        check_writable(file, str(tmp_path))
    with refuses(ValueError, place="lists.csv", remedy="make it first"):
        check_writable(str(tmp_path / "nowhere" / "lists.csv"))
    with refuses(ValueError, place="model", remedy="pass another folder"):
        check_takes_model(f"{file}/model")
    check_writable(None, file, str(tmp_path / "new.csv"))
    check_takes_model(str(tmp_path / "some" / "model"))
    monkeypatch.setattr("mfrank.cli.model_folders.os.access", lambda path, mode: False)
    with refuses(ValueError, place="new.csv", remedy="pass another folder"):
        check_writable(str(tmp_path / "new.csv"))
    with refuses(ValueError, place="model", remedy="pass another folder"):
        check_takes_model(str(tmp_path / "some" / "model"))
