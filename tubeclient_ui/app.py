"""The page's addresses. Each view is a frame, which asks nobody, and a part that the browser fetches for it. So a
cluster that hangs holds up only what needs it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import anyio
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tubeclient.errors import ConfigurationError
from tubeclient.printable import printable
from tubeclient.records.spec import KINDS as FORMATS
from tubeclient.settings import ClientSettings
from tubeclient_cli.common.terminal import expected_errors
from tubeclient_ui import cluster, groups
from tubeclient_ui.access import ClusterAccess, LagHistory, Rates, shown_error
from tubeclient_ui.bodies import KINDS, minute, shown_lines, shown_value
from tubeclient_ui.job import JobFile, JobViews
from tubeclient_ui.masks import Masks, text_of
from tubeclient_ui.queries import FORMAT, SEARCH, Query, search_for
from tubeclient_ui.search import Searches
from tubeclient_ui.spark import Spark, SparkBusy
from tubeclient_ui.texts import COOKIE, LANGUAGES, Translator, language_of
from tubeclient_ui.typed import SchemaTrial, download

__all__ = ["Options", "Page"]

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
View: TypeAlias = Callable[[Query], dict[str, Any] | Response]

_HERE: Final = Path(__file__).parent
_SECONDS: Final = 25.0
"""Of a part; each call to the cluster has a shorter deadline of its own."""
_AT_ONCE: Final = 12
_ROWS_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was given besides the cluster."""

    zone: ZoneInfo
    masks: Masks
    allow_changes: bool = False
    with_messages: bool = True
    job: JobFile | None = None


class Page:
    """The application. `app` is ASGI's."""

    def __init__(self, settings: ClientSettings, options: Options) -> None:
        self._options = options
        self._access = ClusterAccess(settings)
        self._rates, self._history = Rates(), LagHistory()
        self._moves = groups.GroupMoves(self._access, options.zone)
        self._searches = Searches(self._access, options.masks, options.zone)
        self._spark = Spark()
        self._schema = SchemaTrial(settings, self._searches, self._spark, options)
        self._threads: anyio.CapacityLimiter | None = None
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_finalized,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"n": _number, "sh": shlex.quote, "zip": zip}
        views: dict[str, View] = {
            "cluster": lambda query: cluster.cluster_view(self._access, self._rates, query.text("q"), query.page),
            "topic": lambda query: cluster.topic_view(self._access, self._rates, query.text("name"), query.page),
            "groups": lambda query: groups.groups_view(self._access, query.text("q"), query.page),
            "group": lambda query: groups.group_view(self._access, self._history, query.text("name"), query.page),
            "move": self._moves.planned,
            "schema": self._schema.view,
        }
        # Once: pages are made on the event loop, which must not wait for the job's file.
        self._has_streams = options.job is not None and options.job.has_streams()
        if options.job is not None:
            how = options.masks, options.with_messages
            job = JobViews(options.job, self._access, self._history, self._spark, *how)
            views |= {"job": job.rounds, "streams": job.streams, "bad": job.bad, "retry": job.retry}
        routes: list[BaseRoute] = [Route(f"/{name}", self._view(name, view)) for name, view in views.items()]
        routes += [
            Route("/", lambda request: RedirectResponse(f"{request.scope['root_path']}/cluster")),
            Route("/moves", self._part("moved.html", self._changing(self._moves.moved)), methods=["POST"]),
            Route("/schema/settings", self._part("", self._schema.file)),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ]
        if options.with_messages:
            routes += [
                Route("/messages", self._view("messages", self._search)),
                Route(
                    "/messages/topics",
                    self._part("topics.html", lambda _: {"topics": self._access.admin().topic_names()[:1000]}),
                ),
                Route("/messages/more", self._part("more.html", self._more)),
                Route("/messages/body", self._part("body.html", self._body)),
                Route("/messages/typed", self._part("typed.html", self._types)),
                Route("/messages/stop", self._part("more.html", self._stop), methods=["POST"]),
                Route("/messages/lines", self._part("", self._lines)),
            ]
        if options.job is not None:
            retry = self._part("retried.html", self._changing(lambda query: job.retried(query, wanted=True)))
            routes += [
                Route("/retries", retry, methods=["POST"]),
                Route("/retries", self._part("retried.html", lambda query: job.retried(query, wanted=False))),
            ]
            if options.with_messages:
                routes.append(Route("/bad/record", self._part("record.html", job.record)))
        self.app = Starlette(routes=routes)

    def close(self) -> None:
        """End all searches, and Spark."""
        self._searches.close()
        self._spark.close()

    # How answers are made

    def _view(self, name: str, view: View) -> Endpoint:
        part = self._part(f"{name}.html", view)

        async def answer(request: Request) -> Response:
            if request.headers.get("hx-request"):
                return await part(request)
            try:
                found = self._rendered(request, "frame.html", {"view": name})
            except ConfigurationError as error:  # a text of the query is too long
                return self._rendered(request, "error.html", {"error": shown_error(error)})
            if request.query_params.get("lang") in LANGUAGES:
                found.set_cookie(COOKIE, request.query_params["lang"], httponly=True, samesite="strict")
            return found

        return answer

    def _part(self, template: str, view: View) -> Endpoint:
        def made(request: Request) -> Response:
            try:
                shown = view(Query(request.query_params))
            except SparkBusy as busy:
                return self._rendered(request, "busy.html", {"busy": busy})
            except expected_errors() as error:
                return self._rendered(request, "error.html", {"error": shown_error(error)})
            return shown if isinstance(shown, Response) else self._rendered(request, template, shown)

        async def answer(request: Request) -> Response:
            self._threads = self._threads or anyio.CapacityLimiter(_AT_ONCE)
            try:
                with anyio.fail_after(_SECONDS):
                    return await anyio.to_thread.run_sync(made, request, limiter=self._threads, abandon_on_cancel=True)
            except TimeoutError:
                return self._rendered(request, "error.html", {"error": f"no answer within {_SECONDS:.0f} s"})

        return answer

    def _changing(self, view: View) -> View:
        def answer(query: Query) -> dict[str, Any] | Response:
            if not self._options.allow_changes:
                raise ConfigurationError("this page changes nothing; --allow-changes lets it")
            return view(query)

        return answer

    def _rendered(self, request: Request, template: str, shown: Mapping[str, Any]) -> HTMLResponse:
        query = Query(request.query_params)
        prefix = request.scope.get("root_path", "")

        def link(path: str, /, **names: Any) -> str:
            given = {name: value for name, value in names.items() if value not in (None, "")}
            return f"{prefix}/{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")

        text = self._templates.get_template(template).render(
            _=Translator(language_of(request)),
            link=link,
            here=lambda **names: link(request.url.path.removeprefix(prefix).lstrip("/"), **{**query.all(), **names}),
            query=query,
            options=self._options,
            has_streams=self._has_streams,
            access=self._access,
            languages=LANGUAGES,
            kinds=KINDS,
            names={"format": FORMAT, "formats": FORMATS, "search": SEARCH},
            shown_lines=shown_lines,
            shown_value=shown_value,
            text_of=text_of,
            minute=minute,
            moment=lambda at: at.astimezone(self._options.zone).isoformat(" ", "seconds") if at else "",
            time_text=lambda ms: datetime.fromtimestamp(ms / 1000, self._options.zone).isoformat(" "),
            **shown,
        )
        return HTMLResponse(text)

    # Messages

    def _search(self, query: Query) -> dict[str, Any]:
        if not query.text("topic"):
            return {"search": None}
        return {"search": self._searches.start(search_for(query), query.all())}

    def _more(self, query: Query) -> dict[str, Any]:
        search, after = self._searches.of(query.text("search")), query.number("after", 0, 1 << 31)
        search.wait(after)
        ended = search.ended  # before the messages: none comes after it
        return {"search": search, "after": after, "ended": ended, "found": search.found[after : after + _ROWS_AT_ONCE]}

    def _stop(self, query: Query) -> dict[str, Any]:
        self._searches.of(query.text("search")).stop()
        return self._more(query)

    def _body(self, query: Query) -> dict[str, Any]:
        search = self._searches.of(query.text("search"))
        number = query.number("number", 0, max(0, len(search.found) - 1))
        return {"search": search, "number": number, "message": search.found[number]}

    def _types(self, query: Query) -> dict[str, Any]:
        body = self._body(query)
        return {"typed": self._schema.typed(Query(body["search"].query), body["message"].rows)}

    def _lines(self, query: Query) -> Response:
        """What is shown, as `tubeclient consume --json` prints it."""
        search = self._searches.of(query.text("search"))
        lines = "".join(f"{json.dumps(row)}\n" for found in list(search.found) for row in found.rows)
        return download(lines, "application/x-ndjson", "messages.jsonl")


def _number(value: float | None) -> str:
    return "\u2013" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _finalized(value: Any) -> Any:
    """Each text of others, such as names, is printable wherever a template shows it."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return printable(value)
    return "" if value is None else value
