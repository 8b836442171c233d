"""One HTML file that loads nothing and runs nothing, from a template of this package.

Names of keys and clients are chosen by others. Jinja2 escapes all that is put into a template, each value is made
printable before, and templates show names in elements of their own (`html_parts.html`), so that letters that are
written from right to left move nothing beside them. The file's own policy (`html_head.html`) forbids scripts, images
and requests.
"""

import os
import sys
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from proxy.server.whole_file import replace_file
from proxy.traffic.key_text import printable

Filter: TypeAlias = Callable[..., object]


def render(template: str, filters: Mapping[str, Filter], **values: object) -> str:
    """The HTML that a template makes of these values."""
    environment = Environment(
        loader=FunctionLoader(lambda name: files(__package__).joinpath(name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(template).render(values)


def write(page: str, given: Path) -> bool:
    """Write the file, or replace it as a whole, with the mode of new files. False, and an error is printed, if that is
    not possible."""
    try:
        file = given.resolve()
        if file.exists() and not file.is_file():
            return _complain(given, "it is no regular file")
        replace_file(file, [page.encode()], _mode_of_new_files())
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        return _complain(given, (isinstance(error, OSError) and error.strerror) or str(error))
    return True


def _finalize(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _complain(file: Path, reason: str) -> bool:
    print(f"keyrail: cannot write {file}: {reason}", file=sys.stderr)
    return False


def _mode_of_new_files() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
