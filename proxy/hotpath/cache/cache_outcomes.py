"""Why memory has no answer to a client's read."""

MISSED = 0
"""Nothing is in memory that this client may be sent."""
COUNTED = 1
"""It is in memory, and rules that only audit would have sent it."""
NOT_KEPT = 2
"""The reply is known to be one that is not kept: too large, or an error that lasts."""
UNREAD = 3
"""Redis has sent something that may be an invalidation."""
MIXED = 4
"""It is in memory, and only a part of it may be sent."""
UNASKED = 5
"""Memory answers no such command."""
