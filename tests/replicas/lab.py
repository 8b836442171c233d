"""A primary and two replicas, each behind a network of its own, and what may happen to them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Self

from tests.engines import Engine, Kind
from tests.replicas.stream import Stream
from tests.resp import eventually

_OPTIONS = {"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}


class Lab:
    """The servers, and the streams between the primary and each replica."""

    def __init__(self, kind: Kind, replicas: int = 2, options: dict[str, str] | None = None) -> None:
        self.replicas: list[Engine] = []
        self.streams: list[Stream] = []
        with ThreadPoolExecutor() as pool:
            starting = [pool.submit(Engine, kind, _OPTIONS | (options or {})) for _ in range(1 + replicas)]
            self.primary, *self.replicas = [each.result() for each in starting]
        try:
            for replica in self.replicas:
                stream = Stream(self.primary.port)
                self.streams.append(stream)
                replica.do("REPLICAOF", "127.0.0.1", stream.port)
            eventually(self.is_linked)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def servers(self) -> list[Engine]:
        return [self.primary, *self.replicas]

    def is_linked(self) -> bool:
        """Whether each replica gets what the primary writes, and has all of it."""
        written = int(self.primary.info("replication")["master_repl_offset"])
        told = [each.info("replication") for each in self.replicas]
        return all(each["master_link_status"] == "up" and int(each["slave_repl_offset"]) >= written for each in told)

    def load_anew(self, number: int) -> None:
        """This replica gets all data of its primary anew, and takes 2 ms to load each key. Wait until it loads."""
        replica = self.replicas[number]
        for name, value in (("key-load-delay", 2000), ("loading-process-events-interval-bytes", 1024)):
            replica.do("CONFIG", "SET", name, value)
        replica.do("REPLICAOF", "NO", "ONE")
        replica.do("SET", "apart", "v")  # else it has what its primary has, and loads nothing
        replica.do("REPLICAOF", "127.0.0.1", self.streams[number].port)
        eventually(lambda: replica.info("persistence")["loading"] == "1")

    def load_at_once(self) -> None:
        """Whoever loads data is done with it soon."""
        for replica in self.replicas:
            replica.do("CONFIG", "SET", "key-load-delay", 0)

    def mend(self) -> None:
        """Undo what a test has done, and wait until each replica has everything."""
        for server in self.servers:
            server.thaw()
        for stream in self.streams:
            stream.delay(0.0)
            stream.release()
            stream.mend()
        self.load_at_once()
        for replica in self.replicas:
            replica.do("CONFIG", "SET", "replica-serve-stale-data", "yes")
        eventually(self.is_linked)

    def reads(self) -> list[int]:
        """How many GETs each server has run, the primary first."""
        return [server.calls("get") for server in self.servers]

    def close(self) -> None:
        for server in self.servers:
            server.close()
        for stream in self.streams:
            stream.close()
