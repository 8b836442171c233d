"""Strict YAML for policy files: each value knows its line. Readers for the values that all guardrails share.

yaml_source.py           strict YAML: every scalar is text, every value knows its line
yaml_errors.py           YAML syntax errors in the form of all other problems
regular_file.py          reads a regular file, and nothing else
named_file.py            reads a file that a policy names, below its folder
errors.py                problems: place, found text, expected text; all reported at once
fields.py                one value of a file as a duration, a range, a choice …
globs.py                 reads patterns with ``*``
bounds.py                reads ``{default: 5m, min: 10s, max: 1d, jitter: 10%}``
shipped.py               where the packaged policies are
misspelt.py              suggests a known word for a misspelt one
json_schema_recorder.py  how the JSON Schema is derived from the readers

Each guardrail reads its own YAML with these readers. ``proxy.policy`` reads everything else in a file, and checks the
whole policy.
"""
