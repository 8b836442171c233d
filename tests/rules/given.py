"""Commands and contexts for the tests of rules and policies."""

from collections.abc import Sequence

from proxy.commands.command import Command
from proxy.commands.table import STANDARD, Spec
from proxy.hotpath.plan.leased_tokens import TokenSet, TokenSpender
from proxy.policy.compile import CompiledPolicy
from proxy.rules.context import Context
from proxy.rules.rule import Binding, Wording
from proxy.rules.scripts.rule import Scripts

BINDING = Binding(STANDARD)
NO_WORDS = Wording()


def command(text: str, *more: bytes) -> Command:
    """A command of words, and of further arguments that no words can stand for."""
    return Command(STANDARD, [*text.encode().split(), *more])


def streamed(argv: Sequence[bytes], index: int, length: int) -> Command:
    """A command with an argument that is on its way to Redis already."""
    return Command(STANDARD, argv, streamed=index, streamed_length=length)


def context(chance: float = 0.5) -> Context:
    """A context in which every random number is `chance`."""
    return Context("default", "", 0, in_transaction=False, now=0.0, random=lambda: chance)


def spec(name: str) -> Spec:
    """A command that the table must know."""
    found = STANDARD.find(name)
    assert found is not None, name
    return found


def spend(token_set: TokenSet, size: int) -> bool:
    """Let a run have one command of `size` bytes, and say whether it could pay."""
    run = TokenSpender()
    run.open([token_set], b"\0")
    affords = run.affords(size)
    if affords:
        run.take(size)
    run.settle()
    return affords


def scripts_of(policy: CompiledPolicy) -> list[Scripts]:
    """The rules about scripts."""
    return [step.rule for step in policy.learning if isinstance(step.rule, Scripts)]
