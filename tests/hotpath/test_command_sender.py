"""All bytes of clients leave through ``CommandSender``: no other module asks a connection to Redis to send anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from proxy.hotpath.upstream.outgoing import Outgoing
from proxy.hotpath.upstream.reply_actions import ReplyActions
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from tests.program_source import trees

SENDING = {"send_run", "send_parts", "send_commands", "send_again", "offer_commands"} | {
    "begin_partial",
    "send_partial",
    "end_partial",
}
"""What a connection to Redis sends by."""
WITHIN = {"_put", "outgoing"}
"""What these are made of."""
ALLOWED = {
    "hotpath/intake/command_sender.py": SENDING - {"offer_commands"},
    "hotpath/upstream/outgoing.py": WITHIN,
    "hotpath/upstream/upstream_pipeline.py": WITHIN,
    "net/connection/own_commands.py": {"offer_commands"},  # Keyrail's own questions, which are no client's
    "net/follow/sentinel_watch.py": {"offer_commands"},  # its own subscription to a Sentinel's events
    "net/cache/tracking.py": {"offer_commands"},  # and its own reads, likewise
    "server/stored/link.py": {"offer_commands"},  # a scan's connection, which no client has
}


def uses(tree: ast.Module) -> Iterator[str]:
    """The names of the attributes that are used, called or not: ``send = upstream.send_run`` is a use, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value  # getattr(upstream, "send_run")


@pytest.mark.source
def test_nobody_else_sends() -> None:
    for path, tree in trees().items():
        assert (SENDING | WITHIN) & set(uses(tree)) <= ALLOWED.get(path, set()), path


def test_the_names_are_all_there_are() -> None:
    takes_bytes = {
        name
        for kind in (Outgoing, ReplyActions, UpstreamPipeline)
        for name, method in vars(kind).items()
        if callable(method)
        and not name.startswith("__")
        and name.startswith(("send", "offer", "begin", "end", "submit"))
    }
    assert takes_bytes - {"end_round", "begin_late", "end_late"} == SENDING
