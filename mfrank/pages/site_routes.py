"""The site: routes, templates, and the middleware around them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.staticfiles import StaticFiles

from mfrank._version import __version__
from mfrank.arrays import usable_cores
from mfrank.data import Interactions
from mfrank.errors import InputValueError
from mfrank.models import tell_uncut
from mfrank.pages.page_request import PageRequest
from mfrank.pages.site import Site, path_of
from mfrank.pages.views.items import home, item, item_map, search
from mfrank.pages.views.models import model, quality, quality_pair
from mfrank.pages.views.users import compare, sandbox, user, why
from mfrank.retrieval import Recommender
from mfrank.serving.answers import dump
from mfrank.serving.guards import AllowedHosts, Door
from mfrank.serving.limits import Limits, in_thread
from mfrank.serving.measures import Measures
from mfrank.serving.refusals import add_refusals, refusal, status_of

View = Callable[[Site, PageRequest], dict[str, Any]]

_FORMATS = ("html", "json")
_LIMITS = Limits(max_body=2**16, max_seconds=60.0)


def build(
    models: Mapping[str, Recommender],
    data: Interactions | None,
    items: str | os.PathLike[str] | None,
    allow_hosts: Iterable[str],
) -> FastAPI:
    """The application of :func:`mfrank.pages.app`."""
    hosts = AllowedHosts(allow_hosts)
    pages = _Pages(Site(models, data, items))
    if data is not None:
        of_data = ((each, (each.where, each.event_weights)) for each in models.values())
        cut = [each for each, known in of_data if each.threshold is not None or any(known)]
        most = max(cut, key=lambda each: each.threshold or 0.0, default=None)
        tell_uncut("data", data, most, "are shown as likes and hits")
    application = FastAPI(openapi_url=None)  # so there are no documentation pages either
    application.state.limits, application.state.hosts = _LIMITS, hosts
    views: tuple[tuple[str, str, View], ...] = (
        ("/", "home", home),
        ("/search", "search", search),
        ("/user/{user}", "user", user),
        ("/user/{user}/why/{item}", "why", why),
        ("/item/{item}", "item", item),
        ("/compare/{user}", "compare", compare),
        ("/sandbox", "sandbox", sandbox),
        ("/model/{index}", "model", model),
        ("/quality/both", "quality_pair", quality_pair),
        ("/quality/{index}", "quality", quality),
        ("/map", "map", item_map),
    )
    for path, name, view in views:
        application.add_route(path, pages.route(name, view))
    application.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    add_refusals(application, pages.refuse)
    application.add_middleware(Door, hosts=hosts, limits=_LIMITS, measures=Measures())
    return application


class _Pages:
    """The site as it is now, and the templates of its pages."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._pool = ThreadPoolExecutor(usable_cores(), "mfrank-pages")
        self._templates = Environment(
            loader=PackageLoader("mfrank.pages"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(number=_number, short=_short, digits=_digits)
        self._templates.globals.update(
            names=site.names,
            path_of=path_of,
            version=__version__,
            here="",
            has_data=site.data is not None,
        )

    def route(self, name: str, view: View) -> Callable[[Request], Any]:
        """A route that returns a view's dict as a page or as JSON."""

        async def answer(request: Request) -> Response:
            path = request.scope["path"]
            page = PageRequest(path, request.path_params, request.query_params)
            respond = partial(self._respond, name, view, page)
            return await in_thread(self._pool, respond, _LIMITS.max_seconds)

        return answer

    def refuse(self, request: Request, error: Exception) -> Response:
        """Return an error as a page or as JSON, with its status."""
        status, sentence = status_of(error)
        if request.query_params.get("format") == "json":
            return refusal(status, sentence)
        page = self._render("error", {"status": status, "sentence": sentence})
        return Response(page, status, media_type="text/html")

    def _respond(self, name: str, view: View, request: PageRequest) -> Response:
        format = request.query.get("format", "html")
        if format not in _FORMATS:
            raise InputValueError(f"`format` must be html or json, got {format!r}")
        self.site = site = self.site.current()
        content = view(site, request)
        if format == "json":
            return Response(dump(content), media_type="application/json")
        links = {"json_url": request.url(format="json"), "here": name, "request": request}
        return Response(self._render(name, {**content, **links}), media_type="text/html")

    def _render(self, name: str, content: Mapping[str, Any]) -> bytes:
        text = self._templates.get_template(f"{name}.html").render(content)
        return text.encode("utf-8", "replace")  # an id may have half a surrogate pair


def _number(value: float) -> str:
    """A whole number with narrow spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def _short(value: float) -> str:
    """A number in three significant digits, or rounded to a whole number if it is large."""
    return _number(round(value)) if abs(value) >= 999.5 else f"{value:.3g}"


def _digits(value: float) -> str:
    """Three significant digits with trailing zeros, so that the numbers of a column align."""
    return _short(value) if abs(value) >= 99.95 else f"{value:#.3g}"
