"""One JSON line for each request, without ids of users or items."""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
import sys
import time
from typing import Any

_FORMAT = "%Y-%m-%dT%H:%M:%S"


class RequestLog:
    """Writes lines in a thread, so that a slow disk or a full pipe holds up no request.

    Parameters
    ----------
    path : str
        A file, to which lines are appended, or "-" for the standard output. A file that is renamed,
        as by logrotate, is opened anew.

    Raises
    ------
    OSError
        The file cannot be written.
    """

    def __init__(self, path: str) -> None:
        writing: logging.Handler = (
            logging.StreamHandler(sys.stdout)
            if path == "-"
            else logging.handlers.WatchedFileHandler(path, encoding="utf-8")
        )
        waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._put = waiting.put
        self._listener = logging.handlers.QueueListener(waiting, writing)
        self._writing = writing
        self._is_open = False

    def start(self) -> None:
        """Begin to write."""
        if not self._is_open:
            self._listener.start()
            self._is_open = True

    def stop(self) -> None:
        """Write what waits, and end."""
        if self._is_open:
            self._listener.stop()
            self._is_open = False
        self._writing.close()

    def add(self, **told: Any) -> None:
        """Write a line with the time of now."""
        now = time.time()
        moment = time.strftime(_FORMAT, time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        line = json.dumps({"time": moment, **told}, separators=(",", ":"))
        self._put(logging.makeLogRecord({"msg": line, "levelno": logging.INFO}))
