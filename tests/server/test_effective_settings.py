"""`/config`: every setting in force is shown by its name, and no secret is."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from proxy.net.config.settings import Settings
from proxy.server.config import load_settings
from proxy.server.effective_settings import SET, shown
from tests.server.running import serve

PASSWORDS = ("pw-in-url", "pw-of-sentinel", "pw-of-key", "pw-of-listener")
UPSTREAMS = (
    "redis://ann:pw-in-url@h:1/2",
    "redis://h?password=pw-in-url&username=ann",
    "rediss://ann:pw-in-url@h?ssl_certfile=c&ssl_keyfile=k&ssl_password=pw-of-key&ssl_ca_certs=ca.pem",
    "redis+cluster://ann:pw-in-url@h:1,g:2",
    "redis+sentinel://ann:pw-in-url@h:1,g:2/main?sentinel_user=s&sentinel_password=pw-of-sentinel",
    "unix://ann:pw-in-url@/p?db=3",
)
LISTENERS = ("rediss://h:1?certificate=c&key=k&key_password=pw-of-listener", "unix:///l?mode=770")


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_every_setting_and_no_secret(upstream: str, tmp_path: Path) -> None:
    flags = {
        "upstream": [upstream],
        "listen": list(LISTENERS),
        "drain": ["2m"],
        "state_dir": ["s"],
        "client_auth": ["none"],
    }
    settings = load_settings(flags, {})
    told = shown(settings)
    text = json.dumps(told)
    assert told.keys() == {each.name for each in fields(Settings)} - {"secret"}
    assert (told["drain"], told["state_dir"], told["admin"]) == (120.0, "s", {"host": "127.0.0.1", "port": 9121})
    route = told["routes"][0]
    assert (route["policy"], route["upstream"]["username"], route["upstream"]["password"]) == ("default", "ann", SET)
    assert [each["address"]["url"] for each in route["listeners"]] == ["rediss://h:1", "unix:///l"]
    assert not [each for each in PASSWORDS if each in text], text
    assert settings.secret.hex() not in text
    file = tmp_path / "secret"
    file.write_text("pw-in-url")
    by_file = load_settings({"upstream": [f"redis://ann@h?password_file={file}"]}, {})
    assert shown(by_file)["routes"][0]["upstream"]["password"] == f"{SET} by {file}"


def test_it_is_what_is_in_force(tmp_path: Path) -> None:
    file = tmp_path / "keyrail.yaml"
    file.write_text("embedded: on\nworkers: 1\nclient_idle_timeout: 5m\n")
    with serve("--config", str(file), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--traces", "7") as keyrail:
        told = keyrail.ready().json("/config")["config"]
        assert (told["workers"], told["client_idle_timeout"], told["traces"]) == (1, 300.0, 7)
        assert told["max_clients"] > 0, "as the limit of open files allows"
        assert told["routes"][0]["upstream"]["url"].startswith("unix://")
        assert "/config" in keyrail.http("/")[1]
