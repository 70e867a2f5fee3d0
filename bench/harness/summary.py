"""The tables of README and docs/tuning.md: few numbers, each from the results of its command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from harness.measured_code import changed_since

__all__ = ["Line", "ablation", "one_call", "summary"]

OLD = "†"


def _mark(record: dict[str, Any]) -> str:
    """Marks a number that is older than the code it measures."""
    return OLD if changed_since(record) else ""


class Line(NamedTuple):
    """One question: a column of two rows of a file, mfrank's and implicit's."""

    question: str
    file: str
    column: str
    where: dict[str, Any]
    ours: dict[str, Any]
    theirs: dict[str, Any]
    form: str

    def cells(self, folder: Path) -> tuple[str, str, str, str]:
        """Question, both numbers, and the command that measured them."""
        record = json.loads((folder / f"{self.file}.json").read_text())
        numbers = []
        for who in (self.ours, self.theirs):
            wanted = {**self.where, **who}
            (row,) = (r for r in record["rows"] if wanted.items() <= r.items())
            numbers.append(format(row[self.column], self.form))
        command = record["command"].removeprefix("python bench/")
        return self.question, *numbers, f"`{command}`, {record['date']}{_mark(record)}"


LINES = (
    Line(
        "seconds to the same WRMF objective, 128 factors",
        "time-to-objective-gowalla",
        "seconds_to_objective",
        {"factors": 128},
        {"contender": "mfrank auto"},
        {"contender": "implicit cg"},
        ".1f",
    ),
    Line(
        "NDCG@20, 256 factors, 16 trials per objective: the best of four (iALS); implicit's one",
        "quality-gowalla-256",
        "ndcg@20",
        {"factors": 256},
        {"model": "IALS"},
        {"model": "implicit"},
        ".4f",
    ),
    Line(
        "users per second, exact top 10, 128 factors",
        "topk-cost-gowalla",
        "users_per_second",
        {"factors": 128, "n": 10},
        {"library": "mfrank"},
        {"library": "implicit"},
        ",.0f",
    ),
    Line(
        "requests per second, 16 connections: `mfrank serve`; FastAPI and implicit",
        "serving-gowalla",
        "requests_a_second",
        {"asked": "a user", "connections": 16},
        {"service": "mfrank serve"},
        {"service": "FastAPI and implicit"},
        ",.0f",
    ),
)


def summary(folder: Path) -> str:
    """The lines as a Markdown table."""
    head = ("gowalla: 29,858 users, 40,981 items", "mfrank", "implicit", "script in `bench/`, date")
    lines = [head, ("---",) * 4, *(line.cells(folder) for line in LINES)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _told(cores: int) -> str:
    """``1 core`` or ``2 cores``."""
    return f"{cores} core{'s' * (cores > 1)}"


ONE_CALL = {
    "gowalla": 10,
    "ml-1m": 5,
    "ml-1m-seq": 10,
    "yoochoose-100k": 1,
    "globo-sessions": 1,
    "globo": 2,
    "lastfm-2k": 4,
    "citeulike-a": 6,
    "retail": 10,
    "movietweetings": 3,
}
"""Minutes of each search."""
PEERS = ("implicit ALS", "EASE", "item-kNN", "popularity")


def one_call(folder: Path) -> str:
    """NDCG@20 by data set after some minutes of ``tune``, and of its peers, as a Markdown table.

    The last column is the largest p value of the differences to all peers, also those without a
    column.
    """
    head = ("NDCG@20", "search", "`mfrank.tune`", *PEERS, "best other", "largest p")
    lines = [head, ("---",) * len(head)]
    for data, minutes in ONE_CALL.items():
        record = json.loads((folder / f"tuned-{data}-{minutes}.json").read_text())
        own, *peers = record["rows"]
        columns = dict.fromkeys((*PEERS, "other"), "-")
        best = 0.0
        for row in peers:
            # A model of a part of the items, such as EASE of the most popular ones, says so.
            name, *part = row["model"].split(",", 1)
            told = " of".join((format(row["ndcg@20"], ".4f"), *part))
            if name in PEERS:
                columns[name] = told
            elif row["ndcg@20"] > best:
                best = row["ndcg@20"]
                columns["other"] = f"{told} {name.partition(' ')[2] or name}"
        largest = max(row["p"] for row in peers)
        threads = 1 if "--threads 1" in record["command"] else record["machine"]["cores"]
        cells = (data + _mark(record), f"{minutes} min, {_told(threads)}", f"{own['ndcg@20']:.4f}")
        chance = f"{largest:.1e}" if largest else "< 1e-300"
        lines.append((*cells, *columns.values(), chance))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


ABLATED = "without-developed-0-"
_ERRORS = 1.96
"""Standard errors from the middle of an interval to its ends."""


def ablation(folder: Path) -> str:
    """What is lost of NDCG@20 without each part of a search, in percent, as a Markdown table."""
    records = {
        file.stem.removeprefix(ABLATED).rpartition("-")[0]: json.loads(file.read_text())
        for file in sorted(folder.glob(f"{ABLATED}*.json"))
    }
    values: dict[str, dict[str, str]] = {}
    for data, record in records.items():
        whole, *others = record["rows"]
        all_of_it = whole["ndcg@20"]
        values.setdefault("NDCG@20 of all", {})[data] = f"{all_of_it:.4f}"
        for row in others:
            low, high = map(float, row["interval"].split(" to "))
            error = (high - low) / 2 / _ERRORS
            told = f"{100 * row['ndcg@20_below'] / all_of_it:.1f} ± {100 * error / all_of_it:.1f}"
            values.setdefault(row["model"], {})[data] = told
    marked = [data + _mark(record) for data, record in records.items()]
    lines = [("in percent", *marked), ("---",) * (1 + len(records))]
    lines += [(name, *(of.get(data, "-") for data in records)) for name, of in values.items()]
    commands = dict.fromkeys(f"`{each['command']}`, {each['date']}  " for each in records.values())
    return "\n".join([*commands, "", *(f"| {' | '.join(line)} |" for line in lines)])
