"""Policies: YAML files read, checked and compiled.

    sections/             the sections of a file
    apps.py               the applications of a policy, and how a client is recognised as one
    model.py              a loaded policy
    document.py           reads one file
    load.py               reads a file and what it includes -> Policy
    precedence.py         which mode a rule has for which client
    checks/               rejects policies that contradict themselves, or say something that has no effect
    key_claims.py         which rule leaves keys to which more specific one
    script_call_rules.py  script calls follow the rules for direct commands
    wording.py            contact and key format for refusals
    explain.py            what a policy does with a command, and why
    expectations.py       runs the tests of a policy
    schema_docs.py        the key schema as Markdown
    json_schema.py        the JSON Schema of policy files, for editors
    decision.py           what a policy decides about a command, and by which steps
    compile.py            Policy + command table -> CompiledPolicy: the plan, and the judgement behind it

The packaged policies are YAML files like any other. Nothing is imported here: a worker reads no policies, and would
import all that reads YAML.
"""
