"""Connections that are limited in number, size and time, which those of uvicorn are not.

Without these limits, a client that sends a header byte by byte, or never reads its answer, holds a
connection forever, and one that sends a header without an end fills the memory.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mfrank.serving.answers import dump
from mfrank.serving.limits import Limits

_STALLED = 10.0
"""Seconds after which a client that reads no byte of its answer is cut off."""
_REST = 5.0
"""Seconds in which the rest of a body that nobody reads may still arrive."""


class LimitedConnection(HttpToolsProtocol):
    """A connection of uvicorn with :class:`Limits`."""

    def __init__(self, *args: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._in_headers, self._n_bytes = True, 0
        self._is_behind = False
        """Whether the headers began behind another request, in bytes that are not counted."""
        self._late: asyncio.TimerHandle | None = None
        self._refusal = 400

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request, if there is room for one more connection."""
        super().connection_made(transport)  # type: ignore[arg-type]
        if len(self.connections) > self._limits.max_connections:
            self._refuse(503, "too many connections are open; try again later")
        else:
            self._wait(self._limits.max_header_seconds)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of headers as they come."""
        if self._in_headers:
            self._n_bytes += len(data)
        super().data_received(data)
        if self._has_begun and not self.transport.is_closing():
            if self._n_bytes > self._limits.max_headers:
                self._refuse(431, self._too_long)
            elif self._late is None:
                self._wait(self._limits.max_header_seconds)

    def on_message_begin(self) -> None:
        """Note whether the bytes of this request have been counted."""
        super().on_message_begin()
        self._is_behind = not self._n_bytes

    def on_headers_complete(self) -> None:
        """Serve the request, unless its headers are too long."""
        self._in_headers = False
        self._stop_waiting()
        # Of the bytes that were counted, some may be the body's.
        if self._n_bytes > self._limits.max_headers or self._is_behind:
            lengths = (len(name) + len(value) + 4 for name, value in self.headers)
            if len(self.url) + sum(lengths) > self._limits.max_headers:
                self._refusal = 431
                raise ValueError(self._too_long)  # ends the parser, and comes back as a refusal
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Be ready for the headers of the next request."""
        super().on_message_complete()
        self._in_headers, self._n_bytes, self._is_behind = True, 0, False
        self._stop_waiting()
        if self.cycle.response_complete and not self.pipeline:  # the answer did not wait for it
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Wait, but not forever, for the rest of the body and for the client to read."""
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and self.cycle.more_body:
            self._wait(_REST)
        self._watch_reading(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End the connection, or let it end with the request that has begun."""
        super().shutdown()
        self._watch_reading(None)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, or has too long headers."""
        self._refuse(self._refusal, self._too_long if self._refusal == 431 else msg)

    @property
    def _has_begun(self) -> bool:
        """Whether a part of a request's headers has arrived, but not all."""
        return self._in_headers and (self._n_bytes > 0 or self._is_behind)

    @property
    def _too_long(self) -> str:
        return f"the URL and headers must have at most {self._limits.max_headers:,} bytes"

    def _wait(self, seconds: float) -> None:
        self._late = self.loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        """Close a connection on which a request does not arrive."""
        self._late = None
        if self._has_begun:
            seconds = self._limits.max_header_seconds
            self._refuse(408, f"the headers did not arrive within {seconds:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer in the place of the application, and close."""
        self._stop_waiting()
        content = dump({"error": sentence})
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(content) + content)
        self.transport.close()
        self._watch_reading(None)

    def _watch_reading(self, before: int | None) -> None:
        """Cut the connection if nothing of what was left to read ``before`` has been read."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left >= before:
            self.transport.abort()
        elif left:
            self.loop.call_later(_STALLED, self._watch_reading, left)
