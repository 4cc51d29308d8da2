"""Devices, opened once for each name."""

from __future__ import annotations

import os

from . import _core

_opened: dict[str, _core.Device] = {}


def device(name: str = "cpu", *, threads: int = 0, cache: str = "", tune: bool = False) -> _core.Device:
    """A device for `formula(..., device=...)`.

    name     "cpu", "interp" (the slow reference), "cuda", "cuda:1" (the second GPU), "cuda-emu", or "auto": the GPU if
             there is one, else the CPU
    threads  of the CPU; 0: as many as there are processors
    cache    the folder of compiled kernels; "": $MOXIE_CACHE_DIR or ~/.cache/moxie, "0": none
    tune     partitions of kernels by measurement

    It is opened when a formula first runs there: then an absent device raises DeviceError.
    """
    return _core.Device(name, threads, cache, tune)


def chosen(choice: str | _core.Device | None) -> _core.Device:
    """The device that an option means: a device itself, a name, or None for $MOXIE_DEVICE and else the CPU."""
    if isinstance(choice, _core.Device):
        return choice
    name = choice or os.environ.get("MOXIE_DEVICE", "cpu")
    if name not in _opened:
        _opened[name] = device(name, threads=int(os.environ.get("MOXIE_THREADS", "0") or 0))
    return _opened[name]
