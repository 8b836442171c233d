"""A JSON Schema of policy files, for editors, derived from the readers.

Every reader runs on recorders (``proxy.policy_yaml.json_schema_recorder``), so the schema cannot differ from loading.
If a reader checks more than a schema can express, the expected text of its error becomes the description.
"""

from typing import Any

from proxy.policy.document import Document, read_sections
from proxy.policy_yaml.fields import Fields
from proxy.policy_yaml.json_schema_recorder import MODES, Expectations, MappingRecorder, Node
from proxy.rules.guardrails import GUARDRAILS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of a policy file, an app's own included."""
    node = Node()
    node.field("app").note({"type": "string"})  # a reader asks for it, but does not read it on a recorder
    for mode in MODES:
        read_sections(Document(""), Fields(MappingRecorder(node, mode), Expectations()), True)
    found = node.schema()
    rule = found["properties"]["rules"]["additionalProperties"]
    rule["oneOf"] = [{"required": [guardrail]} for guardrail in GUARDRAILS]
    return {"$schema": _DIALECT, "title": "A policy of Keyrail", **found}
