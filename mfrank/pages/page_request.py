"""The request for a page: its parameters, checked and converted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote, urlencode

from starlette.datastructures import QueryParams

from mfrank.data import Ids, UnknownIdError
from mfrank.errors import InputValueError
from mfrank.pages.site import Site
from mfrank.serving.answers import from_url, one_from_url

T = TypeVar("T")
_LAST_PAGE = 200


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page.

    Attributes
    ----------
    path : str
        Percent-encoded, as received.
    path_parameters : mapping of str to str
        Percent-encoded.
    query : QueryParams
    """

    path: str
    path_parameters: Mapping[str, Any]
    query: QueryParams

    def id(self, name: str, known: Ids) -> Any:
        """An id in the path; raise UnknownIdError unless it is known."""
        return one_from_url(unquote(self.path_parameters[name]), known)

    def ids(self, name: str, known: Ids) -> list[Any]:
        """Distinct ids in the query; raise UnknownIdError if one is unknown."""
        texts = self.query.getlist(name)
        return list(dict.fromkeys(from_url(texts, known))) if texts else []

    def text(self, name: str, longest: int = 100) -> str:
        """A text in the query, by default empty."""
        text = self.query.get(name, "").strip()
        if len(text) > longest:
            raise InputValueError(
                f"`{name}` must have at most {longest} characters, got {len(text)}"
            )
        return text

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number in the query."""
        text = self.query.get(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise InputValueError(
                f"`{name}` must be a whole number from {low} to {high}, got {text!r}"
            )
        return int(text)

    def decimal(self, name: str, default: float, low: float, high: float) -> float:
        """A number in the query; an empty text is the default."""
        text = self.query.get(name, "").strip() or str(default)
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise InputValueError(
                f"`{name}` must be a number from {low:g} to {high:g}, got {text!r}"
            )
        return number + 0.0  # no -0

    def index(self, name: str, size: int) -> int:
        """A number in the path; raise UnknownIdError unless it is below ``size``."""
        text = str(self.path_parameters[name])
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < size):
            raise UnknownIdError(f"`{name}` must be from 0 to {size - 1}, got {text!r}", [text])
        return int(text)

    def model(self, site: Site) -> int:
        """Index of the requested model."""
        return self.number("model", 0, 0, len(site.models) - 1)

    def page(self, name: str = "page") -> int:
        """Number of the requested page of a long list, from 1."""
        return self.number(name, 1, 1, _LAST_PAGE)

    def parameters_without(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """The query's other parameters that have a value, as pairs of name and value."""
        return [
            (name, value)
            for name, value in self.query.multi_items()
            if value and name not in names and name != "format"
        ]

    def url(self, **changed: Any) -> str:
        """The URL of this request with some parameters changed, or removed by None."""
        parameters = self.parameters_without(list(changed))
        for name, value in changed.items():
            values = value if isinstance(value, list) else [value]
            parameters.extend((name, str(each)) for each in values if each is not None)
        return self.path + ("?" + urlencode(parameters, errors="replace") if parameters else "")

    def paged(
        self, every: Sequence[T], n: int, name: str = "page"
    ) -> tuple[dict[str, Any], int, Sequence[T]]:
        """Links to the pages of a list, ``n`` to a page; this page's first rank and elements."""
        page, last = self.page(name), min(max(1, -(-len(every) // n)), _LAST_PAGE)
        if page > last:
            raise InputValueError(f"`{name}` must be a whole number from 1 to {last}, got {page}")
        about = {
            "page": page,
            "of": last,
            "total": len(every),
            "before": self.url(**{name: page - 1}) if page > 1 else None,
            "after": self.url(**{name: page + 1}) if page < last else None,
        }
        begin = (page - 1) * n
        return about, begin + 1, every[begin : begin + n]
