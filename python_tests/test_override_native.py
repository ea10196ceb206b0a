"""Beside kernels that torch itself registers from Python (torch._native, from torch 2.13 on): its
own of bmm stands on CUDA, and one made in its way stands on the CPU here."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch

pytestmark = pytest.mark.skipif(
    torch.__version__ < torch.torch_version.TorchVersion("2.13"),
    reason="torch registers kernels of its own from Python from 2.13 on",
)

BEGIN = """
    import torch, tiled_mm
    from torch._native import registry
    from torch._native.registry import _cleanup_and_reregister_graph, _graphs, _filter_state

    def register(device):
        registry.register_op_override(
            "test", "aten", "bmm", device, cond=lambda a, b, *_, **__: a.shape[2] == 1,
            impl=lambda a, b, *_, **__: torch.full((7,), 7.0),
        )
        key = ("aten", "bmm", device)
        _cleanup_and_reregister_graph(*key, _graphs[key], filter_state=_filter_state)

    outer = torch.ones(2, 3, 1), torch.ones(2, 1, 4)
    plain = torch.ones(2, 3, 5), torch.ones(2, 5, 4)

    def theirs():
        return torch.bmm(*outer).shape == (7,)

    def counted():
        count = tiled_mm.override_counts(reset=True).get("bmm", {})
        return count.get("tiled", 0), count.get("torch", {}), "replaced_by" in count
"""


def run(program: str, begin: str = BEGIN) -> None:
    command = [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_theirs_first() -> None:
    """Ours computes while the override is on, and hands on to theirs while it is off."""
    run("""
        register("CPU")
        assert theirs()
        for _ in range(2):
            with tiled_mm.override("cpu"):
                assert not theirs() and torch.bmm(*plain).shape == (2, 3, 4)
                assert counted() == (2, {}, False), counted()
            assert theirs() and torch.bmm(*plain).shape == (2, 3, 4)
            assert counted() == (0, {"off": 2}, False)
    """)


def test_ours_first() -> None:
    """A kernel that comes later wins, is named, and what it leaves comes here."""
    run("""
        with tiled_mm.override("cpu"):
            assert not theirs() and counted() == (1, {}, False)
            register("CPU")
            assert theirs()
            torch.bmm(*plain)
            assert tiled_mm.override_counts()["bmm"]["replaced_by"]
        assert theirs() and torch.bmm(*plain).shape == (2, 3, 4)
    """)


@pytest.mark.cuda
def test_torchs_own_kernel_of_bmm() -> None:
    """Products of K = 1, which torch computes in Triton: ours have a product's bits, and off it
    is torch's again."""
    run(
        """
        import torch, tiled_mm
        a, b = torch.randn(8, 33, 1, device="cuda"), torch.randn(8, 1, 17, device="cuda")
        before = torch.bmm(a, b)
        with tiled_mm.override("cuda"):
            assert torch.equal(torch.bmm(a, b), tiled_mm.bmm(a, b))
            assert tiled_mm.override_counts(reset=True)["bmm"]["tiled"] == 1
        assert torch.equal(torch.bmm(a, b), before)
    """,
        begin="",
    )
