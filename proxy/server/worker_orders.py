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
