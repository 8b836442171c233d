"""The tables of options, paths of the admin port and metrics are complete, with the real defaults."""

from __future__ import annotations

import re
from collections.abc import Callable

from proxy.net.config.settings import Settings
from proxy.server.options import OPTIONS, OptionScope
from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import Keyrail
from tests.readme.blocks import DOCS


def test_the_table_of_options_is_complete() -> None:
    listed = re.findall(r"^\| `--([a-z-]+)", (DOCS / "options.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted([option.flag.removeprefix("--") for option in OPTIONS] + ["config"])


def test_the_table_of_options_has_the_real_defaults() -> None:
    shown = dict(
        re.findall(r"^\| `--([a-z-]+)[^|]*\| `?([^|`]*?)`? *\|", (DOCS / "options.md").read_text("utf-8"), re.MULTILINE)
    )
    real = Settings(routes=())
    for option in OPTIONS:
        if option.scope is OptionScope.GROUP:
            text = shown[option.flag.removeprefix("--")]
            assert (option.read(text) if text else None) == getattr(real, option.name), option.flag


def test_the_paths_of_the_admin_port_are_complete(fleet: Fleet) -> None:
    answered = fleet.keyrail("valkey-9.1").http("/")[1]
    listed = re.findall(r"^\| `(/[\w.]+)` \|", (DOCS / "admin.md").read_text("utf-8"), re.MULTILINE)
    assert listed == answered.split()[1:]


def test_the_table_of_metrics_is_complete(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]
) -> None:
    metrics = new_keyrail(new_engine().url, policy="default").http("/metrics")[1]
    families = set(re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE))
    listed = set(re.findall(r"^\| `(keyrail_\w+)", (DOCS / "metrics.md").read_text("utf-8"), re.MULTILINE))
    assert listed == families
