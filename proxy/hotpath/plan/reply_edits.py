# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Edits of replies that need no judging of the request: a rule has one for each command, whatever its arguments."""

from proxy.hotpath.plan.name_checks import NameProgram


class ReplyProgram:
    """The edit of the rule at ``place``, for requests with a key that does not pass ``names``. The process that runs
    the plan puts the ``edit`` there."""

    def __init__(self, names: NameProgram, place: int) -> None:
        self.names = names
        self.place = place
        self.edit: object = None
