# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""A request with keys of several slots, split into one request for each slot.

A node refuses keys of several of its slots in one command, so it is sent a command for each slot:

    MGET a b c d    node 1: MGET a d    MGET b
                    node 2: MGET c

The arguments are copied as the client has sent them. An argument between two keys (MSET's values) goes with the key
before it. Where the first argument is the number of keys (MSETEX), each command gets its own number, and all get the
options behind the keys.
"""

from proxy.commands.keys import KeyFinder
from proxy.hotpath.cluster.router import Router
from proxy.wire.request import Request


class Split:
    """One request, split.

    ``nodes`` has the number of each node that gets something, in the order of the first key of each, ``chunks`` the
    bytes that it is sent, ``counts`` how many commands these are. ``places`` has the keys of each command, in the order
    of ``chunks``: where they stood among the keys of the request. ``options`` of them stand behind the keys; where that
    is not negative, the number of keys stands before them.
    """

    def __init__(self, name: bytes, keys: list[bytes], width: int, options: int = -1, behind: bytes = b"") -> None:
        self.name = name
        self.keys = keys
        self.width = width
        self.options = options
        self.behind = behind
        self.begin = b"*%d\r\n%b" % (1 + width, name)
        self.nodes: list[int] = []
        self.chunks: list[bytes] = []
        self.counts: list[int] = []
        self.places: list[list[int]] = []

    def command(self, places: list[int]) -> bytes:
        """The command about these keys."""
        if self.options >= 0:
            return self._counted(places)
        if len(places) == 1:
            return self.begin + self.keys[places[0]]
        pieces = [b"*%d\r\n" % (1 + len(places) * self.width), self.name]
        pieces.extend([self.keys[place] for place in places])
        return b"".join(pieces)

    def _counted(self, places: list[int]) -> bytes:
        number = b"%d" % len(places)
        argc = 2 + len(places) * self.width + self.options
        pieces = [b"*%d\r\n%b$%d\r\n%b\r\n" % (argc, self.name, len(number), number)]
        pieces.extend([self.keys[place] for place in places])
        pieces.append(self.behind)
        return b"".join(pieces)

    def add_node(self, node: int, commands: list[list[int]]) -> None:
        """This node gets a command for each of these groups of keys."""
        self.nodes.append(node)
        self.chunks.append(b"".join([self.command(places) for places in commands]))
        self.counts.append(len(commands))
        self.places.extend(commands)


def split(command_id: int, request: Request, data: bytes, keys: KeyFinder, router: Router) -> Split | None:
    """Split a scanned request by the slots of its keys; None where its arguments do not let themselves be split.

    ``nodes`` has UNOWNED where a slot has no node.
    """
    found = keys.find(command_id, request)
    first = keys.indexes[0] if found > 1 else 0
    if first != 1 and first != 2:
        return None
    width = keys.indexes[1] - first
    options = request.argc - first - found * width
    if width < first or options < 0 or (first == 1 and options > 0):
        return None
    by_slot: dict[int, list[int]] = {}
    by_node: dict[int, list[list[int]]] = {}
    arguments = []
    place = 0
    while place < found:
        index = keys.indexes[place]
        if index != first + place * width:
            return None
        arguments.append(data[request.ends[index - 1] + 2 : request.ends[index + width - 1] + 2])
        slot = router.slot(data, request.starts[index], request.ends[index], 0)
        places = by_slot.get(slot)
        if places is None:
            places = by_slot[slot] = []
            by_node.setdefault(router.owners[slot], []).append(places)
        places.append(place)
        place += 1
    name = data[request.header_end : request.ends[0] + 2]
    if first == 1:
        result = Split(name, arguments, width)
    else:
        behind = data[request.ends[first + found * width - 1] + 2 : request.end]
        result = Split(name, arguments, width, options, behind)
    for node, commands in by_node.items():
        result.add_node(node, commands)
    return result
