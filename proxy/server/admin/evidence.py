"""What is kept as evidence, and what it says of the policies in force.

    GET /evidence?since=1764230400    the evidence since a time in seconds since the epoch (``evidence.json_form``), and
                                      "facts" of each route's policy (``evidence.policy_facts``)
    GET /report?since=7d&app=&team=&rule=    the report (``evidence.report``) of a time back from now, and "quotas": how
                                             the rules stand that judge by the last scan (``rule_stats``)

503 if the evidence cannot be read.

A month of many clients takes a while: a thread makes one answer after another, in pieces between which the event loop
runs, and whoever asks for what is being made gets the same answer.
"""

import asyncio
import json
import time
from collections.abc import Callable, Hashable, Iterable
from math import isfinite, nan
from typing import Any

from aiohttp import web

from proxy.net.config.background_thread import BackgroundThread
from proxy.server.admin.state import STATE
from proxy.server.evidence.json_form import json_pieces
from proxy.server.evidence.keeper import EvidenceKeeper
from proxy.server.evidence.model import Evidence, EvidenceError, hour_of
from proxy.server.evidence.report import Wanted, report
from proxy.server.option_readers import read_time_back
from proxy.server.rule_stats import quota
from proxy.server.workers import Workers

_USUAL = "7d"

Form = Callable[[Evidence], Iterable[str]]
"""Makes pieces of JSON of evidence."""


class SharedAnswers:
    """Answers that several requests for the same share while they are made."""

    def __init__(self) -> None:
        self._in_flight: dict[Hashable, asyncio.Task[bytes]] = {}
        self._thread = BackgroundThread("answers with evidence")

    async def of(self, keeper: EvidenceKeeper, since: float, what: Hashable, form: Form) -> bytes:
        """Evidence since a time in some form; `what` is equal for equal forms. Raises EvidenceError."""
        asked = hour_of(since), what
        making = self._in_flight.get(asked)
        if making is None:
            making = asyncio.get_running_loop().create_task(self._make(keeper, since, form))
            self._in_flight[asked] = making
            making.add_done_callback(lambda _: self._in_flight.pop(asked))
        # Whoever gives up leaves it to the others.
        return await asyncio.shield(making)

    async def _make(self, keeper: EvidenceKeeper, since: float, form: Form) -> bytes:
        found = await keeper.read(since)
        return await self._thread.run(lambda: "".join(form(found)).encode())


ANSWERS = web.AppKey("answers", SharedAnswers)


async def evidence(request: web.Request) -> web.Response:
    """Answer with the evidence itself, for reports over several Keyrails."""
    try:
        since = float(request.query.get("since", "0"))
    except ValueError:
        since = nan
    if not isfinite(since):
        return web.json_response({"error": "since: expected seconds since the epoch"}, status=400)
    keeper = request.app[STATE].keeper
    return await _answer(request, since, "evidence", lambda found: json_pieces(found, dict(keeper.facts)))


async def show_report(request: web.Request) -> web.Response:
    """Answer with the report."""
    try:
        back = read_time_back(request.query.get("since", _USUAL))
    except ValueError as error:
        return web.json_response({"error": f"since: {error}"}, status=400)
    wanted = Wanted(*(request.query.get(name, "") for name in ("app", "team", "rule")))
    now = time.time()
    keeper, told = request.app[STATE].keeper, {"quotas": _quotas(request.app[STATE].workers)}
    return await _answer(
        request, now - back, wanted, lambda found: [json.dumps(report(found, dict(keeper.facts), now, wanted) | told)]
    )


def _quotas(workers: Workers) -> list[dict[str, Any]]:
    """How the rules stand that judge by the last scan."""
    return [
        {"route": figures.name, "rule": rule.name, **quota(workers, route, rule)["quota"]}
        for route, (figures, policy) in enumerate(zip(workers.figures(), workers.policies, strict=True))
        for rule in policy.rules
        if rule.settings.judges_by_scan
    ]


async def _answer(request: web.Request, since: float, what: Hashable, form: Form) -> web.Response:
    try:
        body = await request.app[ANSWERS].of(request.app[STATE].keeper, since, what, form)
    except EvidenceError as error:
        return web.json_response({"error": str(error)}, status=503)
    return web.Response(body=body, content_type="application/json")
