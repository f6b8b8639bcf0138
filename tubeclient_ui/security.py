"""Who may use the page: whoever has the token of its link, from the page itself, under the names that it has."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Collection
from html import escape
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard"]

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PAGE: Final = '<!doctype html><html lang="en"><meta charset="utf-8"><title>TubeMQ</title>{}'
_CLOSED: Final = _PAGE.format(
    "<h1>No access</h1><p>Open the link that <code>tubeclient ui</code> printed. If this browser did so before, "
    '<a href="{}">go on</a>.</p>'
)


class Guard:
    """Lets requests through to `app`, and gives all answers their headers.

    Args:
        token: What the first request has to bring, as ?token=. Later ones bring a cookie.
        hosts: The names of the page in the Host header, against DNS rebinding. None: any.
        public_url: The page's address behind a proxy; "" if there is none.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str] | None, public_url: str, cookie: str) -> None:
        self._app, self._token, self._hosts = app, token, hosts
        self._public = urlsplit(public_url)
        self._cookie = cookie
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(Request(scope)) or self._app
        await answer(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "").lower()
        if self._hosts is not None and host not in self._hosts:
            return PlainTextResponse("This page has another name; --public-url gives it one.\n", 400)
        path = request.url.path.removeprefix(request.scope.get("root_path", ""))
        if request.method in ("GET", "HEAD") and path.startswith("/static/"):
            return None
        if path == "/favicon.ico":  # each browser asks for one
            return Response(status_code=204)
        given = request.query_params.get("token")
        if given is not None:
            return self._entered(request) if _same(given, self._token) else PlainTextResponse("Wrong token.\n", 403)
        if not _same(request.cookies.get(self._cookie, ""), self._session):
            again = escape(_path(request, request.url.query))  # a link from elsewhere comes without the cookie
            return HTMLResponse(_CLOSED.format(again), 403)
        if request.method not in ("GET", "HEAD"):
            # No form of another page can have these headers.
            origin = urlsplit(request.headers.get("origin", ""))
            own = origin.netloc == host or (origin[:2] == self._public[:2] and origin.netloc != "")
            if not (own and request.headers.get("hx-request") == "true"):
                return PlainTextResponse("Changes come from the page itself.\n", 403)
        return None

    def _entered(self, request: Request) -> Response:
        """Not a redirect: after a link from another page the browser would send that one without the cookie."""
        rest = urlencode([pair for pair in parse_qsl(request.url.query, True) if pair[0] != "token"])
        to = escape(_path(request, rest))
        answer = HTMLResponse(
            _PAGE.format(f'<meta http-equiv="refresh" content="0;url={to}"><a href="{to}">TubeMQ</a>')
        )
        path = request.scope.get("root_path") or "/"
        secure = "https" in (self._public.scheme, request.url.scheme)
        answer.set_cookie(self._cookie, self._session, path=path, httponly=True, samesite="strict", secure=secure)
        return answer


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _path(request: Request, query: str) -> str:
    path = quote("/" + request.url.path.lstrip("/\\"))  # two slashes would be another server
    return f"{path}?{query}" if query else path
