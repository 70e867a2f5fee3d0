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
from mfrank.models import tell_below
from mfrank.pages.asked import Asked
from mfrank.pages.views.compare import compare
from mfrank.pages.views.item import item
from mfrank.pages.views.map import item_map
from mfrank.pages.views.model import model
from mfrank.pages.views.quality import quality, quality_pair
from mfrank.pages.views.sandbox import sandbox
from mfrank.pages.views.search import home, search
from mfrank.pages.views.user import user, why
from mfrank.pages.world import World, path_of
from mfrank.retrieval import Recommender
from mfrank.serving.answers import dump
from mfrank.serving.guards import AllowedHosts, Door
from mfrank.serving.limits import Limits, Measures, in_thread
from mfrank.serving.refusals import add_refusals, refusal, told

View = Callable[[World, Asked], dict[str, Any]]

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
    site = _Site(World(models, data, items))
    if data is not None:
        cuts = [cut for each in models.values() if (cut := each.threshold) is not None]
        tell_below("data", data, max(cuts, default=None), "are shown as likes and hits")
    application = FastAPI(openapi_url=None)  # nor pages of documentation
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
        application.add_route(path, site.route(name, view))
    application.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    add_refusals(application, site.refuse)
    application.add_middleware(Door, hosts=hosts, limits=_LIMITS, measures=Measures())
    return application


class _Site:
    """The world, and the templates in which it is shown."""

    def __init__(self, world: World) -> None:
        self.world = world
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
            names=world.names,
            path_of=path_of,
            version=__version__,
            here="",
            has_data=world.data is not None,
        )

    def route(self, name: str, view: View) -> Callable[[Request], Any]:
        """A route that shows what a view returns, as a page or as JSON."""

        async def answer(request: Request) -> Response:
            asked = Asked(request.scope["path"], request.path_params, request.query_params)
            shown = partial(self._shown, name, view, asked)
            return await in_thread(self._pool, shown, _LIMITS.max_seconds)

        return answer

    def refuse(self, request: Request, error: Exception) -> Response:
        """Why a page is not there, with the status that fits."""
        status, sentence = told(error)
        if request.query_params.get("format") == "json":
            return refusal(status, sentence)
        page = self._render("error", {"status": status, "sentence": sentence})
        return Response(page, status, media_type="text/html")

    def _shown(self, name: str, view: View, asked: Asked) -> Response:
        format = asked.query.get("format", "html")
        if format not in _FORMATS:
            raise InputValueError(f"`format` must be html or json, got {format!r}")
        self.world = world = self.world.now()
        content = view(world, asked)
        if format == "json":
            return Response(dump(content), media_type="application/json")
        links = {"json_url": asked.url(format="json"), "here": name, "asked": asked}
        return Response(self._render(name, {**content, **links}), media_type="text/html")

    def _render(self, name: str, content: Mapping[str, Any]) -> bytes:
        text = self._templates.get_template(f"{name}.html").render(content)
        return text.encode("utf-8", "replace")  # an id may have half a surrogate pair


def _number(value: float) -> str:
    """A whole number with its thousands apart, by narrow spaces."""
    return f"{value:,}".replace(",", "\u202f")


def _short(value: float) -> str:
    """A number in three digits, a large one in whole numbers."""
    return _number(round(value)) if abs(value) >= 999.5 else f"{value:.3g}"


def _digits(value: float) -> str:
    """A number in three digits, zeros at its end too, so that those of a column are alike."""
    return _short(value) if abs(value) >= 99.95 else f"{value:#.3g}"
