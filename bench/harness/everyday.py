"""Seconds of everyday calls, by public names only: any checkout of this repository can run them.

``python everyday.py NAME`` prints the seconds of one call, in a process of its own. The folder
MFRANK_EVERYDAY has the text file to read, the interactions and the saved model: ``prepare``.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Call = Callable[[], object]
FOLDER = Path(os.environ.get("MFRANK_EVERYDAY", "."))
PORT = 8765


def fastest(call: Call, times: int, calls: int = 1) -> float:
    """Seconds of a call: the least of so many means over so many calls, after a first one."""
    call()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        taken.append(time.perf_counter() - began)
    return min(taken) / calls


def imported() -> float:
    """Of ``import mfrank; mfrank.ALS``, with numpy and scipy."""
    command = [sys.executable, "-c", "import mfrank; mfrank.ALS"]
    return fastest(lambda: subprocess.run(command, check=True), 5)


def text_read(with_pandas: bool) -> float:
    """Of a text file with 500,000 interactions."""
    if not with_pandas:
        sys.modules["pandas"] = None  # type: ignore[assignment]
    import mfrank

    return fastest(lambda: mfrank.Interactions.from_file(FOLDER / "events.csv"), 3)


def als_epochs(factors: int) -> float:
    """Of five epochs of iALS, with the start."""
    import mfrank

    data = interactions("train")
    model = mfrank.ALS(mfrank.IALS(), factors=factors, iterations=5, random_state=0)
    return fastest(lambda: model.fit(data), 3)


def descent_epoch(loss: str) -> float:
    """Of an epoch of a ranking loss, with the start."""
    import mfrank

    data = interactions("train")
    model = mfrank.Descent(getattr(mfrank, loss)(), factors=64, iterations=1, random_state=0)
    return fastest(lambda: model.fit(data), 2)


def all_lists() -> float:
    """Of 20 items for each user, without those that the user has."""
    model, data = saved(), interactions("train")
    users = np.arange(data.n_users)
    return fastest(lambda: model.recommend(users, data, 20, by_row=True), 3)


def one_list() -> float:
    """Of one user's list."""
    model, data = saved(), interactions("train")
    return fastest(lambda: model.recommend(17, data, 20, by_row=True), 7, 200)


def neighbors() -> float:
    """Of one item's neighbors."""
    model = saved()
    return fastest(lambda: model.similar_items(17, 20, by_row=True), 7, 200)


def evaluation() -> float:
    """Of the metrics of all users with something to find."""
    import mfrank

    model, train, test = saved(), interactions("train"), interactions("test")
    return fastest(lambda: mfrank.evaluate(model, test, train=train), 3)


def load() -> float:
    """Of a saved model, with its first list."""
    import mfrank

    return fastest(lambda: mfrank.load(FOLDER / "model").recommend(17, by_row=True), 7)


def answer(path: str) -> float:
    """Of an answer of ``mfrank serve`` over one connection."""
    command = [sys.executable, "-m", "mfrank", "serve", str(FOLDER / "model")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, "--port", str(PORT)], **quiet) as server:
        try:
            connection = connected()

            def ask() -> None:
                connection.request("GET", path)
                response = connection.getresponse()
                text = response.read()
                assert response.status == 200, text

            return fastest(ask, 5, 300)
        finally:
            server.terminate()


def connected() -> http.client.HTTPConnection:
    """To a server that is starting."""
    for _ in range(300):
        connection = http.client.HTTPConnection("127.0.0.1", PORT)
        try:
            connection.connect()
        except OSError:
            time.sleep(0.1)
        else:
            return connection
    raise SystemExit("the server does not answer")


MEASURED: dict[str, Callable[[], float]] = {
    "import": imported,
    "read text, with pandas": lambda: text_read(True),
    "read text, without pandas": lambda: text_read(False),
    "5 epochs, 64 factors": lambda: als_epochs(64),
    "5 epochs, 256 factors": lambda: als_epochs(256),
    "epoch of BPR": lambda: descent_epoch("BPR"),
    "epoch of SONG": lambda: descent_epoch("SONG"),
    "lists of all users": all_lists,
    "recommend, one user": one_list,
    "similar_items, one item": neighbors,
    "evaluate": evaluation,
    "load, first list": load,
    "GET /recommend": lambda: answer("/recommend/17"),
}


def interactions(part: str) -> Any:
    """Interactions of a part, with their numbers as ids."""
    import mfrank

    with np.load(FOLDER / f"{part}.npz") as arrays:
        users, items = arrays["users"], arrays["items"]
    return mfrank.Interactions.from_arrays(users, items)


def saved() -> Any:
    """The model that both checkouts load."""
    import mfrank

    return mfrank.load(FOLDER / "model")


def prepare() -> float:
    """Save the model and write the text file."""
    import mfrank

    model = mfrank.ALS(mfrank.IALS(), factors=64, iterations=3, random_state=0)
    model.fit(interactions("train")).save(FOLDER / "model")
    random = np.random.default_rng(0)
    users, items = random.integers(60_000, size=500_000), random.zipf(1.3, 500_000) % 20_000
    times = 1_500_000_000 + random.integers(10**8, size=500_000)
    events = zip(users, items, times, strict=True)
    rows = "\n".join(f"u{user},i{item},{when}" for user, item, when in events)
    (FOLDER / "events.csv").write_text(f"user,item,timestamp\n{rows}\n")
    return 0.0


if __name__ == "__main__":
    print((MEASURED | {"prepare": prepare})[sys.argv[1]]())
