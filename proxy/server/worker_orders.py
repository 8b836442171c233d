"""Orders of the supervisor that workers follow and confirm: new policies, the kill switch."""

from collections.abc import Collection

from proxy.server.notices import Level, notice
from proxy.server.requests import ProcessRequest, Reply, RequestError, RequestTimeout, outcomes
from proxy.server.worker_process import WorkerProcess


class WorkerOrders:
    """Those to the workers of a group. So many are ``under_way``: a worker may be busy with one."""

    def __init__(self) -> None:
        self.under_way = 0

    async def send(
        self, workers: Collection[WorkerProcess], order: ProcessRequest[Reply]
    ) -> list[Reply | RequestError]:
        """Send an order to these workers; return what each has answered."""
        self.under_way += 1
        try:
            return await outcomes([worker.channel.request(order) for worker in workers])
        finally:
            self.under_way -= 1

    async def have_all(self, workers: Collection[WorkerProcess], order: ProcessRequest[None]) -> None:
        """Send an order to every worker, and wait until all have confirmed; report those that have not."""
        told = list(workers)
        outcome_of_each = await self.send(told, order)
        for worker, followed in zip(told, outcome_of_each, strict=True):
            if isinstance(followed, RequestTimeout):
                notice(f"worker {worker.number} has not confirmed in {order.seconds:g} s: {order}", Level.WARNING)


def first_problem(told: Collection[str | RequestError], missing: int, beside: Collection[str]) -> str:
    """Why a worker's request to all others is in vain; empty if it is not. So many workers are ``missing``; ``beside``
    names processes that serve clients of the same Keyrail, and do not answer it."""
    for process in beside:
        return f"{process} may serve its clients, too"
    problems = (f"a worker does not answer: {each}" if isinstance(each, RequestError) else each for each in told)
    return next(filter(None, problems), "a worker is being replaced" if missing else "")
