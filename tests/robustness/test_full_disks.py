"""A disk without room: the error names the folder, what was there stays, and the call goes on.

Files that cannot grow stand for the full disk; they need no rights.
"""

from __future__ import annotations

import sys

import pytest
from children import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no such limits")

WORLD = """
import hashlib, os, re, resource, shutil, signal, sys, warnings
warnings.simplefilter("ignore")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write beyond the limit is an OSError
from pathlib import Path
import numpy as np
import mfrank
from mfrank.files import journal
from mfrank.retrieval import all_lists
journal._SECONDS = journal._SHARE = 0
all_lists._PLACES_AT_ONCE = 1000

folder = Path({folder!r})
data = mfrank.synthetic(600, 400, 15_000, random_state=0)
files = [folder / f"part-{{n}}.csv" for n in range(3)]
for n, file in enumerate(files):
    some = slice(n, None, 3)
    rows = zip(data.entry_users[some], data.user_items.indices[some], strict=True)
    file.write_text("user,item\\n" + "".join(f"{{u}},{{i}}\\n" for u, i in rows))
fitted = mfrank.ALS(factors=16, iterations=2, random_state=0).fit(data)

def als(place):
    mfrank.ALS(factors=16, iterations=2, random_state=0).fit(data, checkpoint=place)

def lists(place):
    fitted.recommend_all(place, format="csv")

def split(place):
    mfrank.by_ratio(data, folder=place, random_state=0)

def contents(place):
    found = {{}}
    for path in place.rglob("*"):
        if path.suffix in (".npy", ".csv"):
            name = re.sub("data-[0-9a-f]+", "data", str(path.relative_to(place)))
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found

def strays(place):
    return [path for path in place.parent.iterdir() if path.name.startswith(".")]

def limited(size, work, place):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1))
    try:
        work(place)
    except OSError as error:
        return error
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))

def check(work, resumes=False):
    work(folder / "whole" / "x")
    wanted = contents(folder / "whole" / "x")
    for size in (0, 5_000, 30_000):
        place = folder / f"{{size}}" / "x"
        error = limited(size, work, place)
        if error is None:
            assert size, work
            continue
        assert str(place) in str(error), error
        assert resumes or not strays(place), strays(place)
        work(place)
        assert contents(place) == wanted
        assert not strays(place)
        if not resumes:  # what was there is replaced as a whole, or not
            error = limited(0, work, place)
            assert error is not None
            assert contents(place) == wanted, error
        print(size)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
"""

WORKS = {
    "to_folder": "check(data.to_folder)",
    "ingest": "check(lambda place: mfrank.Interactions.ingest(files, place), resumes=True)",
    "split": "check(split)",
    "save": "check(fitted.save)",
    "checkpoint": "check(als, resumes=True)",
    "recommend_all": "check(lists, resumes=True)",
}


@pytest.mark.parametrize("work", WORKS)
def test_the_error_names_the_folder_and_the_call_goes_on(tmp_path: object, work: str) -> None:
    ended = run(WORLD.format(folder=str(tmp_path)) + WORKS[work])
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.split()) > 1
