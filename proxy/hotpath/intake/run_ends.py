"""Why a run ends, where the scanner has found a whole command."""

SPECIAL = 10
"""The next command is not for a run."""
STALLED = 11
"""So many replies are pending for the client that the next command waits."""
REFUSED = 12
"""The plan refuses the next command."""
SPLIT = 13
"""The next command has keys of several slots."""
FULL = 14
"""The client does not take what it has been sent; the command is answered."""
ANSWERED = 15
"""The command is answered."""
