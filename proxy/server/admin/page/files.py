"""The page's files, read once and served to anybody: they hold no figures; the page requests those.

A browser that opens ``/`` gets the page. Any other client gets a line of text.
"""

from importlib.resources import files

from aiohttp import web

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}

FOLDER = "/page/"


def _read() -> dict[str, str]:
    found = {each.name: each for each in files(__package__).iterdir()}
    return {name: each.read_text("utf-8") for name, each in found.items() if name.rpartition(".")[2] in _TYPES}


def wants_page(request: web.Request) -> bool:
    """Whether the request comes from a browser."""
    return "text/html" in request.headers.get("Accept", "")


class Page:
    """The files."""

    def __init__(self) -> None:
        self.texts = _read()

    def answer(self) -> web.Response:
        """Answer with the page itself."""
        return self._file("page.html")

    async def file(self, request: web.Request) -> web.Response:
        """Answer with one of its files."""
        name = request.match_info["name"]
        if name not in self.texts:
            raise web.HTTPNotFound
        return self._file(name)

    def _file(self, name: str) -> web.Response:
        kind = _TYPES[name.rpartition(".")[2]]
        return web.Response(text=self.texts[name], content_type=kind, charset="utf-8", headers=_HEADERS)
