"""Limits on requests."""

from __future__ import annotations

from dataclasses import dataclass, fields

from mfrank.arrays.checks import check_count, shown

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The most that a request may ask; more is refused before any work.

    Parameters
    ----------
    max_body : int, default 1048576
        Bytes of a request's body.
    max_batch : int, default 1000
        Users, items or filtered ids in a request.
    max_n : int, default 1000
        Length of a list.
    max_seconds : float, default 10
        Seconds until a request is answered, including its waiting time.
    max_waiting : int, default 256
        Requests that wait or are worked on at a time; further ones are told to try again later.

    Raises
    ------
    TypeError, ValueError
        A limit is not a number above 0.
    """

    max_body: int = 2**20
    max_batch: int = 1000
    max_n: int = 1000
    max_seconds: float = 10.0
    max_waiting: int = 256

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "max_seconds":
                check_count(field.name, value, 1)
            elif not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise ValueError(f"max_seconds must be a number above 0, got {shown(value)}")
