"""What libraries and tools send in their daily work: those that cannot be installed beside the tests, and those that a
test without processes follows. The scripts make the same calls in the same forms as the libraries' own."""

from __future__ import annotations

from dataclasses import dataclass

Steps = tuple[tuple[str, ...], ...]


def steps(text: str, **scripts: str) -> Steps:
    """Commands, one on a line; ``@name`` stands for a script, and ``_`` in a word for a space."""
    lines = (line.split() for line in text.strip().splitlines())
    return tuple(tuple(scripts[word[1:]] if word[:1] == "@" else word for word in words) for words in lines)


@dataclass(frozen=True)
class Transcript:
    """The commands of a library in the order in which it sends them.

    `keeps`: its keys must have no TTL but its own. `independent`: its commands are questions of a tool, which goes on
    without some of them. `together`: so many of the first ones are one pipeline, of which a refusal stops none.
    """

    sends: Steps
    keeps: bool = False
    independent: bool = False
    together: int = 1


LOCK = (
    "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "
    "redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; "
    "return redis.call('pttl', KEYS[1]);"
)
RENEW = "if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then return redis.call('pexpire', KEYS[1], ARGV[1]) end"
UNLOCK = (
    "if redis.call('get', KEYS[3]) ~= false then return 1 end; "
    "if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end; "
    "if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then "
    "redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); return 0; "
    "else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); "
    "redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end;"
)
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
ENQUEUE = (
    "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end "
    "redis.call('HSET', KEYS[1], 'msg', ARGV[1], 'state', 'pending') redis.call('LPUSH', KEYS[2], ARGV[2]) return 1"
)
DEQUEUE = (
    "if redis.call('EXISTS', KEYS[2]) == 0 then local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[3]) "
    "if id then local key = ARGV[2] .. id redis.call('HSET', key, 'state', 'active') "
    "redis.call('ZADD', KEYS[4], ARGV[1], id) return redis.call('HGET', key, 'msg') end end return nil"
)
DONE = (
    "if redis.call('LREM', KEYS[1], 0, ARGV[1]) == 0 then return redis.error_reply('NOT FOUND') end "
    "redis.call('ZREM', KEYS[2], ARGV[1]) redis.call('DEL', KEYS[3]) "
    "if redis.call('INCR', KEYS[4]) == 1 then redis.call('EXPIREAT', KEYS[4], ARGV[2]) end"
)
DUE = (
    "local key, now = KEYS[1], ARGV[1] local jobs = redis.call('zrange', key, '-inf', now, 'byscore', 'limit', 0, 1) "
    "if jobs[1] then redis.call('zrem', key, jobs[1]) return jobs[1] end"
)
PUSH = "redis.call('rpush', KEYS[1], ARGV[1]) redis.call('rpush', KEYS[2], 1)"
POP = (
    "local job = redis.call('lpop', KEYS[1]) if job ~= false then redis.call('zadd', KEYS[2], ARGV[1], job) "
    "redis.call('lpop', KEYS[3]) end return {job}"
)
CONSUME = (
    "redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX') local consumed = redis.call('incrby', KEYS[1], ARGV[1]) "
    "local ttl = redis.call('pttl', KEYS[1]) if ttl == -1 then redis.call('expire', KEYS[1], ARGV[2]) end "
    "return {consumed, ttl}"
)
NAMES_KEYS = (
    "local command, queue = ARGV[1], KEYS[1] if command == 'enqueue' then redis.call('hset', queue .. '.msgs', "
    "ARGV[2], ARGV[3]) redis.call('rpush', queue, ARGV[2]) else return redis.call('keys', ARGV[2]) end"
)
GROUP_SEND = "for i = 1, #KEYS do redis.call('ZADD', KEYS[i], ARGV[#ARGV - 1], ARGV[i]) end"

TRANSCRIPTS = {
    "Redisson locks": Transcript(
        steps(
            """
            EVAL @lock 1 order:7:lock 30000 a1b2:1
            EVAL @renew 1 order:7:lock 30000 a1b2:1
            EVAL @unlock 3 order:7:lock redisson_lock__channel:{order:7:lock} redisson_unlock_latch:{order:7:lock}:r1 \
                0 30000 a1b2:1 PUBLISH 13500
            """,
            lock=LOCK,
            renew=RENEW,
            unlock=UNLOCK,
        )
    ),
    "asynq": Transcript(
        steps(
            """
            SADD asynq:queues mail
            EVAL @enqueue 2 asynq:{mail}:t:7 asynq:{mail}:pending body 7
            EVAL @dequeue 4 asynq:{mail}:pending asynq:{mail}:paused asynq:{mail}:active asynq:{mail}:lease \
                99 asynq:{mail}:t:
            EVAL @done 4 asynq:{mail}:active asynq:{mail}:lease asynq:{mail}:t:7 asynq:{mail}:processed:2026-11-28 \
                7 1802776000
            """,
            enqueue=ENQUEUE,
            dequeue=DEQUEUE,
            done=DONE,
        ),
        keeps=True,
    ),
    "Resque": Transcript(
        steps(
            """
            SADD resque:queues mail
            RPUSH resque:queue:mail {"class":"Mail","args":[7]}
            SADD resque:workers host:1:mail
            SET resque:worker:host:1:mail:started 2026-11-28
            HSET resque:workers:heartbeat host:1:mail now
            LPOP resque:queue:mail
            SET resque:worker:host:1:mail {"queue":"mail"}
            INCR resque:stat:processed
            DEL resque:worker:host:1:mail
            """
        ),
        keeps=True,
    ),
    "Sidekiq": Transcript(
        steps(
            """
            SADD queues default
            LPUSH queue:default {"class":"Mail","args":[7]}
            SADD processes host:1:abc
            HSET host:1:abc info x concurrency 5 busy 0
            EXPIRE host:1:abc 60
            BRPOP queue:default 2
            ZADD retry 1802776000.5 job
            EVAL @due 1 retry 1900000001
            INCRBY stat:processed 1
            """,
            due=DUE,
        ),
        keeps=True,
        together=2,
    ),
    "Laravel cache": Transcript(
        steps(
            """
            SETEX cache:users:7 300 i:1;
            GET cache:users:7
            SET cache:lock:users owner EX 10 NX
            EVAL @release 1 cache:lock:users owner
            DEL cache:users:7
            """,
            release=RELEASE,
        )
    ),
    "Laravel queue": Transcript(
        steps(
            """
            EVAL @push 2 laravel_database_queues:default laravel_database_queues:default:notify job
            EVAL @pop 3 laravel_database_queues:default laravel_database_queues:default:reserved \
                laravel_database_queues:default:notify 1802776000
            ZREM laravel_database_queues:default:reserved job
            """,
            push=PUSH,
            pop=POP,
        ),
        keeps=True,
    ),
    "Spring Session": Transcript(
        steps(
            """
            HSET spring:session:sessions:7a creationTime 1 maxInactiveInterval 1800 lastAccessedTime 1
            EXPIRE spring:session:sessions:7a 1800
            HGETALL spring:session:sessions:7a
            RENAME spring:session:sessions:7a spring:session:sessions:8b
            DEL spring:session:sessions:8b
            """
        )
    ),
    "rate-limiter-flexible": Transcript(
        steps("EVAL @consume 1 rlflx:user7 1 60\nGET rlflx:user7\nDEL rlflx:user7", consume=CONSUME)
    ),
    "Dramatiq": Transcript(
        steps(
            """
            EVAL @script 1 dramatiq:mail enqueue 7 body
            BRPOP dramatiq:mail 1
            """,
            script=NAMES_KEYS,
        ),
        keeps=True,
    ),
    "channels_redis": Transcript(
        steps(
            """
            BZPOPMIN asgispecific.a! 5
            ZADD asgi:group:chat 1 specific.a!b
            EXPIRE asgi:group:chat 86400
            EVAL @send 1 asgispecific.a! message 1 60
            """,
            send=GROUP_SEND,
        ),
        keeps=True,
    ),
    "redis_exporter": Transcript(
        steps("CLIENT SETNAME redis_exporter\nCONFIG GET *\nINFO ALL\nSLOWLOG LEN\nSLOWLOG GET 1\nLATENCY LATEST"),
        independent=True,
    ),
    "RedisInsight": Transcript(
        steps("INFO\nDBSIZE\nMODULE LIST\nSCAN 0 COUNT 500\nTYPE user:1:name\nMEMORY USAGE user:1:name\nCLIENT LIST"),
        independent=True,
    ),
    "Datadog Agent": Transcript(
        steps("INFO\nCONFIG GET *\nSLOWLOG GET 128\nCLIENT LIST\nINFO COMMANDSTATS"), independent=True
    ),
}

OTHERS = {
    "RQ": Transcript(
        steps(
            """
            SADD rq:queues rq:queue:mail
            HSET rq:job:7 status queued data x
            RPUSH rq:queue:mail 7
            LMOVE rq:queue:mail rq:intermediate:mail LEFT RIGHT
            ZADD rq:wip:mail 1802776000 7
            SMEMBERS rq:job::7:dependents
            DEL rq:job:7 rq:job:8
            """
        ),
        keeps=True,
    ),
    "Celery": Transcript(
        steps(
            """
            SADD _kombu.binding.celery celery
            LPUSH celery body
            BRPOP celery 1
            HSET unacked 7 body
            ZADD unacked_index 1802776000 7
            """
        ),
        keeps=True,
    ),
    "arq": Transcript(steps("PSETEX arq:job:7 86400000 x\nZADD arq:queue 1 7\nZRANGE arq:queue 0 -1"), keeps=True),
    "huey": Transcript(
        steps("LPUSH huey.redis.mail body\nBRPOP huey.redis.mail 1\nHSET huey.results.mail 7 x"), keeps=True
    ),
    "APScheduler": Transcript(steps("HSET apscheduler.jobs 7 x\nZADD apscheduler.run_times 1 7"), keeps=True),
    "BullMQ": Transcript(
        steps(
            """
            HSET bull:mail:meta opts.maxLenEvents 10000
            EVAL @add 2 bull:mail:wait bull:mail:id 7
            BZPOPMIN bull:mail:marker 5
            """,
            add="local rcall = redis.call local id = rcall('INCR', KEYS[2]) rcall('LPUSH', KEYS[1], id)",
        ),
        keeps=True,
    ),
    "bee-queue": Transcript(
        steps(
            """
            EVAL @add 2 bq:mail:jobs bq:mail:waiting 7 body
            BRPOPLPUSH bq:mail:waiting bq:mail:active 1
            EVAL @due 1 bq:mail:delayed 1802776000
            """,
            add="redis.call('hset', KEYS[1], ARGV[1], ARGV[2]) redis.call('lpush', KEYS[2], ARGV[1])",
            due="return redis.call('zrangebyscore', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 1000)",
        ),
        keeps=True,
    ),
    "Flask-Limiter": Transcript(
        steps(
            "EVAL @hit 1 LIMITS:LIMITER/10.0.0.1/index/5/1/minute 60\nGET LIMITS:LIMITER/10.0.0.1/index/5/1/minute",
            hit="local n = redis.call('INCRBY', KEYS[1], 1) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end",
        )
    ),
    "python-redis-lock": Transcript(
        steps(
            """
            SET lock:a owner NX EX 30
            EVAL @release 2 lock:a lock-signal:a owner 1000
            BLPOP lock-signal:a 1
            """,
            release="if redis.call('get', KEYS[1]) ~= ARGV[1] then return 1 end redis.call('del', KEYS[2]) "
            "redis.call('lpush', KEYS[2], 1) redis.call('pexpire', KEYS[2], ARGV[2]) redis.call('del', KEYS[1])",
        )
    ),
    "Django's cache": Transcript(steps("SET :1:a x EX 300\nGET :1:a\nMGET :1:a :1:b\nDEL :1:a :1:b")),
    "Flask-Caching": Transcript(steps("SETEX flask_cache_a 300 x\nMGET flask_cache_a flask_cache_b")),
    "Flask-Session": Transcript(steps("SETEX session:7 3600 x\nGET session:7")),
    "connect-redis": Transcript(steps("SET sess:7 x EX 3600\nGET sess:7\nDEL sess:7")),
}
"""Libraries that docs/libraries.md has sessions of; here is what a refusal's hint is tried with."""
