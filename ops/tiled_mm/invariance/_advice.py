"""What to use instead of an operator whose rows change: the lines of docs/models.md."""

from __future__ import annotations

import re

# A pattern of the operator's name, the device it is for (None: any), and the advice. The first that
# fits is taken.
_ADVICE: tuple[tuple[str, str | None, str], ...] = (
    (
        r"^(mm|bmm|addmm|baddbmm|addmv|mv|dot|_addmm_activation|_int_mm"
        r"|_grouped_mm|_scaled_(grouped_)?mm(_v2)?)(\.|$)",
        None,
        "tiled_mm.override(), whose products keep their bits",
    ),
    (
        r"^(gelu|silu|sigmoid|softplus|elu|selu|celu|mish|glu|tanh|log_sigmoid)",
        "cpu",
        "an activation of tiled_mm.linear, or x / (1 + torch.exp(-x)) for silu",
    ),
    (r"^rsqrt", "cpu", "1 / torch.sqrt(x)"),
    (r"^(pow|exp2|sinh|cosh|erf|exp|log|sin|cos)", "cpu", "whole powers by products, or fp64"),
    (
        r"scaled_dot_product|flash_attention|efficient_attention|cudnn_attention",
        None,
        "one backend by torch.nn.attention.sdpa_kernel, a fixed split of keys, or eager attention",
    ),
    (
        r"batch_norm",
        None,
        "eval(), or a norm over features: a batch norm in training is over the batch",
    ),
    (r"layer_norm|rms_norm|group_norm", None, "nn.RMSNorm or nn.LayerNorm in eager mode"),
    (
        r"softmax|^(mean|sum|var|std|norm|linalg_vector_norm|logsumexp|amax|prod|cumsum)",
        None,
        "tiled_mm.compat.batch_invariant_ops' log_softmax and mean, or sums of fixed order",
    ),
    (
        r"index_add|scatter|index_put|embedding_dense_backward|put_",
        None,
        "torch.use_deterministic_algorithms(True)",
    ),
    (r"convolution|conv_|cudnn|mkldnn|rnn|lstm|gru", None, "one sequence a call, or products"),
)

_BY_KIND = {
    "random": "one generator a row, or eval(): rows share one stream of random numbers",
    "over the batch": "it adds over the batch: keep it out of what a row's answer is made of",
    "another size": "sizes that do not depend on the batch (a static cache of full length)",
    "another path": "one path for every batch",
    "cannot see inside": "the library's own switch for one order of sums, or torch's operators",
    "run to run": "torch.use_deterministic_algorithms(True)",
}


def advice_for(operator: str, kind: str, device: str) -> str:
    """``operator`` as aten names it, without its namespace: 'addmm', 'mean.dim'."""
    if "::" in operator and kind in ("rows", "columns"):
        kind = "cannot see inside"
    if kind in ("rows", "columns", "run to run"):
        for pattern, only, advice in _ADVICE:
            if (only is None or only == device) and re.search(pattern, operator):
                return advice
    return _BY_KIND.get(kind, "nothing here is known for it: see docs/models.md")
