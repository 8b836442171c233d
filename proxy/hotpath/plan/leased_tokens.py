# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What may still be spent under a limit.

The hot path only spends: a command that the token sets afford is paid for and goes on, any other is judged. Whoever
judges (``rules.limits.token_buckets``) knows the time, and grants more. A run asks its token sets once what they
afford, and pays when it ends.
"""

# Under two names: a C integer in here, Python's for everybody else.
_UNLIMITED = 1 << 62
UNLIMITED = _UNLIMITED
"""More than can ever be spent."""


class LeasedTokens:
    """``left`` tokens; below zero after a command that cost more than there can ever be."""

    def __init__(self, left: int) -> None:
        self.left = left


class TokenSet:
    """One command costs one token of ``commands``, one of ``places``, and as many of ``volume`` as it has bytes."""

    def __init__(self, commands: LeasedTokens, volume: LeasedTokens, places: LeasedTokens) -> None:
        self.commands = commands
        self.volume = volume
        self.places = places

    def spend(self, commands: int, volume: int) -> None:
        """Pay for so many commands of ``volume`` bytes together."""
        self.commands.left -= commands
        self.places.left -= commands
        self.volume.left -= volume


class TokenSpender:
    """What a run spends from the token sets of one client: it asks them once, and pays when it ends.

    ``numbers`` says which of the token sets, as the plan has it; None while there are none. Nobody else may look at
    them before ``settle``.
    """

    def __init__(self) -> None:
        self.numbers: bytes | None = None
        self._token_sets: list[TokenSet] | None = None
        self._commands = 0
        self._volume = 0
        self._commands_left = 0
        self._volume_left = 0

    def forget(self) -> None:
        """A run that broke off has sent nothing, so it pays for nothing."""
        self.numbers = None

    def open(self, token_sets: list[TokenSet] | None, numbers: bytes) -> None:
        """Pay, and go on with these token sets. Until somebody has said which are the client's, they afford nothing."""
        self.settle()
        commands = _UNLIMITED
        volume = _UNLIMITED
        i = 0
        while i < len(numbers):
            if token_sets is None:
                commands = 0
                break
            token_set = token_sets[numbers[i]]
            commands = min(commands, token_set.commands.left, token_set.places.left)
            volume = min(volume, token_set.volume.left)
            i += 1
        self.numbers = numbers
        self._token_sets = token_sets
        self._commands = self._commands_left = commands
        self._volume = self._volume_left = volume

    def affords(self, size: int) -> bool:
        """Whether all of the token sets can pay for one more command of ``size`` bytes."""
        return self._commands_left > 0 and self._volume_left >= size

    def take(self, size: int) -> None:
        """Such a command goes on."""
        self._commands_left -= 1
        self._volume_left -= size

    def settle(self) -> None:
        """Pay for what was taken."""
        numbers = self.numbers
        token_sets = self._token_sets
        self.numbers = None
        if numbers is None or token_sets is None:
            return
        i = 0
        while i < len(numbers):
            token_set = token_sets[numbers[i]]
            token_set.spend(self._commands - self._commands_left, self._volume - self._volume_left)
            i += 1
