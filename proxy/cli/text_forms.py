"""Names that others have chosen, on one line and without control characters; in Markdown also without effect."""

import re

from proxy.traffic.key_text import printable

_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")


class Plain:
    """Text for a terminal."""

    head, rule, item = "", "  ", "      "

    def say(self, name: str) -> str:
        """Words."""
        return printable(name)

    def code(self, name: str) -> str:
        """A name or a command."""
        return printable(name)


class Markdown(Plain):
    """Markdown, also for the cells of tables."""

    head, rule, item = "## ", "### ", "- "

    def say(self, name: str) -> str:
        return _MARKS.sub(r"\\\1", printable(name))

    def code(self, name: str) -> str:
        shown = printable(name)
        fence = "`" * (1 + max((len(found) for found in re.findall("`+", shown)), default=0))
        return f"{fence} {shown} {fence}" if "`" in shown or not shown.strip() else f"`{shown}`"

    def cell(self, name: str) -> str:
        """A name or a command in a cell of a table. GitHub splits cells before it looks for code."""
        shown = printable(name)
        if not shown or ("\\" in shown and "|" in shown):
            return self.say(shown)
        return self.code(shown).replace("|", "\\|")
