"""`keyrail serve`: run the proxy until a signal stops it."""

import argparse
import asyncio
import gc
import os
from collections.abc import Sequence
from functools import partial

from proxy.cli.line import LineParser
from proxy.cli.tour import tour_text
from proxy.net.config.address import ListenAddress
from proxy.net.config.settings import RouteSettings
from proxy.server.config import CONFIG_FLAG, CONFIG_VARIABLE, ConfigError, load_settings
from proxy.server.notices import complain, log_as, log_from, never_wait
from proxy.server.options import ENVIRONMENT_PREFIX, OPTIONS, RETIRED
from proxy.server.writer_thread import WriterThread

USAGE = 2


def add_verb(verbs: "argparse._SubParsersAction[LineParser]") -> None:
    parser = verbs.add_parser(
        "serve",
        help="run the proxy",
        allow_abbrev=False,
        description=f"Run the proxy. Every option is also a variable ({ENVIRONMENT_PREFIX}LISTEN …) and a key of the "
        "config file (listen …); the command line wins over the environment, and that over the file.",
    )
    for option in OPTIONS:
        if option.switch:
            parser.add_argument(
                option.flag,
                dest=option.name,
                action="append",
                nargs="?",
                const="on",
                metavar=option.metavar,
                help=option.help,
            )
        else:
            parser.add_argument(
                option.flag, dest=option.name, action="append", metavar=option.metavar, help=option.help
            )
    for name in RETIRED:
        parser.add_argument(f"--{name}", action="append", help=argparse.SUPPRESS)
    parser.add_argument(
        CONFIG_FLAG, action="append", metavar="FILE", help=f"a YAML file of options and routes ({CONFIG_VARIABLE})"
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    names = [*(option.name for option in OPTIONS), *RETIRED, "config"]
    flags = {name: texts for name in names if (texts := getattr(parsed, name)) is not None}
    try:
        settings = load_settings(flags, os.environ)
    except ConfigError as error:
        return _complain(error.problems, USAGE)
    log_as(settings.log_format)
    log_from(settings.log_level)
    never_wait()
    # A mistake in the configuration is told before this long import. What is imported stays.
    gc.disable()
    from proxy.server.supervisor import StartError, run_supervisor  # noqa: PLC0415  slow to import, see above

    gc.enable()
    try:
        return asyncio.run(run_supervisor(settings, _show_tour))
    except StartError as error:
        return _complain(error.problems, error.status)


def _show_tour(route: RouteSettings, addresses: Sequence[ListenAddress]) -> None:
    if route.embedded is not None:
        tour = tour_text(addresses[0], str(route.policy), route.embedded)
        WriterThread("stdout").write(partial(print, tour, flush=True))


def _complain(problems: tuple[str, ...], status: int) -> int:
    for problem in problems:
        complain(problem)
    return status
