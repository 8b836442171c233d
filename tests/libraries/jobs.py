"""The jobs that the sessions' queues run."""

RUNS: list[int] = []


def add(first: int, second: int) -> int:
    """A job that succeeds."""
    return first + second


def fail_once(key: int) -> int:
    """A job that fails the first time that it is run with this argument, and then succeeds."""
    RUNS.append(key)
    if RUNS.count(key) == 1:
        raise ValueError("the first time")
    return key


def total(numbers: list[int]) -> int:
    """A job on the results of others."""
    return sum(numbers)


def report() -> int:
    """A job that only one worker may run at a time."""
    return 7
