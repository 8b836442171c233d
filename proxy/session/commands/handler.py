"""A handler of commands does all that its command needs, or returns the rest of it as a step (``progress``)."""

from collections.abc import Callable
from typing import TypeAlias

from proxy.session.item import Item
from proxy.session.progress import Step
from proxy.session.session import Session

Handler: TypeAlias = Callable[[Session, Item], Step[None] | None]
