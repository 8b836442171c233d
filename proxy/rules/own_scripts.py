"""The scripts that rules send as hidden commands, for engines without EXPIRE's options.

They return no error of their own making: an error is the engine's, so a node of a cluster that answers one has run
nothing (see ``session.cluster.redirects``).
"""

GIVE = b"if redis.call('TTL',KEYS[1])==-1 then return redis.call('EXPIRE',KEYS[1],ARGV[1]) end return 0"
"""KEYS[1] gets a TTL of ARGV[1] seconds, if it has none."""
RENEW = (
    b"local t=redis.call('TTL',KEYS[1]) if t>=0 and t<tonumber(ARGV[1]) "
    b"then return redis.call('EXPIRE',KEYS[1],ARGV[1]) end return 0"
)
"""Its TTL becomes longer."""
CHANGE = b"if redis.call('PTTL',KEYS[1])>=0 then return redis.call('EXPIRE',KEYS[1],ARGV[1]) end return 0"
"""Its TTL becomes another one, if it has one."""
OWN_SCRIPTS = frozenset({GIVE, RENEW, CHANGE})
