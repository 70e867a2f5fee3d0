"""Results as Markdown, so that no number is typed by hand.

Prints a table for each file of results/, under the command, the date and the machine; or fills
pages: what stands between ``<!-- PATTERN -->`` and ``<!-- / -->`` becomes one table of all files of
that pattern, such as ``epoch-cost-gowalla-*``; ``<!-- PATTERN: one, other -->`` picks columns. What
stands between ``<!-- summary -->``, ``<!-- one-call -->`` or ``<!-- ablation -->`` and
``<!-- / -->`` becomes a table of ``harness/summary.py``.

    python bench/tables.py
    python bench/tables.py --write README.md bench/pages/*.md docs/*.md
    python bench/tables.py --old  # the results that are older than the code that they measure
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from harness.measured_code import changed_since
from harness.records import RESULTS
from harness.summary import ablation, one_call, summary


def table(files: list[Path], chosen: list[str] | None = None) -> str:
    """The rows of the files as one Markdown table under their origin; all columns or some."""
    records = [json.loads(file.read_text()) for file in files]
    origins = dict.fromkeys(map(origin, records))
    rows = [row for record in records for row in record["rows"]]
    columns = chosen or list(dict.fromkeys(key for row in rows for key in row))
    lines = [
        [column.replace("_", " ") for column in columns],
        ["---"] * len(columns),
        *([cell(row.get(column)) for column in columns] for row in rows),
    ]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n".join(origins) + f"\n\n{body}"


def origin(record: dict[str, Any]) -> str:
    """Command, date and processor of a record, and which of the code it measured has changed.

    The file has the versions of all libraries too.
    """
    machine = record["machine"]
    processor = f"{machine['processor']}, {machine['cores']} cores"
    changed = changed_since(record)
    since = f"; changed since: {', '.join(changed)}" if changed else ""
    return f"`{record['command']}`, {record['date']}, {processor}{since}  "


def cell(value: Any) -> str:
    """A value in four digits, or as it is."""
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
        case dict():
            return ", ".join(f"{key} {cell(part)}" for key, part in value.items())
        case _:
            return str(value)


def found(folder: Path, pattern: str) -> list[Path]:
    """Files of that pattern, 64 factors before 128."""
    return sorted(folder.glob(f"{pattern}.json"), key=lambda file: (len(file.stem), file.stem))


def filled(page: str, folder: Path) -> str:
    """The page with a table between each pair of marks that there are results for."""

    def fill(mark: re.Match[str]) -> str:
        own = {"summary": summary, "one-call": one_call, "ablation": ablation}
        if made := own.get(mark["pattern"]):
            return f"{mark['open']}\n\n{made(folder)}\n\n<!-- / -->"
        files = found(folder, mark["pattern"])
        chosen = (
            [column.strip() for column in mark["columns"].split(",")] if mark["columns"] else None
        )
        return f"{mark['open']}\n{table(files, chosen)}\n\n<!-- / -->" if files else mark[0]

    marks = r"(?P<open><!-- (?P<pattern>[\w*-]+)(?:: (?P<columns>[^>]+?))? -->).*?<!-- / -->"
    return re.sub(marks, fill, page, flags=re.DOTALL)


def _old(folder: Path) -> int:
    """Print the results that are older than their code; 1 if there are any."""
    records = {file.stem: json.loads(file.read_text()) for file in found(folder, "*")}
    changed = {name: changed_since(record) for name, record in records.items()}
    for name, folders in changed.items():
        if folders:
            print(f"{name}: {', '.join(folders)}")
    return int(any(changed.values()))


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path, nargs="+", default=[], help="pages to fill")
    parser.add_argument(
        "--old", action="store_true", help="list results whose code has changed since, and exit 1"
    )
    args = parser.parse_args()

    if args.old:
        sys.exit(_old(args.folder))
    for page in args.write:
        page.write_text(filled(page.read_text(), args.folder))
    if args.write:
        return
    for file in found(args.folder, "*"):
        print(f"### {file.stem}\n\n{table([file])}\n")


if __name__ == "__main__":
    main()
