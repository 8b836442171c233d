"""Subjects of rows, by id: each text, each client and each subject is stored once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from proxy.traffic.evidence_rows import (
    CommandKey,
    Exemplar,
    FormKey,
    Identity,
    VerdictKey,
    newest,
)

if TYPE_CHECKING:
    import sqlite3

Key = VerdictKey | CommandKey | FormKey
VERDICT, COMMAND, FORM = range(3)

_INSERT_CLIENT = "INSERT INTO clients (app, user, name, library, address) VALUES (?, ?, ?, ?, ?)"
_FIND_CLIENT = "SELECT id FROM clients WHERE (app, user, name, library, address) = (?, ?, ?, ?, ?)"
_INSERT_SUBJECT = """
INSERT INTO subjects (kind, route, rule, mode, outcome, client, command, shape, form, others)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_FIND_SUBJECT = """
SELECT id FROM subjects
WHERE (kind, route, rule, mode, outcome, client, command, shape, form) = (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SUBJECTS = """
SELECT id, kind, route, rule, mode, outcome, client, command, shape, form, exemplars FROM subjects
WHERE id IN (SELECT subject FROM counts WHERE hour >= ?)
"""


class Subject(NamedTuple):
    """What rows are about, and its newest exemplars in all hours."""

    route: str
    key: Key
    exemplars: list[Exemplar]


class SubjectIds:
    """The ids of subjects in one transaction; what is new gets one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._texts: dict[str, int] = {}
        self._clients: dict[Identity, int] = {}

    def of(self, route: str, key: Key) -> int:
        """The id of a subject."""
        kind, *rest = self._columns(key)
        values = kind, self._text(route), *rest
        found = self._connection.execute(_FIND_SUBJECT, values).fetchone()
        if found:
            return int(found[0])
        others = None if key.others == key else self.of(route, key.others)
        return self._new(_INSERT_SUBJECT, (*values, others))

    def _columns(self, key: Key) -> tuple[int, ...]:
        text = self._text
        match key:
            case VerdictKey(rule, mode, outcome, who, command, shape):
                its = text(rule), text(mode), text(outcome), self._client(who), text(command), text(shape), text("")
                return VERDICT, *its
            case CommandKey(who, command):
                return COMMAND, *[text("")] * 3, self._client(who), text(command), text(""), text("")
            case FormKey(who, command, shape, form):
                return FORM, *[text("")] * 3, self._client(who), text(command), text(shape), text(form)

    def _text(self, text: str) -> int:
        if text not in self._texts:
            raw = (to_bytes(text),)
            found = self._connection.execute("SELECT id FROM texts WHERE text = ?", raw).fetchone()
            self._texts[text] = found[0] if found else self._new("INSERT INTO texts (text) VALUES (?)", raw)
        return self._texts[text]

    def _client(self, who: Identity) -> int:
        if who not in self._clients:
            values = tuple(map(self._text, who))
            found = self._connection.execute(_FIND_CLIENT, values).fetchone()
            self._clients[who] = found[0] if found else self._new(_INSERT_CLIENT, values)
        return self._clients[who]

    def _new(self, statement: str, values: tuple[bytes | int | None, ...]) -> int:
        cursor = self._connection.execute(statement, values)
        assert cursor.lastrowid is not None, "a row was inserted"
        return cursor.lastrowid


def subjects_of(connection: sqlite3.Connection, first: tuple[int]) -> dict[int, Subject]:
    """The subjects of rows of this hour and later ones, by id."""
    texts = {at: to_text(text) for at, text in connection.execute("SELECT id, text FROM texts")}
    clients = {
        at: Identity(*[texts[each] for each in its])
        for at, *its in connection.execute("SELECT id, app, user, name, library, address FROM clients")
    }
    found = {}
    for at, kind, route, rule, mode, outcome, client, command, shape, form, raw in connection.execute(_SUBJECTS, first):
        who, name = clients[client], texts[command]
        key: Key
        if kind == VERDICT:
            key = VerdictKey(texts[rule], texts[mode], texts[outcome], who, name, texts[shape])
        elif kind == COMMAND:
            key = CommandKey(who, name)
        else:
            key = FormKey(who, name, texts[shape], texts[form])
        found[at] = Subject(texts[route], key, _exemplars(raw))
    return found


def packed(exemplars: Iterable[Exemplar]) -> bytes:
    """Exemplars as a column has them."""
    return to_bytes(json.dumps([each.kept for each in exemplars], ensure_ascii=False, separators=(",", ":")))


def joined(known: bytes | None, more: bytes) -> bytes:
    """The newest exemplars of two columns; a function for SQL."""
    return packed(newest(_exemplars(known), _exemplars(more)))


def to_bytes(text: str) -> bytes:
    """A text as the file has it."""
    return text.encode("utf-8", "surrogatepass")


to_text = partial(str, encoding="utf-8", errors="surrogatepass")
"""A text of the file."""


def _exemplars(raw: bytes | None) -> list[Exemplar]:
    return [Exemplar(tuple(words), *rest) for words, *rest in json.loads(to_text(raw))] if raw else []
