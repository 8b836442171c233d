"""What is kept as evidence, and what it says of the policies in force.

    GET /evidence?since=1764230400    the evidence since a time in seconds since the epoch (``evidence.json_form``), and
                                      "facts" of each route's policy (``evidence.policy_facts``)
    GET /report?since=7d&app=&team=&rule=    the report (``evidence.report``) of a time back from now

503 if the evidence cannot be read.
"""

import asyncio
import json
import time
from functools import partial
from math import isfinite, nan
from typing import Any

from aiohttp import web

from proxy.server.admin.state import STATE
from proxy.server.evidence.json_form import to_json
from proxy.server.evidence.model import EvidenceError
from proxy.server.evidence.report import Wanted, report
from proxy.server.option_readers import read_time_back

_USUAL = "7d"


async def evidence(request: web.Request) -> web.Response:
    """Answer with the evidence itself, for reports over several Keyrails."""
    keeper = request.app[STATE].keeper
    try:
        since = float(request.query.get("since", "0"))
    except ValueError:
        since = nan
    if not isfinite(since):
        return web.json_response({"error": "since: expected seconds since the epoch"}, status=400)
    try:
        found = await keeper.read(since)
    except EvidenceError as error:
        return web.json_response({"error": str(error)}, status=503)
    return await _answer(partial(_with_facts, found, dict(keeper.facts)))


async def show_report(request: web.Request) -> web.Response:
    """Answer with the report."""
    keeper = request.app[STATE].keeper
    try:
        back = read_time_back(request.query.get("since", _USUAL))
    except ValueError as error:
        return web.json_response({"error": f"since: {error}"}, status=400)
    wanted = Wanted(*(request.query.get(name, "") for name in ("app", "team", "rule")))
    now = time.time()
    try:
        found = await keeper.read(now - back)
    except EvidenceError as error:
        return web.json_response({"error": str(error)}, status=503)
    return await _answer(partial(report, found, dict(keeper.facts), now, wanted))


def _with_facts(found: Any, facts: Any) -> dict[str, Any]:
    return {**to_json(found), "facts": facts}


async def _answer(make: Any) -> web.Response:
    # A month of many clients takes a while: not on the event loop.
    body = await asyncio.to_thread(lambda: json.dumps(make()).encode())
    return web.Response(body=body, content_type="application/json")
