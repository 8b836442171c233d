"""Calls that scripts and functions may make: ``scripts: {commands: follow_rules}``.

rule.py           the settings, and the rule: judging and lowering
text.py           the calls in the text of a Lua script
calls.py          these calls with the keys and arguments of one run
libraries.py      functions and their libraries, from FUNCTION LIST
memory.py         scripts and functions that were seen
seen.py           the script of a command: its text, or its SHA1
own_arguments.py  calls with no keys but elements of KEYS, which stand nowhere else
own_keys.py       the keys that a script can use, where its text proves that there are no others
lua_tokens.py     Lua tokens
lua_names.py      what names in Lua code stand for
lua_callbacks.py  functions of a library that only Redis calls
lua_reach.py      whether Lua code uses its keys, and what scripts share, only in calls
yaml.py           reads its YAML
"""
