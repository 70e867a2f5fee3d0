"""Databases of other people's make, to read from: SQLite, DuckDB and a real PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _programs() -> Path | None:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Yield the URL of a server on a socket in a new folder, for one who may do all there."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    folder.mkdir()
    as_user: list[str] = []
    if os.getuid() == 0:  # whom postgres refuses
        if (
            shutil.which("runuser") is None
            or subprocess.run(["id", "postgres"], capture_output=True).returncode
        ):
            pytest.skip("root has no user postgres to run it as")
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")
    data, options = folder / "data", f"-k {folder} -c listen_addresses='' -c fsync=off"

    def run(name: str, *more: str) -> None:
        line = [*as_user, str(programs / name), *more]
        subprocess.run(line, check=True, capture_output=True, cwd=folder, timeout=60)

    run("initdb", "-D", str(data), "-U", "mfrank", "-A", "trust", "--no-sync")
    run("pg_ctl", "-D", str(data), "-w", "-o", options, "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql+psycopg://mfrank:s3cret@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
