"""Keyspace notifications: the messages that each node of a cluster sends about its own keys, to its own subscribers.

A message of PUBLISH reaches the subscribers of all nodes, a notification only those of the node where it happened.
See https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/.
"""

from proxy.cluster.key_pattern import may_begin

_BEGINNINGS = (b"__keyspace@", b"__keyevent@")


def is_notification(channel: bytes) -> bool:
    """Whether the messages of this channel are notifications."""
    return channel.startswith(_BEGINNINGS)


def may_match_notifications(pattern: bytes) -> bool:
    """Whether a subscription to this pattern may get notifications."""
    return any(may_begin(pattern, beginning) for beginning in _BEGINNINGS)
