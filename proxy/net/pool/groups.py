"""Members of groups, which are found without a look at all others."""

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

Member = TypeVar("Member")
Group = TypeVar("Group", bound=Hashable)


class Groups(Generic[Member, Group]):
    """Each member is in one group; who is in none is not kept. A group has its members in the order in which they came.

    It is noted with each member where that is, so that nobody who puts it elsewhere has to know.
    """

    def __init__(self) -> None:
        self._group_of: dict[Member, Group] = {}
        self._members: dict[Group, dict[Member, None]] = {}

    def put(self, member: Member, group: Group | None) -> None:
        """It is in this group now, and in no other one."""
        before = self._group_of.get(member)
        if before == group:
            return
        if before is not None:
            del self._group_of[member], self._members[before][member]
            if not self._members[before]:
                del self._members[before]
        if group is not None:
            self._group_of[member] = group
            self._members.setdefault(group, {})[member] = None

    def of(self, group: Group) -> Collection[Member]:
        """Those in this group now."""
        return self._members.get(group, {}).keys()

    def all(self) -> Mapping[Group, Collection[Member]]:
        """The groups that have members."""
        return {group: members.keys() for group, members in self._members.items()}
