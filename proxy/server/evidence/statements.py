"""The statements with which the file of evidence is written."""

_ADD = """
ON CONFLICT (hour, subject) DO UPDATE SET
    count = count + excluded.count,
    seen = seen + excluded.seen,
    first = coalesce(min(first, excluded.first), first, excluded.first),
    last = coalesce(max(last, excluded.last), last, excluded.last)
"""
PUT = "INSERT INTO counts (hour, subject, count, seen, first, last) VALUES (?, ?, ?, ?, ?, ?)" + _ADD  # noqa: S608 - the text above
PUT_GONE = (
    """
INSERT INTO counts (hour, subject, count, seen, first, last)
SELECT gone.hour, gone.others, sum(count), sum(seen), min(first), max(last)
FROM gone JOIN counts ON counts.hour = gone.hour AND counts.subject = gone.subject
WHERE true GROUP BY gone.hour, gone.others
"""
    + _ADD
)
TOO_MANY = """
INSERT INTO gone SELECT hour, subject, others FROM (
    SELECT counts.hour, counts.subject, subjects.others, subjects.kind, row_number() OVER (
        PARTITION BY subjects.kind, subjects.route, subjects.rule ORDER BY counts.count DESC, counts.subject
    ) AS place
    FROM counts JOIN subjects ON subjects.id = counts.subject
    WHERE counts.hour = :hour AND subjects.others IS NOT NULL
) WHERE place > CASE kind WHEN 0 THEN :verdicts WHEN 1 THEN :commands ELSE :forms END
"""
"""The rows of an hour that have no place: the lightest of each rule, of commands and of forms."""
OLDEST = """
INSERT INTO gone SELECT counts.hour, counts.subject, subjects.others
FROM counts JOIN subjects ON subjects.id = counts.subject WHERE subjects.others IS NOT NULL
ORDER BY counts.hour <= :now, counts.hour, counts.count LIMIT (SELECT 64 + count(*) / 8 FROM counts)
"""
"""An eighth of all rows, first of all those in the future, then the lightest of the oldest hours."""
OLDEST_HOUR = "SELECT hour FROM counts ORDER BY hour <= ?, hour LIMIT 1"
COMMANDS_OF = """
SELECT coalesce(sum(count), 0) FROM counts JOIN subjects ON subjects.id = counts.subject
WHERE counts.hour = ? AND subjects.kind = 1
"""
PUT_SPAN = """
INSERT INTO spans (began, since, ended) VALUES (?, ?, ?)
ON CONFLICT (began) DO UPDATE SET ended = max(since, excluded.ended)
"""
DROP_SHORT_SPANS = """
DELETE FROM spans WHERE began IN (
    SELECT began FROM spans WHERE began != ? ORDER BY ended - since DESC, began DESC LIMIT -1 OFFSET ?
)
"""
LOSE = """
INSERT INTO lost (hour, reason, count) VALUES (?, ?, ?)
ON CONFLICT (hour, reason) DO UPDATE SET count = count + excluded.count
"""
SWEEP = (
    """
    DELETE FROM subjects WHERE id NOT IN (
        SELECT subject FROM counts UNION SELECT others FROM subjects WHERE others IS NOT NULL
    )
    """,
    "DELETE FROM clients WHERE id NOT IN (SELECT client FROM subjects)",
    """
    DELETE FROM texts WHERE id NOT IN (
        SELECT route FROM subjects UNION SELECT rule FROM subjects UNION SELECT mode FROM subjects
        UNION SELECT outcome FROM subjects UNION SELECT command FROM subjects UNION SELECT shape FROM subjects
        UNION SELECT form FROM subjects UNION SELECT app FROM clients UNION SELECT user FROM clients
        UNION SELECT name FROM clients UNION SELECT library FROM clients UNION SELECT address FROM clients
    )
    """,
)
