"""How a pipeline writes: to its transport, or through somebody who looks at what leaves."""

import asyncio
from collections.abc import Callable

from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

Write = Callable[[bytes], object]
Written = Callable[[UpstreamPipeline], object]


class Writing:
    """Of one pipeline. What calls nobody costs nothing: then the pipeline calls the transport itself."""

    __slots__ = ("_pipeline", "_through", "_transport", "_written")

    def __init__(self, pipeline: UpstreamPipeline) -> None:
        self._pipeline = pipeline
        self._transport: asyncio.Transport | None = None
        self._through: Write | None = None
        self._written: Written | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """There is a transport."""
        self._transport = transport
        self._settle()

    def go_through(self, write: Write | None) -> None:
        """What is written goes through ``write``, which calls the transport; None: through nobody any more."""
        self._through = write
        self._settle()

    def when_written(self, act: Written) -> None:
        """Call ``act`` once, behind the next bytes that go through nobody."""
        self._written = act
        self._settle()

    def _settle(self) -> None:
        if self._transport is not None and not self._pipeline.closed:
            usual = self._transport.write if self._written is None else self._write_once
            self._pipeline.write = self._through or usual

    def _write_once(self, data: bytes) -> None:
        assert self._transport is not None, "it has written before it could"
        act, self._written = self._written, None
        self._settle()
        self._transport.write(data)
        if act is not None:
            act(self._pipeline)
