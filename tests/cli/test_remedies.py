"""What the library says in Python is answered on the command line with its flags."""

from __future__ import annotations

import argparse
import ast
import logging
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import mfrank
from mfrank.cli import remedies
from mfrank.cli.dispatch import _parser
from mfrank.cli.main import main
from mfrank.cli.remedies import Flags
from mfrank.errors import Notice

PACKAGE = Path(mfrank.__file__).parent
PYTHON = re.compile(r"\b[a-z_]+=|\w\(\S|mfrank\.[A-Za-z]|[A-Z]\w+\.[a-z_]|\b[a-z]+_[a-z]+\b")
"""Arguments, calls and names that are not typed in a shell."""
CODE = re.compile(r" \[\w+(\.\w+)+\]$", re.MULTILINE)
"""The code of an error at the end of its line, by which the documentation explains it."""


CELLS = [(user, item) for user in range(9) for item in range(user % 3, 9)]


def words_of(command: str) -> Flags:
    (named,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return Flags(named.choices[command])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pairs = "user,item\na,x\na,y\nb,y\nb,z\nc,x\nc,z\n"
    Path("pairs.csv").write_text(pairs)
    Path("times.csv").write_text("user,item,time\na,x,1\na,y,2\nb,y,1\nb,z,2\nc,x,1\nc,z,2\n")
    Path("dislikes.csv").write_text("user,item,rating\na,x,-1\na,y,3\nb,x,4\n")
    Path("who.csv").write_text("who,what\n1,2\n3,4\n")
    Path("two.csv").write_text("user,item,rating,stars\na,x,1,2\nb,y,3,4\n")
    Path("many.txt").write_text("1;2;3;4;5\n6;7;8;9;10\n")
    assert main(["fit", "pairs.csv", "--model", "m", "--factors", "2", "--iterations", "1"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("descend pairs.csv --model d --start m", "use --factors 2 to match"),
        ("fit dislikes.csv --model d", "the file has 1 negative value"),
        ("fit dislikes.csv --model d", "Drop them with --at-least 0"),
        ("fit who.csv --model d", "name it with --user COLUMN"),
        ("fit two.csv --model d", "name one with --value COLUMN, or none with --no-value"),
        ("fit many.txt --model d", "name the separator with --sep MARK"),
        ("fit pairs.csv --model d --n-threads 99999", "--n-threads must be at most"),
        ("fit pairs.csv --model d --cg-tolerance 2.0", "--cg-tolerance must be None or a"),
        ("fit pairs.csv --model d --cg-steps 0", "--cg-steps must be at least 1"),
        ("fit pairs.csv --model d --gather-dtype float16", "leave --gather-dtype out, or fit"),
        ("descend pairs.csv --model d --loss sml --batches positives", "use --batches users"),
        (
            "descend pairs.csv --model d --shared-negatives --negative-sampling in-batch",
            "--shared-negatives draws one sample per batch, but --negative-sampling in-batch",
        ),
        ("pagerank pairs.csv --model d", "name their column with --timestamp"),
        ("compare pairs.csv --split time", "--split time needs timestamps"),
        ("compare pairs.csv --split time", "or use --split ratio"),
        ("compare pairs.csv --split leave-last", "or use --split leave-out"),
        ("compare pairs.csv --test-fraction 2", "--test-fraction must be a fraction in (0, 1)"),
        ("recommend --model m --user zoe", "user: unknown ids: 'zoe'"),
    ],
)
@pytest.mark.usefixtures("files")
def test_remedies_are_flags(line: str, remedy: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(line.split()) == 2
    told = capsys.readouterr().err
    assert remedy in told
    assert not PYTHON.search(CODE.sub("", told))


STRANGE = {
    "heavy.csv": ["user,item,count", *(f"{u},{i},{90_000 if u == i else 1}" for u, i in CELLS)],
    "rated.csv": ["user,item,rating,time", *(f"{u},{i},{u % 5 + 1},{9 * u + i}" for u, i in CELLS)],
    "day.csv": ["user,item,rating", "1,1,3", "2,3,4"],
    "clicks.csv": ["user,item", "a,x", "a,x", "a,x", "b,x", "b,y", "c,y"],
    "millis.csv": ["user,item,time", "1,2,1569888000000", "2,3,1569888000001"],
    "seconds.csv": ["user,item,time", "1,2,1569888000", "2,3,1569888001"],
    "days.csv": ["user,item,time", "1,2,19000", "2,3,19001"],
    "mind.tsv": ["user\titem", "u\tN1 N2 N3", "v\tN2 N4", "w\tN1 N5 N6 N2"],
    "features.csv": ["item,size", "x,1", "q,2", "r,3"],
    "json.txt": 2 * ['{"user": 1, "item": null}'],
    "matrix.txt": ["%%MatrixMarket matrix", "1 1 1"],
    "libsvm.txt": ["1 3:1 5:2", "1 3:1 5:2"],
    "comment.txt": ["# of us", "1,2", "3,4"],
    "quotes.tsv": ["user\titem", '1\t"a', "2\tb", "3\tc"],
    "a.zip": ["PK"],
    "folder/a.csv": ["user,item"],
    "spark/part-0001.csv": ["1,2"],
}
LINES = """
fit heavy.csv --objective wrmf --model d
fit heavy.csv --objective rg2 --model d
fit rated.csv --model d
fit rated.csv --model d --at-least 3
fit rated.csv --model d --at-least 9
fit pairs.csv --model d --at-least 4
fit clicks.csv --model d
fit mind.tsv --model d
fit millis.csv --model d
fit pairs.csv --model d --item-features features.csv
fit rated.csv --model d --hold-out 2
fit json.txt --model d
fit matrix.txt --model d
fit libsvm.txt --model d
fit comment.txt --model d
fit quotes.tsv --model d
fit a.zip --model d
fit folder --model d
fit spark --model d
fit s3://bucket/a.csv --model d
fit m --model d
fit pairs.csv --model m --cluster nowhere
descend rated.csv --model d --loss bpr
descend rated.csv --model d --start m
pagerank pairs.csv --model d
pagerank rated.csv --model d --untuned
tune rated.csv --model d --trials 1
tune rated.csv --model d --trials 1 --valid pairs.csv
update day.csv --model rated
update day.csv --model rated
update day.csv --model rated --batch a
update rated.csv --model rated --batch a
update day.csv --model rated --decay 0.5
update day.csv --model rated --user-features features.csv
update pairs.csv --model rated
update day.csv --model heavy
update day.csv --model ease
ingest millis.csv seconds.csv --folder f
ingest days.csv seconds.csv --folder f
ingest seconds.csv pairs.csv --folder f
ingest millis.csv --folder f
recommend --model unseen --user 1
recommend --model unseen --user 1 --fallback popularity
recommend --model ease --user 1 --diversity 0.5
recommend-all --model unseen --output lists
evaluate --model unseen --test rated.csv
evaluate --model rated --test rated.csv --metric foo
evaluate --model rated --test pairs.csv
explain --model unseen 1 1
explain --model ease 1 1
remove --model unseen --user 1
info --model folder
"""


@pytest.mark.usefixtures("files")
def test_no_message_names_what_is_not_typed(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings and errors of strange files and models, by every command that reads them."""
    for name, lines in STRANGE.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("\n".join(lines) + "\n")
    data = mfrank.Interactions.from_file("rated.csv")
    few: Any = {"factors": 2, "iterations": 1, "n_threads": 1}
    mfrank.ALS(**few).fit(data).save("rated")
    mfrank.ALS(**few).fit(data).save("unseen", with_seen=False)
    mfrank.ALS(mfrank.WRMF(), **few).fit(data).save("heavy")
    mfrank.EASE().fit(data).save("ease")
    quick = {"fit", "descend", "tune"}
    told = dict[str, str]()
    for line in LINES.strip().splitlines():
        words = line.split()
        words += ["--factors", "2"] if words[0] in quick else []
        words += ["--iterations", "1"] if words[0] in {"fit", "descend"} else []
        capsys.readouterr()
        main(words)
        told[line] = re.sub(r"Interactions\(.*?\)", "", CODE.sub("", capsys.readouterr().err))
    assert {line: err for line, err in told.items() if PYTHON.search(err)} == {}
    silent = [line for line, err in told.items() if not err]
    assert silent == []


@pytest.mark.parametrize(
    ("command", "python", "shell"),
    [
        ("fit", "a fit of 9 factors; lower `factors`", "a fit of 9 factors; lower --factors"),
        ("descend", "set `positives` and `negatives`", "set --positives and --negatives"),
        ("descend", "`negatives=None` uses all items", "--negatives none uses all items"),
        ("descend", "use `item_biases=False`", "use --no-item-biases"),
        ("fit", "with `ids='text'` or `sep=';'`", "with --ids text or --sep ';'"),
        ("fit", "name it with `timestamp=`", "name it with --timestamp COLUMN"),
        ("fit", "use `set_params(factors=3)`", "use --factors 3"),
        ("fit", "lower factors, users=3, a_b and 'user_items'", None),
        ("fit", "ids like '`factors`' and \"`factors=3`\"", None),
        ("info", "use `set_params(factors=3)`", "use factors=3"),
        ("fit", "pass `data.at_least(4)`, or not", "pass --at-least 4, or not"),
        ("recommend", "`steer.boosts`: unknown ids", "--boost: unknown ids"),
        ("fit", "read it again; in Python, by `mfrank.load`", "read it again"),
        ("evaluate", "such as `mfrank.NDCG @ 10`", "such as NDCG@10"),
    ],
)
def test_only_marked_arguments_become_flags(command: str, python: str, shell: str | None) -> None:
    assert words_of(command)(python) == (python if shell is None else shell)


def test_warnings_and_notices_are_told_in_flags() -> None:
    text = "lower `factors` to 8"
    record = logging.LogRecord("mfrank", logging.WARNING, "", 0, Notice(text), (), None)
    for event in (RuntimeWarning(Notice(text)), record, mfrank.InputValueError(text, "or not")):
        assert words_of("fit")(remedies.message_of(event)).startswith("lower --factors to 8")
    plain = logging.LogRecord("mfrank", logging.WARNING, "", 0, "%d rows", (3,), None)
    assert [remedies.message_of(one) for one in (plain, OSError("gone"))] == ["3 rows", "gone"]


AS_ROWS = "write it as .csv, one interaction a row"


@pytest.mark.parametrize(
    ("command", "python", "shell"),
    [
        *(
            ("fit", f"pass `Interactions.{reader}` reads", AS_ROWS)
            for reader in ("from_sparse` what `scipy.io.mmread",)
        ),
        (
            "fit",
            "pass a pattern; `mfrank.movielens` reads MovieLens as distributed",
            "pass a pattern",
        ),
        (
            "fit",
            "`mfrank.movielens` reads MovieLens as distributed",
            "unpack it and pass its ratings",
        ),
        (
            "fit",
            "download it first, or read it with pandas or pyarrow and pass the table to "
            "`Interactions.from_frame`",
            "download it first",
        ),
        (
            "pagerank",
            "pass them to `Interactions.from_arrays`",
            "name their column with --timestamp",
        ),
        ("pagerank", "pass labels, or `method=None`", "use --untuned"),
        (
            "info",
            "fit again, or load the factors alone with `mfrank.FactorStore.load`",
            "fit again",
        ),
        ("update", "fit to `mfrank.log_weight(data)`, or drop them", "drop them"),
        (
            "recommend",
            "import it first; in the shell, by --import shop; in Python, `classes=[Own]` will do",
            "pass --import shop",
        ),
        (
            "update",
            "load it again and repeat the change, or pass `overwrite=True`",
            "run the command again",
        ),
        (
            "recommend",
            "fit it anew, save it `with_seen=True`, or pass `user_items=Interactions`",
            "fit it anew",
        ),
        (
            "remove",
            "remove from the model that was fitted, or from one saved with `with_seen=True`",
            "fit anew without them",
        ),
        (
            "evaluate",
            "Pass them, or `filter_already_liked_items=False` to rank every item",
            "Pass --train FILE, or --include-seen to rank every item",
        ),
        (
            "recommend",
            "`user_items` is needed to filter seen items, because this model has no interactions: "
            "pass it, or `filter_already_liked_items=False`",
            "this model was saved without its interactions, which lists leave out: use "
            "--include-seen",
        ),
        ("fit", "`dataclasses.replace(data, seen_only=None)` forgets", "--no-keep-seen forgets"),
        ("fit", "`dataclasses.replace(data, timestamps=None)`", "--no-timestamp"),
        (
            "fit",
            "`dataclasses.replace(part, others=None)`",
            "dataclasses.replace(part, others=None)",
        ),
        (
            "descend",
            "`mfrank.ALS(mfrank.WRMF(alpha=...))` reads them",
            "mfrank fit --objective wrmf --alpha FLOAT reads them",
        ),
        ("compare", "use `by_time` or `by_ratio`", "use --split time or --split ratio"),
        ("compare", "use `leave_last`", "use --split leave-last"),
        ("compare", "use `leave_k_out`", "use --split leave-out"),
        ("fit", "lower `threshold`", "lower --at-least"),
        ("fit", "pass `at_least(threshold)`", "pass --at-least VALUE"),
        ("fit", "call `partial_fit(batch_id)`", "call mfrank update batch_id"),
        ("fit", "use `objective=...`", "use --objective NAME"),
        ("recommend", "`N` and `userid`", "--n and --user"),
        ("recommend", "`user_items`", "the file"),
        ("serve", "`N`, `userid`, `itemid`", "n, user, item"),
        ("serve", "`user_items`, `data`, `results`", "the file, the file, the file"),
        ("fit", "`weights={'view': 1, 'buy': None}`", "--weights view=1,buy=none"),
    ],
)
def test_a_shell_does_otherwise(command: str, python: str, shell: str) -> None:
    assert words_of(command)(python) == shell


@pytest.mark.parametrize(
    ("command", "estimator"),
    [("fit", mfrank.ALS), ("descend", mfrank.Descent), ("pagerank", mfrank.SupervisedPageRank)],
)
def test_every_option_is_told_as_its_flag(command: str, estimator: type) -> None:
    say = words_of(command)
    for option in fields(estimator):
        flag = f"--{option.name.replace('_', '-')}"
        if (option.name, command) in {("loss", "pagerank"), ("feature_regularization", "fit")}:
            continue  # there is only one loss; there are no features: no flags
        assert say(f"`{option.name}` must be at least 1") == f"{flag} must be at least 1"
        assert say(f"use `{option.name}=3` instead").startswith((f"use {flag} 3", f"use {flag} i"))


def spoken() -> str:
    """All texts in the library's sources, one after another."""
    texts = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if "cli" not in path.relative_to(PACKAGE).parts:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(args=[ast.Constant(value=str(a)), ast.Constant(value=str(b))]):
                        texts.append(str(mfrank.InputValueError(a, b).marked))
                    case ast.Constant(value=str(text)):
                        texts.append(text)
    return "\n".join(texts)


def test_the_tables_have_nothing_that_the_library_does_not_say() -> None:
    """A message that is changed in the library must be changed here, too."""
    library = spoken()
    parts = {part for phrase in remedies._PHRASES for part in re.split("`.*?`|items|: |; ", phrase)}
    assert {part for part in parts if part not in library} == set()
    assert [one for one in remedies._EXPRESSIONS if one.split("=")[0] not in library] == []
