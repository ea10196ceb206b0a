"""Which call, of which process, a collective fails in: the backends name neither."""

from __future__ import annotations

from typing import Any

import torch


class on_rank:
    """A block of `call`, of tiled_mm.distributed, over the group of this name. An error of the
    backend, as where another process died, or of an operator, as where this process' part does not
    fit, is raised again with the call, this process' rank and the group's size. Errors of other
    types are left alone: a type says what may be done about it, as where no memory is left."""

    def __init__(self, call: str, group: str) -> None:
        self._call, self._group = call, group

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: Any, trace: Any) -> None:
        # gloo's are RuntimeErrors; NCCL's, and those of the store and the network, are DistErrors.
        if kind is None or not (
            kind is RuntimeError or issubclass(kind, torch.distributed.DistError)
        ):
            return
        from torch.distributed import distributed_c10d

        group = distributed_c10d._resolve_process_group(self._group)
        where = f"tiled_mm.distributed.{self._call} on rank {group.rank()} of {group.size()}"
        raise kind(f"{error}\n\n{where}") from error
