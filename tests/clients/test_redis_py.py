"""redis-py works through Keyrail as it does with Redis.

Proves: its default connections, its pipelines (MULTI…EXEC), transactions with retries, locks, pub/sub with its thread,
scripts, blocking pools, iterators, several databases, both protocols, sync and asyncio. A default client's commands
stay on the shared upstreams: at least 99 of 100, pipelines included. 200 clients need no more upstreams than the pool
has.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import PATIENCE_SECONDS, eventually


@pytest.fixture
def keyrail(fleet: Fleet, engine_name: str, pooling: bool) -> Keyrail:
    fleet.engine(engine_name).do("FLUSHALL")
    return fleet.keyrail(engine_name, pooling=pooling)


@pytest.fixture
def client(keyrail: Keyrail, protocol: int) -> Iterator[Any]:
    client = redis.Redis(
        port=keyrail.address.port, protocol=protocol, decode_responses=True, socket_timeout=PATIENCE_SECONDS
    )
    yield client
    client.close()


def test_the_common_paths(client: Any) -> None:
    assert client.ping()
    assert client.set("k", "v", ex=100)
    assert client.get("k") == "v"
    assert client.set("k", "w", nx=True) is None
    assert 0 < client.ttl("k") <= 100
    assert client.mset({"a": "1", "b": "2"})
    assert client.mget("a", "none", "b") == ["1", None, "2"]
    assert client.hset("h", mapping={"f": "1", "g": "2"}) == 2
    assert client.hgetall("h") == {"f": "1", "g": "2"}
    assert client.zadd("z", {"x": 1.5, "y": 2}) == 2
    scores = client.zrange("z", 0, -1, withscores=True)
    assert [tuple(pair) for pair in scores] == [("x", 1.5), ("y", 2.0)]
    assert client.sadd("s", "1", "2") == 2
    assert set(client.smembers("s")) == {"1", "2"}
    assert client.rpush("l", "1", "2") == 2
    assert client.blpop(["l"], timeout=1) in (("l", "1"), ["l", "1"])
    assert client.xadd("x", {"f": "v"}, id="1-1") == "1-1"
    assert sorted(client.scan_iter(count=2)) == sorted(["a", "b", "h", "k", "l", "s", "x", "z"])
    assert client.delete("a", "b", "none") == 2
    assert client.config_get("maxmemory") == {"maxmemory": "0"}
    assert "redis_version" in client.info()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.incr("h")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("NOSUCHCOMMAND")


def test_pipelines(client: Any) -> None:
    for transaction in (True, False):
        with client.pipeline(transaction=transaction) as pipe:
            for index in range(300):
                pipe.set(f"k{index}", index).get(f"k{index}")
            answers = pipe.execute()
        assert answers[1::2] == [str(index) for index in range(300)]
        with client.pipeline(transaction=transaction) as pipe:
            pipe.set("s", "text").incr("s").get("s")
            answers = pipe.execute(raise_on_error=False)
        assert isinstance(answers[1], redis.ResponseError)
        assert answers[2] == "text"
    with client.pipeline() as pipe, pytest.raises(redis.ResponseError):
        pipe.execute_command("NOSUCHCOMMAND").get("s").execute()
    assert client.get("s") == "text"


def test_a_watched_counter(client: Any) -> None:
    """The recipe of redis-py's documentation: every increment counts, whoever interferes."""

    def increment() -> None:
        own: Any = redis.Redis(connection_pool=redis.ConnectionPool(**client.connection_pool.connection_kwargs))
        for _ in range(20):
            own.transaction(
                lambda pipe: (value := int(pipe.get("n") or 0), pipe.multi(), pipe.set("n", value + 1)), "n"
            )
        own.close()

    threads = [threading.Thread(target=increment) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_SECONDS)
    assert client.get("n") == "80"


def test_locks(client: Any) -> None:
    with client.lock("lock", timeout=600, blocking_timeout=PATIENCE_SECONDS):
        assert not client.lock("lock", timeout=600).acquire(blocking=False)
    lock = client.lock("lock", timeout=600)
    assert lock.acquire(blocking=False)
    lock.extend(20)
    lock.release()
    with pytest.raises(redis.exceptions.LockError):
        lock.release()


def test_publish_and_subscribe(client: Any) -> None:
    heard: list[str] = []
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe(news=lambda message: heard.append(message["data"]))
    pubsub.psubscribe(**{"n*": lambda message: heard.append(message["data"].upper())})
    thread = pubsub.run_in_thread(sleep_time=0.01, daemon=True)
    eventually(lambda: bool(client.publish("news", "ready") == 2))
    for index in range(50):
        client.publish("news", f"m{index}")
    eventually(lambda: {"m49", "M49"} <= set(heard))
    thread.stop()
    thread.join(PATIENCE_SECONDS)
    wanted = [text for text in heard if text.startswith("m")]
    assert wanted == [f"m{index}" for index in range(50)]
    pubsub.close()


def test_scripts(client: Any) -> None:
    """redis-py sends EVALSHA, and EVAL's source after NOSCRIPT."""
    script = client.register_script("return {KEYS[1], ARGV[1]}")
    assert script(keys=["k"], args=["v"]) == ["k", "v"]
    client.script_flush()
    assert script(keys=["k"], args=["w"]) == ["k", "w"]
    with client.pipeline() as pipe:
        script(keys=["k"], args=["x"], client=pipe)
        assert pipe.execute() == [["k", "x"]]


def test_databases_and_names(keyrail: Keyrail, protocol: int) -> None:
    clients: list[Any] = [
        redis.Redis(port=keyrail.address.port, db=db, protocol=protocol, client_name=f"name-{db}") for db in range(4)
    ]
    for db, each in enumerate(clients):
        each.set("k", db)
    for db, each in enumerate(clients):
        assert each.get("k") == str(db).encode()
        assert each.client_getname() in (f"name-{db}", f"name-{db}".encode())
        each.close()


def test_a_pool_shared_by_threads(keyrail: Keyrail, protocol: int) -> None:
    pool: Any = redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]  # redis-py has no types for it
        port=keyrail.address.port, protocol=protocol, max_connections=5, timeout=PATIENCE_SECONDS
    )
    client: Any = redis.Redis(connection_pool=pool)
    wrong: list[int] = []

    def work(number: int) -> None:
        for index in range(100):
            client.set(f"{number}", f"{number}-{index}")
            if client.get(f"{number}") != f"{number}-{index}".encode():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_SECONDS)
    assert wrong == []
    pool.disconnect()


def test_asyncio(fleet: Fleet, engine_name: str, keyrail: Keyrail, protocol: int) -> None:
    async def blocked_clients(count: int) -> None:
        engine = fleet.engine(engine_name)
        await asyncio.to_thread(engine.await_info, "clients", "blocked_clients", str(count))

    async def scenario() -> None:
        # Without a time of redis-py's own for reading, which would end a BLPOP that the test has yet to see blocked.
        client: Any = redis.asyncio.Redis(
            port=keyrail.address.port, protocol=protocol, decode_responses=True, socket_timeout=None
        )
        tokens = [f"token-{index}" for index in range(100)]
        await asyncio.gather(*(client.set(token, token) for token in tokens))
        assert await asyncio.gather(*(client.get(token) for token in tokens)) == tokens
        async with client.pipeline() as pipe:
            assert await pipe.set("k", "v").incr("n").get("k").execute() == [True, 1, "v"]
        async with client.pubsub() as pubsub:
            await pubsub.subscribe("c")
            assert (await pubsub.get_message(timeout=PATIENCE_SECONDS) or {})["type"] == "subscribe"
            assert await client.publish("c", "hello") == 1
            assert (await pubsub.get_message(timeout=PATIENCE_SECONDS) or {})["data"] == "hello"
        async with client.lock("lock", timeout=600):
            assert await client.exists("lock") == 1
        waiting = asyncio.create_task(client.blpop(["q"], timeout=0))
        await blocked_clients(1)
        await client.rpush("q", "job")
        assert list(await waiting) == ["q", "job"]
        await blocked_clients(0)
        blocked = asyncio.create_task(client.blpop(["q"], timeout=0))
        await blocked_clients(1)
        blocked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await blocked
        await blocked_clients(0)
        await client.rpush("q", "kept")
        assert await client.llen("q") == 1
        await client.aclose()

    asyncio.run(scenario())


def test_a_retrying_client_rides_out_a_restart(new_engine: Any, new_keyrail: Any, protocol: int) -> None:
    """Closed connections are what redis-py retries; it must never see an error that it takes for an answer."""
    engine: Engine = new_engine("valkey-9.1")
    keyrail: Keyrail = new_keyrail(engine.url)
    retry = redis.retry.Retry(redis.backoff.ConstantBackoff(0.1), 300)
    client: Any = redis.Redis(
        port=keyrail.address.port,
        protocol=protocol,
        retry=retry,
        retry_on_error=[redis.ConnectionError, redis.TimeoutError],
    )
    assert client.set("k", "v")
    for _ in range(2):
        engine.kill()
        back = threading.Timer(0.3, engine.start)
        back.start()
        assert client.set("k", "w")
        assert client.get("k") == b"w"
        back.join()
    client.close()


@pytest.mark.skipif(DIRECT, reason="Keyrail's own figures")
def test_default_clients_stay_on_the_pool(new_engine: Any, new_keyrail: Any) -> None:
    """Two hundred of them that come at once, each with a handshake, pipelines and transactions: 99 % pooled, and few
    upstreams: on two lanes four shared ones at most, and what was private for a moment."""
    engine: Engine = new_engine("valkey-9.1")
    keyrail: Keyrail = new_keyrail(engine.url)
    clients: list[Any] = [redis.Redis(port=keyrail.address.port) for _ in range(200)]
    most = 0
    with ThreadPoolExecutor(len(clients)) as crowd:
        list(crowd.map(lambda each: each.set("k", "v"), clients))
    most = max(most, int(engine.info("clients")["connected_clients"]))
    for round_ in range(5):
        for index, each in enumerate(clients):
            with each.pipeline() as pipe:
                for part in range(10):
                    pipe.set(f"k{index}:{part}", round_).get(f"k{index}:{part}")
                assert pipe.execute()[1] == str(round_).encode()
            assert each.get("k") == b"v"
        most = max(most, int(engine.info("clients")["connected_clients"]))
    assert most <= 10, f"{most} upstream connections for 200 clients"
    eventually(lambda: keyrail.metric("keyrail_commands_total", path="pooled") >= 200 * 5 * 20)
    pooled = keyrail.metric("keyrail_commands_total", path="pooled")
    assert keyrail.metric("keyrail_pooled_share") >= 0.99
    pinned = keyrail.metric("keyrail_commands_total", path="pinned")
    assert pooled >= 0.99 * (pooled + pinned)
    for each in clients:
        each.close()
