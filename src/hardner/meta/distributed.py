"""Ranks: processes that share out the tasks of every iteration, as ``torchrun`` starts them.

Each computes its own tasks; losses and gradients are put together over all, so that the numbers
are those of a single process up to rounding, whatever the number of ranks.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from hardner.errors import HardnerError
from hardner.model.layers import Params


@dataclass(frozen=True)
class Ranks:
    """This process among its like."""

    rank: int = 0
    of: int = 1
    joined: bool = False
    """Whether there is anyone to talk to; one that is alone waits for nothing."""

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def own(self, tasks: int) -> slice:
        """Which of an iteration's tasks are computed here; the shares differ by one at most."""
        if tasks < self.of:
            raise HardnerError(
                f"train.tasks: {self.of} ranks cannot share {tasks}; raise it or start fewer ranks"
            )
        return slice(self.rank * tasks // self.of, (self.rank + 1) * tasks // self.of)

    def gathered(self, values: Sequence[Tensor], first: int, tasks: int) -> list[Tensor]:
        """The values of all tasks, from those of the tasks here: [own] each -> [tasks] each."""
        if not self.joined:
            return list(values)
        here = torch.stack(list(values))  # [values, own]
        everywhere = here.new_zeros(len(values), tasks)
        everywhere[:, first : first + here.shape[1]] = here
        return list(self._sum(everywhere).unbind(0))

    def summed(self, grads: Params) -> Params:
        """The sum over all ranks, in the same order of names on every rank."""
        if not self.joined or not grads:
            return grads
        names = sorted(grads)
        total = self._sum(torch.cat([grads[name].flatten() for name in names]))
        parts = total.split([grads[name].numel() for name in names])
        return {n: part.view_as(grads[n]) for n, part in zip(names, parts, strict=True)}

    def total(self, value: float) -> float:
        """The sum of a number over all ranks."""
        return float(self._sum(torch.tensor(value, dtype=torch.float64))) if self.joined else value

    def any(self, asked: bool) -> bool:
        """Whether any rank asks; all get the same answer."""
        return self.total(asked) > 0

    def told(self, text: str) -> str:
        """What the leading rank says."""
        if not self.joined:
            return text
        raw = torch.tensor(list(text.encode()), dtype=torch.uint8)
        size = torch.tensor(len(raw))
        self.share({"size": size})
        raw = raw if self.leads else torch.zeros(int(size), dtype=torch.uint8)
        self.share({"raw": raw})
        return bytes(raw.tolist()).decode()

    def share(self, tensors: Mapping[str, Tensor]) -> None:
        """Overwrite tensors of the same names and shapes with the leading rank's."""
        for name in sorted(tensors) if self.joined else ():
            with self._talking():
                distributed.broadcast(tensors[name], src=0)

    @contextmanager
    def first(self) -> Iterator[None]:
        """The leading rank before the others, who then find what it has kept."""
        if not self.leads:
            self.any(False)
        yield
        if self.leads:
            self.any(False)

    def _sum(self, tensor: Tensor) -> Tensor:
        with self._talking():
            distributed.all_reduce(tensor)
        return tensor

    @contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            said = str(error).strip().partition("\n")[0]
            raise HardnerError(
                f"rank {self.rank} of {self.of}: another rank has ended ({said}); the same command "
                f"goes on from the last state, with any number of ranks"
            ) from None


ALONE = Ranks()


@contextmanager
def join_ranks(device: str) -> Iterator[Ranks]:
    """The ranks that this process was started among; `ALONE` where it was started by itself.

    Args:
        device: ``cpu`` (gloo), or ``cuda`` (NCCL), of which each rank of a machine takes its own.
    """
    if not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        yield ALONE
        return
    backend = "gloo"
    if device == "cuda":
        backend, place = "cpu:gloo,cuda:nccl", int(os.environ.get("LOCAL_RANK", 0))
        if place >= torch.cuda.device_count():
            there = torch.cuda.device_count()
            raise HardnerError(f"rank {place} has no GPU: there are {there}; start {there} ranks")
        torch.cuda.set_device(place)
    try:
        distributed.init_process_group(backend)
    except (RuntimeError, ValueError) as error:
        said = str(error).strip().partition("\n")[0]
        raise HardnerError(f"the ranks do not find each other: {said}") from None
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size(), joined=True)
    finally:  # else its threads may end the process in their own way
        distributed.destroy_process_group()
