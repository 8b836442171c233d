"""What decides about the verdict of a rule, so that one knows how sure a verdict from evidence is."""

from enum import IntEnum


class JudgedBy(IntEnum):
    """What decides about a rule's verdict on a command. Each one includes those before it.

    Evidence has forms of commands (``proxy.traffic.command_form``), and exemplars, in which values are replaced by
    their lengths. It tells the verdict on all commands of a form, or only the verdict on exemplars, or none.
    """

    FORM = 0
    """The recorded form: all commands of a form get the same verdict, whatever their keys and values are."""
    NUMBERS = 1
    """The very numbers and sizes."""
    NAMES = 2
    """The names of keys, too."""
    DATA = 3
    """Other bytes, which evidence does not keep: the text of a script, a pattern, a word in a list of the policy."""
    STATE = 4
    """Earlier commands, replies, other clients, or what Redis has stored."""
