# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The bytes that a client sends: bytes in, runs of commands out.

One pass over each read. Commands that the plan lets pass gather into runs (``Runs``). A command that the plan refuses
ends the run, and ``refuse`` answers in its place. Everything else stops the run and goes to the handler, as do the
commands that the sampler wants traced (``sampled``: what each stands for; ``passes``: the plan lets it go on):

    handle(command_id, data, request)   a command to judge or to route
    handle_inline(words, size)          an inline command, taken apart
    handle_large(data, request)         a bulk string too large to collect
    malformed(request)                  a protocol error

which answer TAKEN (go on behind it), WAIT (stop before it; ``resume`` will bring it again), or ENDED (read no more).

Flow control is three rules. No more than ``window`` replies are pending for one client: behind that its bytes wait.
While a client does not take what it has been sent (``full``), nothing more is forwarded for it. While bytes wait,
reading from the client is paused by ``hold``.

While the intake is ``running``, answers of the proxy's own to a client without pending replies gather with its sender;
they leave as one when it stops.

Bytes are left over in one of three ways: as they came (``pending``), or in ``unfinished``, where the beginning of a
command is, because it is put together (``Assembly``) or because it passes through in pieces (a ``RequestStream``).

The states that exclude each other are the ``phase``. What stands beside it is independent of it and of the others:

    sender.stalled, sender.full   reasons of the sender's: each can come and go at any time
    running                       a pass is under way, which what it calls must not begin anew
    again, direct                 of ``Runs``
"""

from proxy.hotpath.counting.call_counts import CallCounts
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake_handler import IntakeHandler, RequestStream
from proxy.hotpath.intake.run_ends import FULL, REFUSED, SPECIAL, STALLED
from proxy.hotpath.intake.runs import Runs
from proxy.hotpath.plan.hot_path_config import HotPathConfig
from proxy.wire.inline import split_inline
from proxy.wire.request import ARGUMENT_BYTES as _ARGUMENT
from proxy.wire.request import COMPLETE, EMPTY, INLINE, LARGE, NEED_MORE, UNBALANCED_QUOTES, Request, RequestLimits

# Under two names each: C integers in here, Python's for everybody else.
_TAKEN = 0
_WAIT = 1
_ENDED = 2
TAKEN = _TAKEN
WAIT = _WAIT
ENDED = _ENDED

# Whether the next command is read.
_READING = 0
_WAITING = 1
_FINISHED = 2
READING = _READING
"""Yes."""
WAITING = _WAITING
"""A command waits for something, and all behind it with it."""
FINISHED = _FINISHED
"""Nothing is read any more: the client is closed, or about to be."""

_ASSEMBLE = 16384


class Assembly:
    """The beginning of a command of many arguments. A command that is collected ``whole`` may have large values."""

    def __init__(self, data: bytes, limits: RequestLimits, whole: bool) -> None:
        self.buffer = bytearray(data)
        self.request = Request()
        self.request.scan(self.buffer, 0, limits)
        self.whole = whole


class Intake(Runs):
    """One client's unread bytes: commands that pass go to its ``sender``, ``handler`` decides about the others."""

    # Not compiled, a dictionary of so many names would be a kilobyte larger for each client.
    __slots__ = (
        "pending",
        "phase",
        "running",
        "unfinished",
    )

    def __init__(
        self,
        config: HotPathConfig,
        limits: RequestLimits,
        sender: CommandSender,
        handler: IntakeHandler,
        calls: CallCounts | None = None,
    ) -> None:
        super().__init__(config, limits, sender, handler, calls)
        self.phase = _READING
        self.running = False
        self.pending: bytes | None = None
        self.unfinished: Assembly | RequestStream | None = None

    def wait(self) -> None:
        """Go on no further until ``go_on``: a command waits for something."""
        if self.phase == _READING:
            self.phase = _WAITING

    def go_on(self) -> None:
        """The command waits no more; ``resume`` brings it."""
        if self.phase == _WAITING:
            self.phase = _READING

    def finish(self) -> None:
        """Read no more. A stream stays: its upstream holds the beginning of a command."""
        self.phase = _FINISHED
        self.pending = None
        if isinstance(self.unfinished, Assembly):
            self.unfinished = None

    def receive(self, data: bytes) -> None:
        """Take bytes that the client sent."""
        if self.phase == _FINISHED:
            return
        unfinished = self.unfinished
        if isinstance(unfinished, Assembly):
            unfinished.buffer += data
            self._assemble()
            return
        if unfinished is not None:
            unfinished.receive(data)
            return
        if self.pending is not None:
            data = self.pending + data
            self.pending = None
        if self._held():
            self.pending = data
            self._hold()
            return
        self._advance(data)

    def resume(self) -> None:
        """Go on with the bytes that waited, when nothing holds them any more."""
        if self._held():
            return
        data = self.pending
        if (data is not None or isinstance(self.unfinished, Assembly)) and self._client_has_left():
            return
        if data is not None:
            self.pending = None
            self._advance(data)
        elif isinstance(self.unfinished, Assembly):
            self._assemble()
        if not self._held() or (self.pending is None and not isinstance(self.unfinished, Assembly)):
            # What is left, if anything, is the beginning of a command, which needs more bytes.
            assert self.handler is not None
            self.handler.drained()

    def _client_has_left(self) -> bool:
        # What has waited must not run if its client has given it up meanwhile.
        assert self.handler is not None
        return self.handler.has_left()

    def _held(self) -> bool:
        sender = self.sender
        return self.phase != _READING or sender.stalled or sender.full or self.running

    def collect(self, data: bytes) -> None:
        """Collect the unfinished command at the start of ``data`` whole, however large its bulk strings are."""
        self.unfinished = Assembly(data, self.limits, True)

    def streams(self) -> bool:
        """Whether a request passes through in pieces."""
        return self.unfinished is not None and not isinstance(self.unfinished, Assembly)

    def unread(self) -> int:
        """Bytes that have arrived and wait."""
        unfinished = self.unfinished
        if isinstance(unfinished, Assembly):
            return len(unfinished.buffer)
        return 0 if self.pending is None else len(self.pending)

    def _hold(self) -> None:
        assert self.handler is not None
        self.handler.hold()

    def _keep(self, data: bytes, position: int, partial: bool) -> None:
        size = len(data)
        if position >= size:
            return
        if partial and size - position > _ASSEMBLE:
            # A command of many arguments: walk on where the walk stopped, instead of from its start for each read.
            self.unfinished = Assembly(data[position:], self.limits, False)
        else:
            self.pending = data if position == 0 else data[position:]

    def _assemble(self) -> None:
        assembly = self.unfinished
        assert isinstance(assembly, Assembly)
        if self._held():
            self._hold()
            return
        code = assembly.request.resume(assembly.buffer, self.limits)
        if code == NEED_MORE or (code == LARGE and assembly.whole):
            assert self.handler is not None
            self.handler.assembling(len(assembly.buffer) + _ARGUMENT * assembly.request.argc)
            return
        self.unfinished = None
        self._advance(bytes(assembly.buffer))

    def _advance(self, data: bytes) -> None:
        sender, handler = self.sender, self.handler
        assert handler is not None, "the client has left"
        self.running = True
        if self.cached_reads is not None:
            self.cached_reads.begin_pass()
        position = 0
        outcome = _TAKEN
        code = COMPLETE
        if sender.upstream is None and not self.again:
            handler.choose_upstream()
        request = self.config.request
        while outcome == _TAKEN:
            config = self.config
            code = self._gather(data, data, position)
            self.again = False
            position = request.start
            if code == NEED_MORE:
                break
            if code == STALLED:
                sender.stalled = True
                break
            end = request.end
            if code == FULL:
                position = end
                break
            if code == COMPLETE:
                outcome = _TAKEN  # the command was sent in parts
            elif code == SPECIAL:
                calls = self.calls  # of who it is before the command
                outcome = handler.handle(self.command_id, data, request)
                if outcome != _WAIT:
                    calls.numbers[self.command_id] += 1
            elif code == REFUSED:
                self.calls.numbers[self.command_id] += 1
                handler.refused(self.command_id, request)
                handler.refuse(config.plan.error)
            elif code == EMPTY:
                handler.empty()
            elif code == INLINE:
                outcome = self._inline(handler, data, position, end)
            elif code == LARGE:
                outcome = handler.handle_large(data, request)
                end = len(data)
            else:
                handler.malformed(request)
                outcome = _ENDED
            if outcome == _TAKEN:
                position = end
                if self.phase != _READING or sender.full:
                    break
        self.running = False
        if sender.out:
            sender.flush()
        self.again = outcome == _WAIT
        if outcome == _ENDED or self.phase == _FINISHED:
            self.phase = _FINISHED
            return
        self._keep(data, position, code == NEED_MORE)
        if self.pending is not None and self._held():
            self._hold()

    def _inline(self, handler: IntakeHandler, data: bytes, position: int, end: int) -> int:
        words = split_inline(data[position : end - 1], self.limits.mixed_quotes)
        if words is None:
            self.config.request.error = UNBALANCED_QUOTES
            handler.malformed(self.config.request)
            return _ENDED
        if not words:
            handler.empty()
            return _TAKEN
        calls = self.calls
        outcome = handler.handle_inline(words, end - position)
        if outcome != _WAIT:
            calls.add(self.command_id)
        return outcome
