"""The strings that arguments take where they take a fixed set of them, for static checkers.

The library decides at run time which of them a call may have; python_tests/test_typing.py holds
these to what it knows.
"""

from __future__ import annotations

from typing import Literal

from ._build_info import Algo as Algo  # made of ops/core/ladder.inc

Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu"]
#: Of two operands, a letter each: n is row-major, t a transposed view of such.
Layout = Literal["nn", "nt", "tn", "tt"]
#: The rates of a roofline without tensor cores.
Peak = Literal["float32", "float64"]
Precision = Literal["ieee", "tf32", "fp16x3"]
#: The names of torch.nn.functional.ScalingType that a product with scales takes.
Recipe = Literal["TensorWise", "RowWise", "BlockWise1x128", "BlockWise128x128"]
Reduction = Literal["mean", "sum", "none"]
#: The trees by their leaves; 'tree' is 'tree:1024'.
Tree = Literal[
    "tree",
    "tree:16",
    "tree:32",
    "tree:64",
    "tree:128",
    "tree:256",
    "tree:512",
    "tree:1024",
    "tree:2048",
    "tree:4096",
    "tree:8192",
    "tree:16384",
]
SumOrder = Literal["chain", Tree]
