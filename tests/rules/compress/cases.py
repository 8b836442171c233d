from tests.rules.cases import Case

TEXT = "a" * 100
STORED = r"\x00\x01\x02\x00\x02d\x00\x00\x00\x1fa\x01\x00KPaaaaa"
CASES = [
    Case(
        "compress",
        {"compress": {"keys": ["packed:*"], "above": "64B", "codec": "lz4"}},
        f"SET packed:1 {TEXT}",
        refused=False,
        leaves=(f'SET packed:1 "{STORED}"',),
        group="compress",
    ),
]
