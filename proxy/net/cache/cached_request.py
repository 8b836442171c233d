"""What the local cache asks Redis for, to answer a read from memory."""

from functools import partial

from proxy.commands.cached_reads import CACHED_READS, depends_on_whole_hash, fields_read, reply_in_resp2
from proxy.commands.command import Command
from proxy.hotpath.cache.cached_requests import part_of
from proxy.local_cache.expected import CachedRequest
from proxy.net.cache.tracking import TrackedServer
from proxy.net.cache.tracking_setup import FieldTtls


def request_for(server: TrackedServer, command: Command, name: bytes, request: bytes) -> CachedRequest | None:
    """The request for this key of a read; None if its reply cannot be kept."""
    read = CACHED_READS[command.spec.name]
    if read.parts:
        return CachedRequest(name, part_of(name), (), partial(reply_in_resp2, read, 2))
    fields = fields_read(read, command.argv)
    if depends_on_whole_hash(read) or fields:
        if server.field_ttls is FieldTtls.UNTOLD:
            return None
        if server.field_ttls is FieldTtls.NONE:
            fields = ()
        elif depends_on_whole_hash(read):
            return None
    return CachedRequest(name, request, fields, partial(reply_in_resp2, read, len(command.argv)))
