"""Data parallelism over tasks: processes that ``torchrun`` starts share out each iteration's tasks.

Losses and gradients are summed over all ranks, so the numbers are those of a single process up to
rounding, whatever the number of ranks.
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
    """This process and how many there are."""

    rank: int = 0
    of: int = 1
    joined: bool = False  # in a process group; one that is alone waits for nothing

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes files and prints."""
        return self.rank == 0

    def own(self, tasks: int) -> slice:
        """Which of an iteration's tasks are computed here; the shares differ by one at most."""
        if tasks < self.of:
            few = f"{self.of} ranks cannot share {tasks}"
            raise HardnerError(f"train.tasks: {few}; raise it or start fewer ranks")
        return slice(self.rank * tasks // self.of, (self.rank + 1) * tasks // self.of)

    def gathered(self, values: Sequence[Tensor], first: int, tasks: int) -> list[Tensor]:
        """The values of all tasks, from those of the tasks here: [own] each -> [tasks] each."""
        if not self.joined:
            return list(values)
        here = torch.stack(list(values))  # [values, own]
        everywhere = here.new_zeros(len(values), tasks)
        everywhere[:, first : first + here.shape[1]] = here
        return list(self._sum(everywhere))

    def summed(self, grads: Params) -> Params:
        if not self.joined or not grads:
            return grads
        names = sorted(grads)  # the same order on every rank
        total = self._sum(torch.cat([grads[name].flatten() for name in names]))
        parts = total.split([grads[name].numel() for name in names])
        return {n: part.view_as(grads[n]) for n, part in zip(names, parts, strict=True)}

    def total(self, value: float) -> float:
        return float(self._sum(torch.tensor(value, dtype=torch.float64))) if self.joined else value

    def any(self, asked: bool) -> bool:
        """Whether any rank asks; all get the same answer."""
        return self.total(asked) > 0

    def told(self, text: str) -> str:
        """The leading rank's text."""
        held = [text]
        if self.joined:
            with self._talking():
                distributed.broadcast_object_list(held, src=0, device=torch.device("cpu"))
        return held[0]

    def share(self, tensors: Mapping[str, Tensor]) -> None:
        """Overwrite tensors of the same names and shapes with the leading rank's."""
        for name in sorted(tensors) if self.joined else ():
            with self._talking():
                distributed.broadcast(tensors[name], src=0)

    @contextmanager
    def first(self) -> Iterator[None]:
        """The leading rank before the others, who then find what it has kept."""
        if not self.leads:
            self.any(False)  # wait at the barrier that the leading rank reaches below
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
            reason = f"another rank has ended ({_first_line(error)})"
            hint = "the same command goes on from the last state, with any number of ranks"
            raise HardnerError(f"rank {self.rank} of {self.of}: {reason}; {hint}") from None


ALONE = Ranks()


@contextmanager
def join_ranks(device: str) -> Iterator[Ranks]:
    """The ranks that this process was started among; `ALONE` where it was started by itself.

    They talk by gloo, and on a GPU, of which each rank of a machine takes its own, by NCCL.
    """
    if not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        yield ALONE
        return
    if device == "cuda":
        place, there = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
        if place >= there:
            raise HardnerError(f"rank {place} has no GPU: there are {there}; start {there} ranks")
        torch.cuda.set_device(place)
    try:
        distributed.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    except (RuntimeError, ValueError) as error:
        raise HardnerError(f"the ranks do not find each other: {_first_line(error)}") from None
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size(), joined=True)
    finally:  # else its threads may end the process in their own way
        distributed.destroy_process_group()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
