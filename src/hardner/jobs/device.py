"""The device that a user names."""

import torch

from hardner.errors import HardnerError


def resolve_device(name: str) -> str:
    """The device to compute on: ``auto`` is ``cuda`` where torch finds a GPU, else ``cpu``.

    ``cpu``, ``cuda`` and ``cuda:1`` and so on stay as they are; what torch does not find here is an
    error.
    """
    gpus = torch.cuda.device_count()
    if name == "auto":
        return "cuda" if gpus else "cpu"
    kind, _, number = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (number and not number.isdecimal())):
        raise HardnerError(f"unknown device {name!r}; it is auto, cpu or cuda")
    if kind == "cuda" and not gpus:
        raise HardnerError(f"device {name}: torch finds no GPU here; choose cpu or auto")
    if number and int(number) >= gpus:
        raise HardnerError(f"device {name}: the GPUs here are cuda:0 to cuda:{gpus - 1}")
    return name
