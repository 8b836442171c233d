"""A dashboard for Grafana and alert rules for Prometheus.

Both are files beside this one. They use the metrics of ``/metrics``, and contain no figures.
"""

from importlib.resources import files

from aiohttp import web

DASHBOARD, ALERTS = "/grafana.json", "/alerts.yaml"

_KINDS = {DASHBOARD: "application/json", ALERTS: "application/yaml"}


async def monitoring(request: web.Request) -> web.Response:
    """Answer with the file that the path names."""
    text = files(__package__).joinpath(request.path.removeprefix("/")).read_text("utf-8")
    return web.Response(text=text, content_type=_KINDS[request.path], charset="utf-8")
