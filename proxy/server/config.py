"""Reads the settings: the command line wins over the environment, and that over the config file. All problems are
reported at once.

A config file holds the options of ``options.OPTIONS`` by name. The options of a route (``listen``, ``upstream``,
``policy`` …) stand at its top, or there are any number of routes with names:

    workers: 2
    routes:
      - {name: cache, listen: "redis://127.0.0.1:6380", upstream: "redis://cache:6379", policy: cache.yaml}
      - {name: queue, listen: ["redis://127.0.0.1:6381", "unix:///run/queue.sock"], upstream: "queue:6379"}

Flags and variables about a route override a file with one route. With several routes they are an error, since it would
be unclear which route they mean. Paths in a config file start at that file's folder.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proxy.cluster.shares import Advertised
from proxy.net.config.address import ListenAddress, UpstreamAddress, parse_listen
from proxy.net.config.client_auth import ClientAuth
from proxy.net.config.settings import (
    Embedded,
    ListenerSettings,
    PolicyKind,
    PolicySource,
    Presented,
    ReadFrom,
    RouteSettings,
    Settings,
    ViolationsSettings,
)
from proxy.policy_yaml import yaml_source
from proxy.policy_yaml.misspelt import did_you_mean, meant_by
from proxy.server.options import ENVIRONMENT_PREFIX, OPTIONS, RETIRED, Option, OptionScope

CONFIG_FLAG = "--config"
CONFIG_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"

_ROUTE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_DEFAULT_ROUTE = "default"
_MISSPELT_VARIABLE = 0.8
"""The threshold of ``policy_yaml.misspelt``. It is stricter here: the environment has variables of other programs."""


class ConfigError(Exception):
    """A configuration that cannot be used; ``problems`` has one line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class _Given:
    """One option's value with its source, for error messages: ``file.yaml:3: routes[0].listen``."""

    value: Any
    place: str


_Layer = dict[str, _Given]
_UNREAD = object()
"""The value of an option that is given and cannot be read: that is a problem already, and it is not missing."""


@dataclass(frozen=True, slots=True)
class _File:
    """A config file: options of the group, and routes (one without a name if its options stand at the top)."""

    group: _Layer
    routes: tuple[tuple[str, _Layer], ...]
    named: bool


def load_settings(flags: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> Settings:
    """Build the settings from the flags (texts by option name, "config" included) and the environment.

    Raises ConfigError.
    """
    problems: list[str] = []
    over = _read_environment(environment, problems) | _read_flags(flags, problems)
    _settle_upstream(over, flags, environment)
    config = flags.get("config", [environment.get(CONFIG_VARIABLE, "")])[-1]
    if not config and "config" in flags:
        problems.append(f"{CONFIG_FLAG}: expected a file")
    file = _read_file(Path(config), problems) if config else _File({}, ((_DEFAULT_ROUTE, {}),), named=False)
    over_route = {name: given for name, given in over.items() if _SCOPES[name] is OptionScope.ROUTE}
    if over_route and len(file.routes) > 1:
        place = next(iter(over_route.values())).place
        problems.append(f"{place}: this option is about one route, but {config} has {len(file.routes)} routes")
        over_route = {}
    group = file.group | {name: given for name, given in over.items() if _SCOPES[name] is OptionScope.GROUP}
    routes = tuple(_build_route(name, _override(layer, over_route), problems) for name, layer in file.routes)
    _check_listeners(routes, problems)
    if problems:
        raise ConfigError(problems)
    return replace(Settings(routes=routes), **{name: given.value for name, given in group.items()})


_SCOPES = {option.name: option.scope for option in OPTIONS}


def _read_flags(flags: Mapping[str, Sequence[str]], problems: list[str]) -> _Layer:
    layer: _Layer = {}
    problems += [f"--{name}: {instead}" for name, instead in RETIRED.items() if name in flags]
    for option in OPTIONS:
        if option.name in flags:
            texts = [(text, option.flag) for text in flags[option.name]]
            _put(layer, option, texts if option.repeatable else texts[-1:], problems)
    return layer


def _read_environment(environment: Mapping[str, str], problems: list[str]) -> _Layer:
    """Read the known variables. Unknown ones may come from elsewhere: Kubernetes sets KEYRAIL_PORT for a service.

    An unknown variable is an error only if its name is almost an option: otherwise a misspelt KEYRAIL_POLICY would have
    no effect.
    """
    layer: _Layer = {}
    for option in OPTIONS:
        text = environment.get(option.variable, "")
        if text:
            texts = re.split(r"[,\s]+", text.strip()) if option.repeatable else [text]
            _put(layer, option, [(text, option.variable) for text in texts], problems)
    retired = {ENVIRONMENT_PREFIX + name.upper(): instead for name, instead in RETIRED.items()}
    problems += [f"{name}: {instead}" for name, instead in retired.items() if environment.get(name)]
    known = {CONFIG_VARIABLE, *(option.variable for option in OPTIONS)}
    for name in sorted(environment.keys() - known - retired.keys()):
        suffix = name.removeprefix(ENVIRONMENT_PREFIX)
        meant = meant_by(suffix, (each.removeprefix(ENVIRONMENT_PREFIX) for each in known), _MISSPELT_VARIABLE)
        if suffix != name and meant is not None:
            problems.append(f"{name}: unknown variable; did you mean {ENVIRONMENT_PREFIX}{meant}?")
    return layer


def _put(layer: _Layer, option: Option, texts: Sequence[tuple[str, str]], problems: list[str]) -> None:
    """Read an option's texts (each with its place) into ``layer``."""
    values = []
    for text, place in texts:
        try:
            values.append(option.read(text))
        except ValueError as error:
            problems.append(f"{place}: {error}")
    if texts and len(values) == len(texts):
        layer[option.name] = _Given(tuple(values) if option.repeatable else values[0], texts[0][1])
    elif texts:
        layer[option.name] = _Given(_UNREAD, texts[0][1])


def _settle_upstream(over: _Layer, flags: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> None:
    """Let --upstream win over KEYRAIL_EMBEDDED, and --embedded over KEYRAIL_UPSTREAM."""
    for name, other in (("upstream", "embedded"), ("embedded", "upstream")):
        by_variable = ENVIRONMENT_PREFIX + other.upper() in environment
        if name in flags and other not in flags and by_variable:
            over.pop(other, None)


def _override(layer: _Layer, over: _Layer) -> _Layer:
    """Return a route's options, overridden by flags and variables."""
    kept = dict(layer)
    if "upstream" in over or "embedded" in over:
        kept.pop("upstream", None)
        kept.pop("embedded", None)
    return kept | over


def _read_file(path: Path, problems: list[str]) -> _File:
    nothing = _File({}, (), named=True)
    found = yaml_source.Problems()
    document = yaml_source.read_yaml(path, found)
    problems.extend(str(problem) for problem in found.found)
    if document is None:
        return nothing
    if not isinstance(document, yaml_source.Mapping):
        problems.append(f"{document.where}: expected options, as in `workers: 2`")
        return nothing
    everything = _read_mapping(document, {option.name for option in OPTIONS} | {"routes"}, path, problems)
    group = {name: given for name, given in everything.items() if _SCOPES[name] is OptionScope.GROUP}
    route = {name: given for name, given in everything.items() if _SCOPES[name] is OptionScope.ROUTE}
    listed = document.entries.get("routes")
    if listed is None:
        return _File(group, ((_DEFAULT_ROUTE, route),), named=False)
    if route:
        place = next(iter(route.values())).place
        problems.append(f"{place}: this option is about one route, and this file has `routes`: move it to a route")
    return _File(group, _read_routes(listed, path, problems), named=True)


def _read_routes(listed: yaml_source.Value, path: Path, problems: list[str]) -> tuple[tuple[str, _Layer], ...]:
    if not isinstance(listed, yaml_source.Sequence) or not listed.items:
        problems.append(f"{listed.where}: routes: expected a list of routes, each with a name")
        return ()
    allowed = {option.name for option in OPTIONS if option.scope is OptionScope.ROUTE} | {"name"}
    routes: dict[str, _Layer] = {}
    for item in listed.items:
        if not isinstance(item, yaml_source.Mapping):
            problems.append(f"{item.where}: {item.path}: expected a route such as {{name: …, upstream: …}}")
            continue
        layer = _read_mapping(item, allowed, path, problems)
        name = _read_name(item, problems)
        if name in routes:
            problems.append(f"{item.where}: {item.path}.name: a second route named {name!r}")
        needed = ("listen",) if "embedded" in layer else ("listen", "upstream")
        problems.extend(f"{item.where}: {item.path}: expected {key!r}" for key in needed if key not in item.entries)
        routes[name] = layer
    return tuple(routes.items())


def _read_name(route: yaml_source.Mapping, problems: list[str]) -> str:
    name = route.entries.get("name")
    if isinstance(name, yaml_source.Scalar) and _ROUTE_NAME.fullmatch(name.text):
        return name.text
    where = route.where if name is None else name.where
    problems.append(f"{where}: {route.path}.name: expected a name of letters, digits, '-', '_' and '.'")
    return f"{route.path} without a name"


def _read_mapping(mapping: yaml_source.Mapping, allowed: set[str], file: Path, problems: list[str]) -> _Layer:
    layer: _Layer = {}
    options = {option.name: option for option in OPTIONS}
    for key, value in mapping.entries.items():
        if key not in allowed:
            prefix = f"{mapping.path}." if mapping.path else ""
            known = ", ".join(sorted(allowed))
            unknown = f"unknown key, expected one of {known}{did_you_mean(key, allowed)}"
            problems.append(f"{mapping.keys[key]}: {prefix}{key}: {RETIRED.get(key, unknown)}")
            continue
        option = options.get(key)
        if option is None:  # the name of a route, or the routes
            continue
        texts = _texts(option, value, problems)
        _put(layer, option, texts, problems)
        if option.name in layer:
            given = layer[option.name]
            layer[option.name] = _Given(_beside(given.value, file), given.place)
    return layer


def _texts(option: Option, value: yaml_source.Value, problems: list[str]) -> list[tuple[str, str]]:
    """Return the option's texts in the file, each with its place."""
    if option.mapping and isinstance(value, yaml_source.Mapping):
        return _joined(value, problems)
    items = value.items if option.repeatable and isinstance(value, yaml_source.Sequence) else (value,)
    texts = []
    for item in items:
        if isinstance(item, yaml_source.Scalar):
            texts.append((item.text, f"{item.where}: {item.path}"))
        else:
            problems.append(f"{item.where}: {item.path}: expected text, got {yaml_source.describe(item)}")
    if not items:
        problems.append(f"{value.where}: {value.path}: expected at least one URL")
    return texts


def _joined(mapping: yaml_source.Mapping, problems: list[str]) -> list[tuple[str, str]]:
    """Return a mapping as the text that the command line has for it: ``A=B,C=D``."""
    for value in mapping.entries.values():
        if not isinstance(value, yaml_source.Scalar):
            problems.append(f"{value.where}: {value.path}: expected text, got {yaml_source.describe(value)}")
            return []
    pairs = [f"{key}={value.text}" for key, value in mapping.entries.items() if isinstance(value, yaml_source.Scalar)]
    return [(",".join(pairs), f"{mapping.where}: {mapping.path}")]


def _beside(value: Any, file: Path) -> Any:
    """Resolve the path of a file from the config file's folder."""
    match value:
        case PolicySource(path=Path() as path):
            return PolicySource(value.kind, str(file.parent / path))
        case ViolationsSettings(path=Path() as path):
            return ViolationsSettings(file.parent / path)
        case Path():
            return file.parent / value
    return value


def _build_route(name: str, given: _Layer, problems: list[str]) -> RouteSettings:
    layer = {option: each for option, each in given.items() if each.value is not _UNREAD}
    embedded = layer.get("embedded")
    upstream = layer.get("upstream")
    engine: Embedded | None = None if embedded is None else embedded.value
    if embedded is not None and engine is not None and upstream is not None:
        problems.append(f"{embedded.place}: conflicts with the upstream of {upstream.place}: give one of them")
    policy = layer.get("policy")
    listen = layer.get("listen")
    addresses: tuple[ListenAddress, ...] = (parse_listen("redis://127.0.0.1"),) if listen is None else listen.value
    client_auth, password_file = _read_client_auth(layer, problems)
    read_from, aliases = layer.get("read_from"), layer.get("aliases")
    if policy is not None and policy.value.path is not None and read_from is not None:
        problems.append(
            f"{read_from.place}: conflicts with the policy of {policy.place}: say it there, in a rule such as "
            'replicas: {replica_reads: {keys: ["*"], max_lag: 1s}}'
        )
    return RouteSettings(
        name=name,
        listeners=tuple(listener_of(address, client_auth, password_file) for address in addresses),
        upstream=UpstreamAddress() if upstream is None else upstream.value,
        policy=policy.value
        if policy is not None
        else PolicySource(PolicyKind.PACKAGED, "default" if engine is None else "tour"),
        embedded=engine,
        advertised=_read_advertised(layer, given.keys() - layer.keys(), problems),
        read_from=ReadFrom.PRIMARY if read_from is None else read_from.value,
        aliases=() if aliases is None else aliases.value,
    )


def _read_advertised(layer: _Layer, unread: Container[str], problems: list[str]) -> tuple[Advertised, ...]:
    present, advertise = layer.get("present"), layer.get("advertise")
    as_cluster = present is not None and present.value is Presented.CLUSTER
    if present is not None and as_cluster and advertise is None and "advertise" not in unread:
        problems.append(f"{present.place}: expected the addresses of all Keyrails, as in --advertise 10.0.0.1:6380")
    if advertise is None:
        return ()
    if not as_cluster and "present" not in unread:
        problems.append(f"{advertise.place}: expected --present cluster, too")
    addresses: tuple[Advertised, ...] = advertise.value
    return addresses


def _read_client_auth(layer: _Layer, problems: list[str]) -> tuple[ClientAuth, Path | None]:
    how, file = layer.get("client_auth"), layer.get("client_password_file")
    if file is None:
        return (ClientAuth.NONE if how is None else how.value), None
    if how is not None and how.value is ClientAuth.UPSTREAM:
        problems.append(f"{file.place}: conflicts with client_auth upstream of {how.place}: give one of them")
    return ClientAuth.FILE, file.value


def listener_of(address: ListenAddress, client_auth: ClientAuth, password_file: Path | None) -> ListenerSettings:
    """A listener of a route with these options; the options of its URL override them."""
    if address.client_auth is None:
        return ListenerSettings(address, client_auth, password_file)
    return ListenerSettings(address, address.client_auth, address.client_password_file)


def _check_listeners(routes: Sequence[RouteSettings], problems: list[str]) -> None:
    seen: set[tuple[str, int, Path | None]] = set()
    for route in routes:
        for listener in route.listeners:
            address = listener.address
            place = (address.host, address.port, address.path)
            if place in seen and (address.path is not None or address.port):
                problems.append(f"{address}: listened on twice")
            seen.add(place)
