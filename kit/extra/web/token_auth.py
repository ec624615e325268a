"""Access to the store for whoever has the URL that ``kit serve`` prints. Other users of the machine can reach its
loopback address, too. Browsers send a cookie to all of its ports, including other users' servers."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kit.extra.web.served import served_page

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

    from flask import Flask, Response


class TokenAuth:
    """A browser sends the token once and gets a cookie, which is not the token. The cookie is for pages below a secret
    path: a server at another port does not receive it for its own pages. A program sends the token each time:
    ``Authorization: Bearer TOKEN``."""

    def __init__(self, token: str) -> None:
        self._token, self._ticket = token, secrets.token_urlsafe()
        self._below = f"/{secrets.token_urlsafe(12)}"

    def guard(self, app: Flask) -> None:
        """Let the application answer below the path, and only to authorised clients."""
        answer = app.wsgi_app

        def below(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            path = environ.get("PATH_INFO", "")
            if path.startswith(f"{self._below}/"):
                environ = {**environ, "SCRIPT_NAME": self._below, "PATH_INFO": path.removeprefix(self._below)}
            return answer(environ, start_response)

        app.before_request(self._check)
        app.wsgi_app = below  # type: ignore[method-assign]

    def _check(self) -> Response | tuple[str, int] | None:
        from flask import redirect, request

        # One for each port: a browser with two stores open keeps both.
        cookie = f"kit-{request.environ['SERVER_PORT']}"
        if request.script_root == self._below and _same(request.cookies.get(cookie, ""), self._ticket):
            return None
        if _same(request.headers.get("Authorization", ""), f"Bearer {self._token}"):
            return None
        if _same(request.args.get("token", ""), self._token):
            answer: Any = redirect(f"{self._below}/", 303)
            answer.set_cookie(cookie, self._ticket, path=f"{self._below}/", httponly=True, samesite="Strict")
            return answer  # type: ignore[no-any-return]
        message = "Open the whole URL that kit serve has printed: it ends in a token, new with each start."
        return served_page("message.html.j2", title="Not without the token", message=message), 403


def _same(text: str, right: str) -> bool:
    """Return whether both are equal, in a time that does not reveal the matching part."""
    return hmac.compare_digest(text.encode(errors="replace"), right.encode())
