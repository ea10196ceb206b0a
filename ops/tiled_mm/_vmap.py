"""Batching rules of ``torch.vmap`` for ``tiled::mm`` and ``tiled::bmm``.

A batch of left matrices is folded into the rows of one larger product; a batch of right matrices
becomes a batched product. Since the bits of an element do not depend on how many rows or columns
stand beside it, every entry equals its unbatched call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _check_rank(tensor: Tensor, batched: bool, rank: int, message: str) -> None:
    """torch.mm's own refusal, which would otherwise speak of the folded tensors."""
    if tensor.dim() - batched != rank:
        raise RuntimeError(message)


def _mm_rule(
    info: Any, in_dims: tuple[int | None, ...], a: Tensor, b: Tensor, **options: Any
) -> tuple[Tensor, int]:
    """[M, K] x [K, N] with a further dimension in ``a``, in ``b`` or in both."""
    a_dim, b_dim = in_dims[:2]
    _check_rank(a, a_dim is not None, 2, "self must be a matrix")
    _check_rank(b, b_dim is not None, 2, "mat2 must be a matrix")
    batch = info.batch_size
    if b_dim is None:
        a = a.movedim(a_dim, 0)  # [batch, M, K]
        m, k = a.shape[1:]
        rows = torch.ops.tiled.mm(a.reshape(batch * m, k), b, **options)
        return rows.reshape(batch, m, b.shape[1]), 0
    # The kernels take a batch stride of 0, so a matrix that all entries share is not copied.
    a = a.expand(batch, *a.shape) if a_dim is None else a.movedim(a_dim, 0)
    return torch.ops.tiled.bmm(a, b.movedim(b_dim, 0), **options), 0


def _bmm_rule(
    info: Any, in_dims: tuple[int | None, ...], a: Tensor, b: Tensor, **options: Any
) -> tuple[Tensor, int]:
    """[B, M, K] x [B, K, N] with a further dimension in ``a``, in ``b`` or in both."""
    a_dim, b_dim = in_dims[:2]
    _check_rank(a, a_dim is not None, 3, "batch1 must be a 3D tensor")
    _check_rank(b, b_dim is not None, 3, "batch2 must be a 3D tensor")
    batch = info.batch_size
    if a_dim is not None and b_dim is not None:
        a, b = a.movedim(a_dim, 0), b.movedim(b_dim, 0)  # [batch, B, M, K], [batch, B, K, N]
        entries = torch.ops.tiled.bmm(a.flatten(0, 1), b.flatten(0, 1), **options)
        return entries.unflatten(0, (batch, a.shape[1])), 0
    if a_dim is not None:
        a = a.movedim(a_dim, 1)  # [B, batch, M, K]
        rows = torch.ops.tiled.bmm(a.flatten(1, 2), b, **options)
        return rows.unflatten(1, (batch, a.shape[2])), 1
    b = b.movedim(b_dim, 2)  # [B, K, batch, N]
    columns = torch.ops.tiled.bmm(a, b.flatten(2, 3), **options)
    return columns.unflatten(2, (batch, b.shape[3])), 2


def register_batching_rules() -> None:
    """Register the rules above; called once, at import."""
    torch.library.register_vmap("tiled::mm", _mm_rule)
    torch.library.register_vmap("tiled::bmm", _bmm_rule)
