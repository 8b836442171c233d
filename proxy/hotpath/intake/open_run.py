# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The run that is being gathered: what the next commands of a client's read will leave as.

The commands lie in the client's own bytes one behind the other, from ``start`` to ``end``. A run ends where the next
command goes elsewhere (``turn``), and with the read (``leave``). With one Redis it leaves when it ends. With a
cluster upstream it is added to its node's portion, and all portions leave together, so that each node gets one piece of
a read.
"""

from proxy.hotpath.cluster.portions import Portion, Portions
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.replicas.client_reads import ClientReads
from proxy.hotpath.upstream.in_flight import EDIT_SOME
from proxy.hotpath.upstream.splice import Splice
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

_NOWHERE = -1


class OpenRun:
    """The next ``count`` commands for ``upstream``, behind what stands in ``splice`` already. ``wrote``: one of them
    may write. There is ``room`` for so many.

    With a cluster upstream (``portions``) they are for ``node``, and their ``portion`` is its, or that of its replica;
    while all are for one primary, there is none. ``direct``: commands may join at all. ``reads`` says what replicas may
    answer the client, and ``answered`` how many bytes have been answered from memory and have not left. ``seed`` is
    that of the prefix of the client's tenant (``Router``). All replies get the ``edit``, if there is one. ``is_plain``:
    neither several nodes nor replicas, memory nor limits concern its commands.
    """

    def __init__(self) -> None:
        self.upstream: UpstreamPipeline | None = None
        self.portions: Portions | None = None
        self.portion: Portion | None = None
        self.reads: ClientReads | None = None
        self.node = _NOWHERE
        self.splice = self._own_splice = Splice()
        self._own_portions = Portions()
        self.start = 0
        self.end = 0
        self.count = 0
        self.room = 0
        self.seed = 0
        self.wrote = False
        self.direct = False
        self.is_plain = False
        self.answered = 0
        self.edit: object = None

    def begin(self, upstream: UpstreamPipeline | None, divides: bool, position: int) -> None:
        """Nothing is gathered of the commands from ``position`` on; they are divided among nodes, or all for one."""
        self.upstream = upstream
        self.portions = self._own_portions if divides else None
        self.answered = self.seed = 0
        self.edit = None
        self._begin_at(position)

    def _begin_at(self, position: int) -> None:
        self.portion = None
        self.splice = self._own_splice
        self.node = _NOWHERE
        self.start = position
        self.end = position
        self.count = 0
        self.wrote = False

    def unsent(self) -> int:
        """Commands that have not left."""
        return self.count if self.portions is None else self.count + self.portions.count

    def place(self) -> int:
        """The number of the primary whose command is next, as ``ClientReads`` counts them."""
        return max(0, self.node)

    def turn(self, sender: CommandSender, data: bytes, p: bytes, upstream: UpstreamPipeline) -> None:
        """The commands from ``end`` on go to this connection, which is the only one of its server."""
        if self.count > 0:
            self._send(sender, data, p)
        self.upstream = upstream
        self.start = self.end

    def is_whole(self) -> bool:
        """Whether the commands from ``end`` on are the first of all, so that they may need no portion."""
        return self.count == 0 and self.portion is None

    def turn_to_portion(self, p: bytes, portion: Portion, upstream: UpstreamPipeline) -> None:
        """The same with a cluster upstream: they are of this portion."""
        if self.count > 0:
            self._add(p)
        self.upstream = upstream
        self.portion = portion
        self.splice = portion.splice
        self.start = self.end

    def turn_to_source(self, sender: CommandSender, data: bytes, p: bytes, source: UpstreamPipeline) -> bool:
        """The same for a replica of the node, or its primary again; False where that cannot be."""
        portions = self.portions
        if portions is None:
            self.turn(sender, data, p, source)
            return True
        portion = portions.of(source.number if source.reads_only else self.node)
        if portion.upstream is not source and (portion.upstream is not None or portions.full()):
            return False
        self.turn_to_portion(p, portion, source)
        return True

    def turn_to_edit(self, sender: CommandSender, data: bytes, p: bytes, edit: object) -> None:
        """The replies to the commands from ``end`` on get this edit, or none (None). Not with a cluster upstream."""
        if self.count > 0:
            self._send(sender, data, p)
        self.start = self.end
        self.edit = edit

    def leave(self, sender: CommandSender, data: bytes, p: bytes, behind: int) -> None:
        """All that is gathered leaves; the next command is at ``behind``."""
        portions = self.portions
        if portions is None or portions.count == 0:
            if self.count > 0:
                self._send(sender, data, p)
        else:
            if self.count > 0:
                self._add(p)
            sender.forward_portions(portions)
        self._begin_at(behind)

    def _add(self, p: bytes) -> None:
        portions, portion, upstream = self.portions, self.portion, self.upstream
        assert portions is not None, "only with a cluster upstream"
        assert upstream is not None, "a command was counted for it"
        if portion is None:
            portion = portions.of(self.node)
            self._own_splice, portion.splice = portion.splice, self._own_splice
        portions.add(portion, upstream, p, self.start, self.end, self.count, self.wrote)
        self._counted_off()

    def _send(self, sender: CommandSender, data: bytes, p: bytes) -> None:
        upstream, splice, start, end = self.upstream, self.splice, self.start, self.end
        assert upstream is not None, "a command was counted for it"
        if splice.size == 0:
            chunk = data if start == 0 and end == len(data) else p[start:end]
        else:
            splice.put(p, start, end)
            chunk = splice.take()
        if self.wrote:
            sender.note_write(upstream)
        sender.forward_run(upstream, chunk, self.count, self.wrote)
        if self.edit is not None:
            entry = upstream.tail
            assert entry is not None, "a shared connection has an entry for each run"
            entry.action, entry.payload = EDIT_SOME, self.edit
        self._counted_off()

    def _counted_off(self) -> None:
        self.room -= self.count
        self.count = 0
        self.wrote = False


class SpareRun:
    """A run that no read uses, if there is one: making one takes long. Of a read that breaks off, the run is lost."""

    def __init__(self) -> None:
        self.run: OpenRun | None = None

    def take(self) -> OpenRun:
        """A run that nobody else uses."""
        run = self.run
        self.run = None
        return OpenRun() if run is None else run
