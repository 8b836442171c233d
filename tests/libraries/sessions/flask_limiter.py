"""Flask-Limiter, on the scripts of limits: the three strategies, a conditional request, what is left."""

from collections.abc import Iterator
from typing import Any

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address


def use(url: str) -> Iterator[None]:
    clients = [_client(url, strategy) for strategy in ("fixed-window", "moving-window", "sliding-window-counter")]
    for client in clients:
        _round(client)
    yield
    for client in clients:
        _round(client)


def _client(url: str, strategy: str) -> Any:
    app = Flask("mail")
    limiter = Limiter(
        get_remote_address, app=app, storage_uri=url, strategy=strategy, headers_enabled=True, key_prefix=strategy
    )

    def page() -> str:
        return "hello"

    app.route("/")(limiter.limit("2/hour")(page))
    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app.test_client()


def _round(client: Any) -> None:
    answers = [client.get("/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]
