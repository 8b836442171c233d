"""Policies: YAML files read, checked and compiled.

    sections/             the sections of a file
    networks.py           networks, and whether an address is in one
    zones.py              the zones of a network, by address
    tenants.py            apps that see only their own keys, and their prefixes
    tenant_scripts.py     scripts of tenants, judged by their text
    apps.py               the applications of a policy, and how their clients are recognised
    scope.py              which commands of which clients a rule is about
    model.py              a loaded policy
    document.py           reads one file
    load.py               reads a file and the files that it includes -> Policy
    precedence.py         which mode a rule has for which client
    checks/               rejects policies with contradictions or with parts that have no effect
    key_claims.py         which rule leaves keys to a more specific rule
    key_owners.py         whose a key is
    script_call_rules.py  script calls follow the rules for direct commands
    wording.py            contact and key format for refusals
    explain.py            explains what a policy does with a command, and why
    expectations.py       runs the tests of a policy
    acl/                  the ACL users of Redis that back a policy up
    schema_docs.py        the key schema as Markdown
    schema_export.py      the key schema as JSON Schema
    json_schema.py        the JSON Schema of policy files, for editors
    decision.py           what a policy decides about a command, and by which steps
    compile.py            Policy + command table -> CompiledPolicy: the plan, and the judgement behind it
    lower_policy.py       bound rules -> the plan
    plan_tables.py        plans as flat tables, which one process makes and others use

The packaged policies are YAML files like any other. This module imports nothing: workers read no policies, and must not
import the code that reads YAML.
"""
