"""Lists as JSON, written place by place: the bytes of ``dump(Answer.to_dicts)``, but faster."""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.placement import on_host
from mfrank.retrieval.answers import Answer
from mfrank.serving.answers import EXACT, dump

__all__ = ["batch", "user_lists"]


def user_lists(users: Sequence[Any], answer: Answer) -> list[bytes]:
    """``{"user": ..., "items": [{"id": ..., "score": ...}, ...]}`` for each user."""
    return [each.encode() for each in _lists(users, answer)]


def batch(users: Sequence[Any], answer: Answer) -> bytes:
    """``{"lists": [...]}`` of these."""
    return f'{{"lists":[{",".join(_lists(users, answer))}]}}'.encode()


def _lists(users: Sequence[Any], answer: Answer) -> list[str]:
    pairs = zip(users, _items(answer), strict=True)
    return [f'{{"user":{_id(user)},"items":{items}}}' for user, items in pairs]


def _items(answer: Answer) -> list[str]:
    """The list of each user, without padding."""
    ids, scores = on_host(answer.ids), on_host(answer.scores)
    if np.isinf(scores).any():  # which JSON does not have
        return [dump(items).decode() for items in answer.to_dicts()]
    numbers, rows = _are_exact(ids), zip(ids.tolist(), scores.tolist(), strict=True)
    lists = []
    for labels, row in rows:
        pairs = zip(labels if numbers else map(_id, labels), row, strict=True)
        places = [f'{{"id":{each},"score":{score!r}}}' for each, score in pairs if score == score]
        lists.append(f"[{','.join(places)}]")
    return lists


def _are_exact(ids: NDArray[Any]) -> bool:
    """Whether the ids are numbers that are written as such: row numbers, or none beyond 2^53."""
    if ids.dtype.kind != "i":
        return False
    return ids.dtype.itemsize < 8 or not ids.size or (ids.max() <= EXACT and ids.min() >= -EXACT)


def _id(label: Any) -> str:
    """An id; None, of padding, is written, too, and then left out."""
    if type(label) is int and -EXACT <= label <= EXACT:
        return str(label)
    return encode_basestring_ascii(label) if type(label) is str else dump(_python(label)).decode()


def _python(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
