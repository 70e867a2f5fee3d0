"""Who may ask: keys in a file, what each may do, and how often.

A key is 256 random bits, so that its plain SHA-256 is safe to store: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.responses import Response
from starlette.types import Scope

from mfrank.arrays import shown
from mfrank.errors import InputValueError
from mfrank.serving.refusals import refusal

_LOG = logging.getLogger("mfrank.serving")

SCOPES = ("read", "write", "operate")
"""What a key may do: read lists and scores; send data; read ``/metrics``, choose a model and roll
back."""
OPEN = ("/health", "/ready", "/docs", "/docs.css", "/docs.js", "/openapi.json")
"""Paths that need no key: probes have none, and the description holds no data."""
_READ_BY_POST, _OF_OPERATORS = ("/recommend",), ("/metrics", "/rollback")

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_SECONDS_BETWEEN_CHECKS = 1.0


@dataclass
class Key:
    """A key as a line of the file has it, and the requests that it has left.

    Attributes
    ----------
    rate : float
        Requests a second; infinite without a limit. As many may come at once.
    """

    name: str
    scopes: frozenset[str]
    digest: str
    rate: float = math.inf
    _left: float = field(default=math.inf, repr=False)
    _at: float = field(default=0.0, repr=False)

    def seconds_to_wait(self, now: float) -> float:
        """0 if a request may pass, which is then counted; else the seconds until one may."""
        if self.rate == math.inf:
            return 0.0
        most = max(1.0, self.rate)  # a token bucket of one second
        self._left = min(most, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self.rate
        self._left -= 1
        return 0.0


class Keys:
    """The keys of a file, read again when it changes.

    A change that cannot be read is logged, and the keys before it stay: a slip of the pen locks
    nobody out, and lets nobody in.

    Parameters
    ----------
    path : path
        A file of lines ``NAME SCOPES sha256:HEX [REQUESTS A SECOND]``; ``#`` begins a comment.

    Raises
    ------
    ValueError
        A line is wrong, a name or a key is there twice, there is no key, or others than the owner
        may write to the file.
    OSError
        The file cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._version = self._now_on_disk()
        self._keys = _read(self.path)
        self._checked = time.monotonic()
        self._error = ""

    @property
    def have_rates(self) -> bool:
        """Whether a key may only ask so many times a second."""
        return any(key.rate < math.inf for key in self._keys)

    def refusal(self, scope: Scope) -> Response | None:
        """Why a request is not let in; None if it is, and its scope then has the ``key``'s name."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in OPEN:
            return None
        now = time.monotonic()
        if now - self._checked > _SECONDS_BETWEEN_CHECKS:
            self._checked = now
            self._read_again()
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if not sent:
            return _unauthorized("this service asks for a key: Authorization: Bearer KEY", "")
        key = self._of(sent[0]) if len(sent) == 1 else None
        if key is None:
            return _unauthorized("this key is unknown", ', error="invalid_token"')
        scope["key"], scope["key_scopes"] = key.name, key.scopes
        needed = _scope_of(scope["method"], path)
        if needed not in key.scopes:
            challenge = f'Bearer realm="mfrank", error="insufficient_scope", scope="{needed}"'
            sentence = f"this key may not {needed}: it has the scopes {_listed(key.scopes)}"
            return refusal(403, sentence, headers={"WWW-Authenticate": challenge})
        if wait := key.seconds_to_wait(now):
            sentence = f"this key may ask {key.rate:g} times a second; try again later"
            return refusal(429, sentence, headers={"Retry-After": str(math.ceil(wait))})
        return None

    def _of(self, header: bytes) -> Key | None:
        """The key of a header, compared with all in a time that does not depend on which it is."""
        kind, _, secret = header.partition(b" ")
        digest, found = _digest(secret.strip()), None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found if kind.lower() == b"bearer" else None

    def _read_again(self) -> None:
        try:
            version = self._now_on_disk()
            if version == self._version:
                return
            self._version = version
            keys = _read(self.path)
        except (OSError, ValueError) as error:
            if str(error) != self._error:  # once, not every second
                self._error = str(error)
                _LOG.warning("the keys before stay: %s", error)
            return
        self._error = ""
        before = {(key.digest, key.rate): key for key in self._keys}
        for key in keys:  # what was used of a limit stays used
            if same := before.get((key.digest, key.rate)):
                key._left, key._at = same._left, same._at
        self._keys = keys
        _LOG.warning("%s: %d keys are read again", self.path, len(keys))

    def _now_on_disk(self) -> tuple[int, ...]:
        status = self.path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


def new_key(
    path: str | os.PathLike[str], name: str, scopes: Iterable[str], rate: float | None = None
) -> str:
    """Add a key to a file, which is created for its owner alone, and return the key.

    Raises
    ------
    ValueError
        The name or a scope is wrong, the name is in the file, or the file cannot be used.
    """
    secret = "mfrank_" + secrets.token_urlsafe(32)
    words = [name, ",".join(scopes), _digest(secret.encode())]
    line = " ".join([*words, f"{rate:g}"] if rate is not None else words)
    _check_name(name)  # before a blank in it makes other words of the line
    added = _key_of(line)
    before = Path(path).read_bytes() if os.path.exists(path) else b""
    if before and any(key.name == added.name for key in _read(Path(path), may_be_empty=True)):
        raise InputValueError(
            f"`name`: {path} has a key {name!r}", "remove its line or use another"
        )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        is_cut = bool(before) and not before.endswith(b"\n")
        file.write(b"\n" * is_cut + line.encode() + b"\n")
    return secret


def _read(path: Path, *, may_be_empty: bool = False) -> list[Key]:
    """The keys of a file."""
    if os.name == "posix" and path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InputValueError(
            f"{path}: others may write to this file of keys, and so let themselves in",
            f"chmod go-w {path}",
        )
    keys: list[Key] = []
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        line = text.partition("#")[0].strip()
        if not line:
            continue
        try:
            key = _key_of(line)
            if any(key.name == each.name or key.digest == each.digest for each in keys):
                raise InputValueError(f"the name or the key of {key.name!r} is there twice")
        except InputValueError as error:
            raise error.within(f"{path}, line {number}") from None
        keys.append(key)
    if not keys and not may_be_empty:
        raise InputValueError(
            f"{path} has no key", f"mfrank new-key NAME --key-file {path} makes one"
        )
    return keys


def _key_of(line: str) -> Key:
    """The key of a line; its errors never show the hash, or a key that was written for it."""
    words = line.split()
    name, scopes, digest = [*words, "", ""][:3]
    rates = words[3:]
    _check_name(name)
    given = scopes.split(",")
    if not set(given) <= set(SCOPES):
        raise InputValueError(f"`scopes` must be of {_listed(SCOPES)}, got {shown(scopes)}")
    if not _HASH.fullmatch(digest):
        raise InputValueError(
            "after the scopes there must be sha256: and 64 hexadecimal digits",
            "mfrank new-key makes such a line",
        )
    try:
        rate = float(*rates) if rates else math.inf
    except (TypeError, ValueError):
        rate = math.nan
    if not rate > 0 or (rates and rate == math.inf):
        raise InputValueError(
            f"`rate` must be one number above 0, of requests a second, got {shown(' '.join(rates))}"
        )
    return Key(name, frozenset(given), digest, rate)


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputValueError(f"`name` must be up to 64 letters, digits, . _ -, got {shown(name)}")


def _digest(secret: bytes) -> str:
    return "sha256:" + hashlib.sha256(secret).hexdigest()


def _scope_of(method: str, path: str) -> str:
    """What a key needs for a request."""
    if path in _OF_OPERATORS:
        return "operate"
    return "read" if method in ("GET", "HEAD", "OPTIONS") or path in _READ_BY_POST else "write"


def _unauthorized(sentence: str, more: str) -> Response:
    return refusal(401, sentence, headers={"WWW-Authenticate": f'Bearer realm="mfrank"{more}'})


def _listed(scopes: Iterable[str]) -> str:
    return ", ".join(each for each in SCOPES if each in scopes)
