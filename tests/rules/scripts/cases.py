from tests.rules.cases import Case

CASES = [
    Case(
        "scripts",
        {"scripts": {"commands": "follow_rules", "dynamic_calls": "refuse"}},
        "EVAL return(redis.call(string.upper(ARGV[1]),KEYS[1])) 1 k:1 del",
        ("SET k:1 v",),
        "EVAL return(redis['call']('DEL',KEYS[2])) 2 k:2 k:1",
    ),
]
