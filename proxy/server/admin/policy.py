"""The policies in force, their reload, and the kill switch.

    GET  /policy              {"generation": 3, "reload_failures": 0, "kill_switch": {"on": false, …},
                               "routes": [{"route", "policy", "generation", "files", "apps",
                                           "rules": [{"rule", "where", "locked", "mode", "by", "at",
                                                      "exceptions", "apps"}]}]}
    POST /policy/reload       {"generation": 4}; or 422 and {"error", "problems": [line, …], "generation": 3}
    GET  /policy/kill-switch  {"on": true, "since", "until", "because", "survives_restart"}
    POST /policy/kill-switch  {"switch": "on", "for": "30m", "because": "…"} or {"switch": "off"}; answers the same

The answer to a POST comes after every worker has followed it. ``for`` is at most 24h; the default is 30m.
"""

from typing import Any

from aiohttp import web

from proxy.server.admin.orders import read_body, read_order, read_reason, read_time
from proxy.server.admin.state import STATE, AdminState
from proxy.server.group_info import route_policy

_KEYS = frozenset({"switch", "for", "because"})


async def policy(request: web.Request) -> web.Response:
    """Answer with the policies in force."""
    state = request.app[STATE]
    return web.json_response(
        {
            "generation": state.workers.generation,
            "reload_failures": state.reloader.failures,
            "kill_switch": state.switch.status(),
            "routes": [route_policy(state.workers, route) for route in range(len(state.settings.routes))],
        }
    )


async def reload(request: web.Request) -> web.Response:
    """Reload all policies."""
    state = request.app[STATE]
    problems = await state.reloader.reload()
    answer: dict[str, Any] = {"generation": state.workers.generation}
    if not problems:
        return web.json_response(answer)
    answer = {"error": "the policies were not reloaded: the old ones stay in force", "problems": problems} | answer
    return web.json_response(answer, status=422)


async def kill_switch(request: web.Request) -> web.Response:
    """Answer with the state of the switch."""
    return web.json_response(request.app[STATE].switch.status())


async def turn_kill_switch(request: web.Request) -> web.Response:
    """Turn the switch on or off."""
    state = request.app[STATE]
    try:
        asked = _asked(await read_body(request))
    except ValueError as error:
        return web.json_response({"error": str(error)}, status=400)
    try:
        await _turn(state, asked)
    except OSError as error:
        failure = {"error": f"the switch will not survive a restart: {error.strerror}: {state.settings.state_dir}"}
        return web.json_response(failure | state.switch.status(), status=500)
    return web.json_response(state.switch.status())


async def _turn(state: AdminState, asked: tuple[float, str] | None) -> None:
    if asked is None:
        await state.switch.turn_off()
    else:
        await state.switch.turn_on(*asked)


def _asked(text: str) -> tuple[float, str] | None:
    """Return seconds and reason for on, None for off. Raises ValueError."""
    asked = read_order(text, _KEYS)
    if asked.get("switch") not in ("on", "off"):
        raise ValueError('expected {"switch": "on"} or {"switch": "off"}; only "on" takes "for" and "because"')
    return None if asked["switch"] == "off" else (read_time(asked), read_reason(asked))
