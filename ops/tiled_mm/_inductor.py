"""torch.compile with one answer: the options, and what Inductor must leave as it is.

::

    compiled = torch.compile(model, options=tiled_mm.inductor_options())
    with tiled_mm.override():
        logits = compiled(tokens)

Inductor changes a row's bits in four ways, and each has its option here:

- It takes products apart: ``x @ v``, ``addmv`` and ``dot`` become a multiplication and a sum, and
  so do products of one row or column. Its table of such decompositions is one for the process, so
  the entries for products are exchanged, once, for some that ask whether these options are on.
- It makes another product of one: it pads K, adds the bias apart, or puts two products into one.
  These are patterns, which are off.
- It gives a reduction its blocks by the number of rows and by timing. Here the number of terms and
  their strides decide (``InvariantChoices``), so that one row is one sum in one order. Of sums
  along another axis than memory's fastest one kind may still change (docs/models.md).
- It leaves out roundings to 16 bits, and contracts a multiplication and an addition, where it has
  fused operators; and what it fuses depends on sizes. Both are off (``emulate_precision_casts``),
  so that a compiled operator has its eager form's roundings wherever it is.
"""

from __future__ import annotations

import functools
from typing import Any

from . import _inductor_products
from ._inductor_products import keep_products
from ._load import LIBRARY

#: The most terms of a row that one block holds at once, and the terms that a thread adds.
WHOLE_ROW, TERMS_A_THREAD = 4096, 8

#: The most terms of a column that one block holds at once, where columns lie side by side.
OUTER_ROWS = 256


def inductor_options(*, epilogues: bool = False) -> dict[str, Any]:
    """What ``torch.compile(..., options=...)`` takes so that compiled rows keep their bits under
    :class:`tiled_mm.override`.

    Args:
        epilogues: make one call, ``tiled::linear`` or ``tiled::addmm``, of a linear layer, addmm or
            a product with a matrix and the relu, gelu or silu behind it, rounded once, and in the
            backward too. It is tiled's whether the override is on or not, and has other bits than
            the two calls of an eager program.

    Returns:
        Options for the torch that is installed; a dictionary of your own to change. ``mode=`` and
        ``options=`` exclude each other in torch: merge ``torch._inductor.list_mode_options(mode)``
        with them, but leave max-autotune's templates out.
    """
    from torch._inductor import config

    keep_products(are_on)
    follow_the_options()
    keep_the_row_axis()
    wanted = {
        "inductor_choices_class": _choices(),
        "pattern_matcher": False,
        "shape_padding": False,
        "split_reductions": False,
        "emulate_precision_casts": True,
        "eager_numerics.division_rounding": True,
        "max_autotune": False,
        "max_autotune_gemm": False,
        "coordinate_descent_tuning": False,
        "freezing": False,
        "combo_kernels": False,
        "triton.cooperative_reductions": False,
        "triton.mix_order_reduction": False,
        "triton.multi_kernel": 0,
        "triton.tile_reductions": False,
        "batch_invariant": True,
    }
    known = config.get_config_copy()
    options = {name: value for name, value in wanted.items() if name in known}
    if epilogues:
        from ._epilogue_pass import EpiloguePass

        options["pre_grad_custom_pass"] = EpiloguePass()
    return options


def are_on() -> bool:
    """Whether what is compiled now is compiled with these options."""
    from torch._inductor import config

    return config.inductor_choices_class is _choices()


# ---- reductions ----------------------------------------------------------------------------------


def block_of(terms: int | None) -> dict[str, int]:
    """The block of a reduction of so many terms; ``None``: a number that is known at run time
    alone. One row is one block's, or one block's in turns."""
    width = WHOLE_ROW // 2 if terms is None else 1 << max(0, terms - 1).bit_length()
    width = min(max(width, 2), WHOLE_ROW)
    warps = min(16, max(1, width // (32 * TERMS_A_THREAD)))
    return {"XBLOCK": 1, "R0_BLOCK": width, "num_warps": warps, "num_stages": 1}


def outer_block(terms: int | None) -> dict[str, int]:
    """The block of a reduction along another axis than memory's fastest. One block adds all terms
    of its columns, so many at a time that it waits for memory as few times as registers allow."""
    high = OUTER_ROWS if terms is None else 1 << max(0, terms - 1).bit_length()
    high = min(max(high, 32), OUTER_ROWS)
    return {"XBLOCK": 32, "R0_BLOCK": high, "num_warps": max(8, high // 16), "num_stages": 1}


def adds_columns(reductions: list[Any]) -> bool:
    """Whether no sum's terms are neighbours in memory, of the operands that have terms of their own
    for each sum. Inductor's hint says nothing from some number of sums on, which may be the batch.

    Args:
        reductions: of one kernel, from Inductor's scheduler.
    """
    from torch._inductor.virtualized import V
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    found = []
    for body in (node._body for node in reductions):
        every = [*body.iter_vars, *body.reduce_vars]
        for index in body.get_read_exprs():
            used = index.free_symbols
            gathered = any(symbol_is_type(symbol, SymT.INDIRECT) for symbol in used)
            if gathered or used >= set(every):
                found += [V.graph.sizevars.stride_hints(index, body.reduce_vars, every)]
    return bool(found) and not any(1 in strides for strides in found)


@functools.cache
def _choices() -> type:
    """Made when it is needed: Inductor takes a second to import."""
    from torch._inductor.choices import InductorChoices
    from torch._inductor.codegen.triton import FixedTritonConfig, TritonKernel
    from torch._inductor.custom_graph_pass import get_hash_for_files

    built = get_hash_for_files((__file__, _inductor_products.__file__, str(LIBRARY)))

    def terms_of(features: Any) -> int | None:
        count = features.reduction_numel
        return int(count) if getattr(count, "is_number", isinstance(count, int)) else None

    class InvariantChoices(InductorChoices):
        """Inductor's choices, but for the blocks of reductions, which the number of terms
        decides."""

        def triton_kernel_kwargs(
            self, kernel_cls: type, features: Any, groups: list, kernel_kwargs: dict[str, Any]
        ) -> dict[str, Any]:
            tiling = groups[0] if groups else {}
            plain = isinstance(tiling, dict) and set(tiling) == {"x", "r0_"}
            if kernel_cls is not TritonKernel or not features.is_reduction() or not plain:
                return kernel_kwargs
            if features.contains_op("sort") or features.contains_op("scan"):
                return kernel_kwargs
            terms = terms_of(features)
            outer = adds_columns(features.reduction_nodes())
            block = outer_block(terms) if outer else block_of(terms)
            whole = not outer and terms is not None and terms <= WHOLE_ROW
            if whole:  # the kernel's text says how wide it is, so it takes no such argument
                del block["R0_BLOCK"]
            return {
                **kernel_kwargs,
                "override_persistent_reduction": whole,
                "override_cooperative_reduction": False,
                "fixed_config": FixedTritonConfig(block),
            }

        @staticmethod
        def uuid() -> bytes:
            """Inductor's caches of later versions know these choices by it."""
            return built

        @staticmethod
        def reduction_split_factor(*_: Any, **__: Any) -> int:
            return 1

    # Torch 2.11's caches know a class by its name: other blocks of reductions need another one, and
    # so does another build of the library, whose operators a graph calls by their names.
    name = f"InvariantChoices_{built.hex()[:16]}"
    InvariantChoices.__module__, InvariantChoices.__qualname__ = __name__, name
    globals()[name] = InvariantChoices  # where pickle finds it
    return InvariantChoices


@functools.cache
def follow_the_options() -> None:
    """Let the choices be those of the options of the program that is compiled.

    Inductor makes an object of the class that its first program in a thread asks for, and keeps it
    for all programs after that: without this, ours would hold for others, or others for ours."""
    from torch._inductor import virtualized

    kept = virtualized._choices
    torchs = kept._get_handler

    @functools.wraps(torchs)
    def get_handler(*args: Any) -> Any:
        return _our_choices() if are_on() else torchs(*args)

    kept._get_handler = get_handler


@functools.cache
def _our_choices() -> Any:
    return _choices()()


@functools.cache
def keep_the_row_axis() -> None:
    """Let a block of one row have two axes where the options are on, as blocks of more rows have.

    Given an XBLOCK of 1 and the whole row at once, Inductor writes a block without the axis of
    rows. Torch 2.11 then fails to write a load whose place depends on the row alone, such as that
    of a token's number before its embedding's norm. One row is one sum in one order either way."""
    from torch._inductor.codegen.triton import TritonKernel

    torchs = TritonKernel.want_no_x_dim

    @functools.wraps(torchs)
    def want_no_x_dim(kernel: Any) -> bool:
        return not are_on() and torchs(kernel)

    TritonKernel.want_no_x_dim = want_no_x_dim
