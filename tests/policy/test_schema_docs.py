"""The schema as Markdown: one table for each app, with all special characters escaped."""

from pathlib import Path

import pytest

from proxy.cli import main
from proxy.policy.schema_docs import schema_docs
from tests.policy.given import policy

POLICY = """
apps:
  checkout: {team: checkout, contact: "#checkout", match: {user: checkout}}
  data: {match: {user: data}}
schema:
  session:
    key: "session:{id:uuid}"
    type: hash
    ttl: {default: 90m, sliding: true, max: 7d}
    fields: {at: int, "a|*": string}
  page: {key: "cache:{env:prod|dev}:{path...}", type: string, ttl: {default: 5m, jitter: 10%, min: 10s}, app: checkout}
  jobs:
    key: "queue:{name}"
    type: list
    size: {max: 1500B, members: 5000, members_per_write: 50, lists: trim}
    app: checkout
    about: "<b> a|b"
  raw: {key: "raw:`{id}", ttl: {required: true, max: 1h}, size: 10KB, app: data}
  any: {key: "{any...}", ttl: 1d12h}
defaults: {mode: off}
rules: {t: {schema: type}, l: {schema: ttl}, s: {schema: size}, f: {schema: fields}}
"""

TEXT = r"""# Keys

## Shared

| keys | name | type | TTL | size | about |
|---|---|---|---|---|---|
| `session:{id:uuid}` | session | hash of `at` int, `a\|*` string | 1h30m, renewed by each access; at most 7d |  |  |
| `{any...}` | any | any | 1d12h |  |  |

## checkout

Owned by team checkout, \#checkout.

| keys | name | type | TTL | size | about |
|---|---|---|---|---|---|
| `cache:{env:prod\|dev}:{path...}` | page | string | 5m ± 10%; at least 10s |  |  |
| `queue:{name}` | jobs | list |  | 1500B, 5,000 members, lists trimmed, 50 members per write | \<b\> a\|b |

## data

| keys | name | type | TTL | size | about |
|---|---|---|---|---|---|
| ``raw:`{id}`` | raw | any | required; at most 1h | 10KB |  |
"""


def test_the_whole_text() -> None:
    assert schema_docs(policy(POLICY)) == TEXT


RELATED = """
apps: {shop: {match: {user: shop}}}
schema:
  order: {key: "order:{id:int}", app: shop, example: "order:7", relates_to: [user, cart]}
  cart: {key: "cart:{user:int}", app: shop}
  user: {key: "user:{id:int}"}
rules: {}
"""


def test_entries_that_belong_together_are_a_picture() -> None:
    assert schema_docs(policy(RELATED)).endswith("""

## How they belong together

```mermaid
flowchart LR
    e0["shop/order<br/>order#58;#123;id#58;int#125;"]
    e1["shop/cart<br/>cart#58;#123;user#58;int#125;"]
    e2["user<br/>user#58;#123;id#58;int#125;"]
    e0 --> e2
    e0 --> e1
```
""")
    assert "| `order:{id:int}`<br/>such as `order:7` | order |" in schema_docs(policy(RELATED))


def test_a_policy_without_a_schema_says_so() -> None:
    assert schema_docs(policy("rules: {}")) == "# Keys\n\nThis policy has no schema.\n"


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("keyrail: 1\n" + POLICY, encoding="utf-8")
    assert main(["schema", "docs", str(file)]) == 0
    assert capsys.readouterr().out == TEXT
    file.write_text("keyrail: 1\nschema: {a: {key: '{'}}\nrules: {b: {}}\n", encoding="utf-8")
    assert main(["schema", "docs", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.partition(f"{file}:")[0] for line in said.err.splitlines()] == ["keyrail: "] * 2
