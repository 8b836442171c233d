"""Flask-Session: a session that is made, read, changed and ended."""

from collections.abc import Iterator
from typing import Any

from flask import Flask, session
from flask_session import Session
from redis import Redis


def use(url: str) -> Iterator[None]:
    app = Flask("mail")
    app.config.update(SESSION_TYPE="redis", SESSION_REDIS=Redis.from_url(url), PROPAGATE_EXCEPTIONS=True)
    Session(app)

    def count() -> str:
        session["visits"] = session.get("visits", 0) + 1
        return str(session["visits"])

    def leave() -> str:
        session.clear()
        return "gone"

    app.route("/")(count)
    app.route("/leave")(leave)
    _round(app)
    yield
    _round(app)


def _round(app: Any) -> None:
    client = app.test_client()
    assert [client.get(path).text for path in ("/", "/", "/leave", "/")] == ["1", "2", "gone", "1"]
