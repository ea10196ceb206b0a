"""Modules on the library's products. They are torch's own where torch has them, with the same
parameters and the same ``state_dict``."""

from __future__ import annotations

from ._convert import convert
from ._experts import Experts
from ._fp8_linear import Fp8Linear
from ._linear import Linear
from ._mlp import MLP

__all__ = ["MLP", "Experts", "Fp8Linear", "Linear", "convert"]
