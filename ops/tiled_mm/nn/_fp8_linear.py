"""torch.nn.Linear whose three products are of fp8."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .._quantize import quantize
from .._scaled import scaled_mm
from ._linear import main_grad_of

_ROWS, _WEIGHT = "BlockWise1x128", "BlockWise128x128"


class _Fp8Product(torch.autograd.Function):
    """``x @ weight.T + bias`` of x [T, K] and weight [N, K]."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, main_grad: Tensor | None
    ) -> Tensor:
        needs_x, needs_weight, *_ = ctx.needs_input_grad
        rows = quantize(x, _ROWS, transposed=needs_weight)
        weights = quantize(weight, _WEIGHT, transposed=needs_x)
        ctx.save_for_backward(
            *((rows.data_t, rows.scale_t) if needs_weight else (None, None)),
            *((weights.data_t, weights.scale) if needs_x else (None, None)),
        )
        ctx.main_grad = main_grad
        ctx.dtypes = x.dtype, weight.dtype, bias.dtype if bias is not None else None
        return scaled_mm(
            rows.data,
            weights.data.mT,
            rows.scale,
            weights.scale.mT,
            scale_recipe_a=_ROWS,
            scale_recipe_b=_WEIGHT,
            bias=bias,
            out_dtype=x.dtype,
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x_t, x_t_scale, weight_t, weight_scale = ctx.saved_tensors
        x_dtype, weight_dtype, bias_dtype = ctx.dtypes
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        grads: list[Tensor | None] = [None, None, None, None]
        if needs_x or needs_weight:
            rows = quantize(gradient, _ROWS, transposed=needs_weight)
        if needs_x:
            grads[0] = scaled_mm(
                rows.data,
                weight_t.mT,
                rows.scale,
                weight_scale,
                scale_recipe_a=_ROWS,
                scale_recipe_b=_WEIGHT,
                out_dtype=x_dtype,
            )
        if needs_weight:
            operands = rows.data_t, x_t.mT, rows.scale_t, x_t_scale.mT
            recipes = {"recipe_a": _ROWS, "recipe_b": _ROWS}
            if ctx.main_grad is not None:
                torch.ops.tiled._add_scaled_mm(ctx.main_grad, *operands, **recipes)
            else:
                recipes["out_dtype"] = weight_dtype
                grads[1] = torch.ops.tiled.scaled_mm(*operands, **recipes)
        if needs_bias:
            grads[2] = torch.ops.tiled.activation_backward(
                gradient, None, None, bias_dtype=bias_dtype
            )[1]
        return tuple(grads)


class Fp8Linear(torch.nn.Linear):
    """torch.nn.Linear whose products are of fp8 (e4m3) with scales for blocks: forward, the
    gradient of its input and that of its weight.

    Parameters, their initial values, names and ``state_dict`` are torch.nn.Linear's, and so are the
    dtypes of results and gradients: float32, float16 or bfloat16. At each call the input is
    quantized by 1 x 128 and the weight by 128 x 128 (:func:`tiled_mm.quantize`); the backward
    quantizes the gradient by 1 x 128 along each of the sizes that are summed over. Sums are those
    of :func:`tiled_mm.scaled_mm`. A row of the result depends on that row of the input and on the
    weight, not on the batch. Gradients cannot be differentiated again, and torch.func's transforms
    refuse the layer.

    Under autocast the products have the dtype of autocast as their result's.

    Args:
        in_features, out_features, bias, device, dtype: as of torch.nn.Linear; any sizes.
        accumulate_main_grad: backward adds the gradient of ``weight`` to ``weight.main_grad``, as
            of :class:`tiled_mm.nn.Linear`.

    Raises:
        RuntimeError: the input has another last dimension, dtype or device.
        NotImplementedError: no kernel of fp8 for this device.
    """

    accumulate_main_grad: bool = False

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        accumulate_main_grad: bool = False,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.accumulate_main_grad = accumulate_main_grad

    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]."""
        kind = input.device.type
        if kind != "meta" and torch.is_autocast_enabled(kind):
            input = input.to(torch.get_autocast_dtype(kind))
        if input.shape[-1:] != (self.in_features,):
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({input.shape[:-1].numel()}x"
                f"{input.shape[-1] if input.dim() else 1} and "
                f"{self.in_features}x{self.out_features})"
            )
        rows = input.reshape(input.shape[:-1].numel(), self.in_features)
        main_grad = main_grad_of(self.weight) if self.accumulate_main_grad else None
        result = _Fp8Product.apply(rows, self.weight, self.bias, main_grad)
        return result.view(*input.shape[:-1], self.out_features)
