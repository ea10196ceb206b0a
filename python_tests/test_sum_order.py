"""sum_order=: the tree of docs/contract.md, written out, in every product and its derivatives."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator

import cases
import epilogues
import gates
import groups
import promise
import pytest
import rungs
import tiled_mm
import torch
import trees
from cases import COMPLEX, DEVICES, FLOATS, HALVES, INTEGERS, each
from golden import assert_same_bits, golden_mm
from torch import Tensor
from trees import by_hand, sum_dtype, tree_of

from bench import results, schema, tree
from bench.timing import Rounds

LEAVES = (16, 64, 512)
# None, one or some leaves; halves that meet at a multiple of 16, or do not; ragged ends.
DEPTHS = (0, 1, 31, 32, 33, 47, 48, 63, 64, 100, 127, 1000, 1024, 3001)
ACTIVATIONS = (None, "relu", "gelu", "silu")


@pytest.fixture(autouse=True)
def setting() -> Iterator[None]:
    tiled_mm.set_sum_order("chain")
    yield
    tiled_mm.set_sum_order("chain")


def operands(m: int, n: int, k: int, dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor]:
    return cases.fill(m, k, dtype, device), cases.fill(k, n, dtype, device)


@each("device", DEVICES)
@each("dtype", FLOATS)
def test_the_tree_is_the_one_that_is_written_down(dtype: torch.dtype, device: str) -> None:
    for (m, n), k in itertools.product(((1, 1), (3, 70), (65, 33)), DEPTHS):
        a, b = operands(m, n, k, dtype, device)
        for leaf in LEAVES:
            got = tiled_mm.mm(a, b, sum_order=f"tree:{leaf}")
            assert_same_bits(got, by_hand(a, b, leaf).to(dtype), f"{m}x{n}x{k}, {leaf}")


@each("dtype", (torch.float32, torch.float64))
def test_beside_chains_of_no_kernel(dtype: torch.dtype) -> None:
    a, b = operands(4, 5, 150, dtype, "cpu")
    right = tree_of(lambda k: golden_mm(a[:, k], b[k]), 150, 32)
    assert_same_bits(tiled_mm.mm(a, b, sum_order="tree:32"), right)
    assert not torch.equal(right, tiled_mm.mm(a, b))


@pytest.mark.cuda
@each("dtype", tuple(trees.SPLIT_K))
@each("layout", ("nn", "nt", "tn", "tt"))
def test_kernels_that_sum_a_tree(layout: str, dtype: torch.dtype) -> None:
    """Every way of the rungs that do: several tiles a block, leaves of whole and part steps, shared
    out among blocks or not."""

    def laid(m: int, n: int, k: int) -> list[Tensor]:
        pair = zip(operands(m, n, k, dtype, "cuda"), layout, strict=True)
        return [cases.column_major(x) if how == "t" else x for x, how in pair]

    sizes = ((2100, 520), (70, 90), (20, 15))
    for (m, n), k, leaf in itertools.product(sizes, (32, 100, 1000, 3001), LEAVES[:2]):
        if k < 2 * leaf:
            continue
        a, b = laid(m, n, k)
        right = by_hand(a, b, leaf)
        for way, got in trees.by_every_way(a, b, leaf):
            assert_same_bits(got, right.to(dtype), f"{m}x{n}x{k}, {leaf}, {way}")
        asked = {"sum_order": f"tree:{leaf}"}
        x, y = torch.stack((a, -a)), torch.stack((b, b))
        assert_same_bits(tiled_mm.bmm(x, y, **asked), by_hand(x, y, leaf).to(dtype))
        if dtype in HALVES:
            wide = tiled_mm.mm(a, b, torch.float32, **asked)
            assert_same_bits(wide, right, f"{m}x{n}x{k}, {leaf}, fp32")
        if not dtype.is_complex:
            bias = cases.fill(1, n, dtype, "cuda")[0]
            got = tiled_mm.linear(a, b.mT, bias, activation="relu", **asked)
            expected = torch.relu(right + bias.to(right.dtype)).to(dtype)
            assert_same_bits(got, expected, f"{m}x{n}x{k}, {leaf}, linear")


@each("device", DEVICES)
@each("dtype", FLOATS)
def test_errors_are_within_a_chain_s(dtype: torch.dtype, device: str) -> None:
    a, b = operands(33, 40, 5000, dtype, device)
    arithmetic = "tensor" if device == "cuda" and dtype in HALVES else "fma"
    gates.check(tiled_mm.mm(a, b, sum_order="tree:16"), a, b, arithmetic)


@each("device", DEVICES)
@each("precision,unit", (("fp16x3", 64), ("tf32", 16), ("ieee", 16)))
def test_precisions(precision: str, unit: int, device: str) -> None:
    """Where fp16x3 runs, a leaf is made of its blocks of 64."""
    unit = unit if device == "cuda" else 16
    for k in (127, 128, 700, 3001):
        a, b = operands(70, 90, k, torch.float32, device)
        right = by_hand(a, b, 64, unit, precision=precision)
        assert_same_bits(tiled_mm.mm(a, b, precision=precision, sum_order="tree:64"), right)


HUGE = 2.0**40


@pytest.mark.cuda
@pytest.mark.mma
@each("size", ((70, 90), (3, 200), (200, 3), (1, 1)))
def test_fp16x3_has_a_scale_for_each_leaf(size: tuple[int, int]) -> None:
    """An element 2^40 times the others of its row coarsens its own leaf alone. It counts in the
    bound by the |A||B| of that leaf: not at all where it meets zero, and as any other element where
    it meets 2^-40."""
    (m, n), k = size, 8192
    a, b = ((1 + torch.rand(*s)) * (2 * torch.randint(2, s) - 1) for s in ((m, k), (k, n)))
    at = torch.randint(k, (m,))  # where each row has it; the columns know of all these places
    for i, j in enumerate(at.tolist()):
        a[i, j] = HUGE
        b[j, ::2], b[j, 1::3] = 0, 1 / HUGE
    for x, y in ((a.cuda(), b.cuda()), (b.mT.cuda(), a.mT.cuda())):
        for order, leaf in (("tree:64", 64), ("tree:256", 256), ("tree", 1024)):
            got = tiled_mm.mm(x, y, precision="fp16x3", sum_order=order)
            assert_same_bits(got, by_hand(x, y, leaf, 64, precision="fp16x3"), order)
            found = promise.check(got, trees.fp16x3_reference(x, y, leaf))
            assert not found.any(), f"{order}: {found.counts()}"


@pytest.mark.cuda
@pytest.mark.mma
@each("size", ((70, 90), (3, 200), (200, 3), (1, 1)))
def test_one_chain_of_fp16x3_is_coarser_beside_a_large_element(size: tuple[int, int]) -> None:
    """One scale for all of K cuts what a leaf of its own keeps.

    2^40 is scaled to 2^14, and so all else of its row, 1 + 7 2^-13, to 2^-26 of itself: its upper
    part is 0, and its lower one, in multiples of 2^-24, is that of 1. So each of these, times 1.75,
    loses 1.75 * 7 2^-13, and K of them 24.5. Nothing else is lost, as all other numbers have few
    bits. 2^40 itself meets 1.75 2^-19, so that C is about 3.7 million.

    The guard counts 224 units for each of them, and 512: 92 for all, less than the (1024 - 349) u C
    = 149 that it tolerates for this K (r = 93.4 + 255; on 9.0 it is less). So it lets them pass.
    The bound of a tree of leaves of 64 is (64 + 9 + 1) u C = 16.3, since it is 9 deep at most: by
    the scale of a leaf without 2^40 each number is a sum of two parts.
    """
    (m, n), k = size, 16384
    a = torch.full((m, k), 1 + 7 * 2.0**-13, device="cuda")
    b = torch.full((k, n), 1.75, device="cuda")
    places = (70, k // 2, k - 1)
    b[list(places)] *= 2.0**-19
    for i in range(m):
        a[i, places[i % 3]] = HUGE
    for left, right in ((a, b), (b.mT, a.mT)):
        reference = trees.fp16x3_reference(left, right, 64)
        tree = tiled_mm.mm(left, right, precision="fp16x3", sum_order="tree:64")
        found = promise.check(tree, reference)
        assert not found.any(), f"a tree: {found.counts()}"
        chain = tiled_mm.mm(left, right, precision="fp16x3", sum_order="chain")
        found = promise.check(chain, promise.reference(left, right))
        assert not found.any(), f"a chain: {found.counts()}"
        off, of_tree = ((c.double() - reference.value).abs() for c in (chain, tree))
        assert (off > reference.bound).all(), "a chain is beyond the bound of a tree"
        assert (of_tree < off).all()


@each("device", DEVICES)
@each("dtype", FLOATS)
def test_what_comes_behind_the_root(dtype: torch.dtype, device: str) -> None:
    """alpha, beta, bias and activation see the whole sum, and there is one rounding."""
    nothing = torch.zeros(9, 0, dtype=dtype, device=device), torch.zeros(0, 21, dtype=dtype)
    a, b = operands(9, 21, 200, dtype, device)
    c, bias = cases.fill(9, 21, dtype, device), cases.fill(1, 21, dtype, device)[0]
    root = by_hand(a, b, 16)
    numbers = {"alpha": 1, "beta": -1.9}
    for activation in ACTIVATIONS if dtype not in COMPLEX else (None,):
        asked = {"activation": activation, "sum_order": "tree:16"}
        # The root, as what a product over no k is added to, goes through the same epilogue.
        right = (
            tiled_mm.addmm(
                root.to(sum_dtype(dtype)), *(t.to(device) for t in nothing), activation=activation
            )
            if dtype not in COMPLEX
            else root
        )
        assert_same_bits(tiled_mm.linear(a, b.mT, **asked), right)
        if dtype in COMPLEX:
            continue
        wide = root + bias.to(root.dtype)
        right = tiled_mm.addmm(wide, *(t.to(device) for t in nothing), activation=activation)
        assert_same_bits(tiled_mm.linear(a, b.mT, bias, **asked), right)
        added = torch.addcmul(root, c.to(root.dtype), torch.ones_like(root))
        right = tiled_mm.addmm(added, *(t.to(device) for t in nothing), activation=activation)
        assert_same_bits(tiled_mm.addmm(c, a, b, **asked), right)
    in_place = c.clone()
    tiled_mm.addmm(in_place, a, b, out=in_place, sum_order="tree:16", **numbers)
    assert_same_bits(in_place, tiled_mm.addmm(c, a, b, sum_order="tree:16", **numbers))


@each("device", DEVICES)
@each("dtype", FLOATS)
def test_baddbmm(dtype: torch.dtype, device: str) -> None:
    """Every entry is the tree of its own operands; then the epilogue, written again; then one
    rounding."""
    pairs = [operands(9, 21, 200, dtype, device) for _ in range(3)]
    a, b = (torch.stack(each_of) for each_of in zip(*pairs, strict=True))
    c = torch.stack([cases.fill(9, 21, dtype, device) for _ in range(3)])
    root = by_hand(a, b, 16).cpu()
    activations = ACTIVATIONS if dtype not in COMPLEX else (None,)
    outs = {dtype, sum_dtype(dtype)}
    for activation, out, numbers in itertools.product(
        activations, outs, ({}, cases.factors(dtype))
    ):
        for added in (c, c[0], c[:, :1], c[0, 0]):
            right, _ = epilogues.expected(root, out, activation or "none", input=added, **numbers)
            asked = {"activation": activation, "out_dtype": out, **numbers}
            got = tiled_mm.baddbmm(added, a, b, sum_order="tree:16", **asked)
            assert_same_bits(got, right, f"{activation}, {out}, {numbers}")
    in_place = c.clone()
    tiled_mm.baddbmm(in_place, a, b, out=in_place, sum_order="tree:16", **numbers)
    right, _ = epilogues.expected(root, dtype, input=c, **numbers)
    assert_same_bits(in_place, right, "in place")
    with tiled_mm.sum_order("tree:16"):
        assert_same_bits(tiled_mm.baddbmm(c, a, b, **numbers), right, "as it is set")


@each("device", DEVICES)
@each("dtype", (torch.float32, torch.bfloat16))
def test_other_rows_columns_and_layouts(dtype: torch.dtype, device: str) -> None:
    """Nothing but a row, a column and K takes part; whatever is computed at once."""
    order = {"sum_order": "tree:16"}
    a, b = operands(300, 520, 333, dtype, device)
    whole = tiled_mm.mm(a, b, **order)
    assert_same_bits(tiled_mm.mm(a[7:8], b, **order), whole[7:8])
    assert_same_bits(tiled_mm.mm(a, b[:, 33:501], **order), whole[:, 33:501])
    for (_, x), (_, y) in zip(cases.laid_out(a), cases.laid_out(b), strict=True):
        assert_same_bits(tiled_mm.mm(x, y, **order), whole)
    out = cases.column_major(torch.empty_like(whole))
    assert_same_bits(tiled_mm.mm(a, b, out=out, **order), whole)
    batch = torch.stack([a[:50], a[50:100], a[100:150]])
    rows = tiled_mm.bmm(batch, b.expand(3, -1, -1), **order)
    assert_same_bits(rows.flatten(0, 1), whole[:150])
    assert_same_bits(tiled_mm.linear(batch, b.mT, **order), rows)
    assert_same_bits(torch.vmap(lambda x: torch.ops.tiled.mm(x, b, **order))(batch), rows)


def test_threads_and_levels() -> None:
    """Equal bits by one thread, by three, and at every level with fused multiply-adds."""
    script = (
        "import sys, torch, tiled_mm; torch.set_num_threads(int(sys.argv[1])); "
        "torch.manual_seed(0); a, b = torch.randn(33, 777), torch.randn(777, 129); "
        "c = tiled_mm.mm(a, b, sum_order='tree:32'); print(c.view(torch.int32).sum(0).tolist())"
    )
    said = set()
    for threads, level in (("1", ""), ("3", ""), ("1", "avx2")):
        run = subprocess.run(
            [sys.executable, "-c", script, threads],
            env=dict(__import__("os").environ, TILED_MM_CPU_LEVEL=level),
            capture_output=True,
            text=True,
            check=True,
        )
        said.add(run.stdout)
    assert len(said) == 1


@each("device", DEVICES)
def test_more_leaves_than_one_pass_adds(device: str) -> None:
    k = 1500 * 16
    a, b = operands(3, 5, k, torch.float32, device)
    assert_same_bits(tiled_mm.mm(a, b, sum_order="tree:16"), by_hand(a, b, 16))
    batch = a.expand(2, 3, k), b.expand(2, k, 5)
    assert_same_bits(tiled_mm.bmm(*batch, sum_order="tree:16")[1], by_hand(a, b, 16))


@each("device", DEVICES)
def test_a_result_that_is_computed_in_pieces(device: str) -> None:
    """Its leaves' sums would take 256 MiB at once; the tall one is cut, and the wide one."""
    for m, n in ((4001, 263), (263, 4001)):
        a, b = operands(m, n, 1024, torch.float32, device)
        bias, c = cases.fill(1, n, torch.float32, device), cases.fill(m, 1, torch.float32, device)
        whole = tiled_mm.addmm(c, a, b, sum_order="tree:16")
        assert_same_bits(tiled_mm.addmm(c[-9:], a[-9:], b, sum_order="tree:16"), whole[-9:])
        whole = tiled_mm.addmm(bias, a, b, sum_order="tree:16")
        part = tiled_mm.addmm(bias[:, -9:], a, b[:, -9:], sum_order="tree:16")
        assert_same_bits(part, whole[:, -9:])


@each("device", DEVICES)
@each("form", groups.FORMS)
@each("dtype", (torch.float32, torch.bfloat16))
def test_groups(dtype: torch.dtype, form: str, device: str) -> None:
    """Each group has the bits of its own product, by the leaves of its own K; zeros beyond."""
    order = {"sum_order": "tree:16"}
    drawn = groups.make(form, (0, 5, 5, 100, 138), 150, 130, 52, dtype, device)
    columns = drawn.b.shape[-1]
    bias = None if form == "columns" else cases.fill(5, columns, dtype, device)
    for given, activation in itertools.product((None, bias), (None, "gelu")):
        got = drawn.run(bias=given, activation=activation, **order)
        for g, ((x, y), c) in enumerate(zip(drawn.each(), drawn.parts(got), strict=True)):
            row = None if given is None else given[g]
            right = tiled_mm.linear(x, y.mT, row, activation=activation, **order)
            assert_same_bits(c, right, f"group {g}")
        assert not drawn.beyond(got).any()


@each("dtype", INTEGERS)
def test_integers_are_one_sum(dtype: torch.dtype) -> None:
    a, b = operands(5, 7, 300, dtype, "cpu")
    assert_same_bits(tiled_mm.mm(a, b, sum_order="tree:16"), tiled_mm.mm(a, b))


@pytest.mark.scaled
@each("device", DEVICES)
def test_scaled_products(device: str) -> None:
    """A leaf of fp8 has its blocks of 128, and their scales."""
    a, b = operands(40, 48, 900, torch.float32, device)
    a, b = (t.to(torch.float8_e4m3fn) for t in (a, b.mT.contiguous()))
    for rows in (40, 1):  # by blocks; and one scale
        scales = (
            (torch.rand(40, 8) + 0.5, torch.rand(8, 48) + 0.5)
            if rows == 40
            else (torch.tensor([[0.7]]), torch.tensor([[1.3]]))
        )
        scale_a, scale_b = (t.to(device) for t in scales)

        def sums(k: slice, x: Tensor = scale_a, y: Tensor = scale_b) -> Tensor:
            blocks = slice(k.start // 128, -(-k.stop // 128))
            if x.numel() > 1:
                x, y = x[:, blocks], y[blocks]
            return tiled_mm.scaled_mm(a[:, k], b.mT[k], x, y, out_dtype=torch.float32)

        right = tree_of(sums, 900, 128, 128).to(torch.bfloat16)
        got = tiled_mm.scaled_mm(a, b.mT, scale_a, scale_b, sum_order="tree:128")
        assert_same_bits(got, right)
        with tiled_mm.sum_order("tree:128"):
            assert_same_bits(tiled_mm.scaled_mm(a, b.mT, scale_a, scale_b), right)


def gradients(x: Tensor, weight: Tensor, bias: Tensor, g: Tensor, **asked: object) -> list[Tensor]:
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    tiled_mm.linear(*leaves, activation="gelu", **asked).backward(g)
    return [t.grad for t in leaves]


@each("device", DEVICES)
@each("dtype", (torch.float32, torch.bfloat16, torch.float64))
def test_gradients_are_summed_in_the_order_of_the_forward(dtype: torch.dtype, device: str) -> None:
    """The one that was asked for, or was set when the product ran."""
    x, weight = operands(90, 70, 80, dtype, device)
    weight, bias = weight.mT, cases.fill(1, 70, dtype, device)[0]
    g = cases.fill(90, 70, dtype, device)
    right = gradients(x, weight, bias, g, sum_order="tree:16")
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    with tiled_mm.sum_order("tree:16"):
        y = tiled_mm.linear(*leaves, activation="gelu")
    y.backward(g)
    for ours, expected in zip(leaves, right, strict=True):
        assert_same_bits(ours.grad, expected)
    before = tiled_mm.linear(x, weight, bias, sum_order="tree:16")
    passed, _ = torch.ops.tiled.activation_backward(g, before, "gelu")
    assert_same_bits(right[0], by_hand(passed, weight, 16).to(dtype))
    assert_same_bits(right[1], by_hand(passed.mT, x, 16).to(dtype))
    with tiled_mm.sum_order("tree:16"):
        chains = gradients(x, weight, bias, g, sum_order="chain")
    assert not torch.equal(chains[0], right[0])


def grouped_gradients(
    drawn: groups.Groups, bias: Tensor | None, seed: Tensor, backward_in: str, **asked: object
) -> list[Tensor]:
    """Of a, b and a bias if there is one; the setting is another one in the backward."""
    leaves = [t.detach().clone().requires_grad_() for t in (drawn.a, drawn.b)]
    with_bias = {} if bias is None else {"bias": bias.detach().clone().requires_grad_()}
    c = drawn.on(*leaves).run(**with_bias, **asked)
    with tiled_mm.sum_order(backward_in):
        return list(torch.autograd.grad(c, [*leaves, *with_bias.values()], seed))


@each("device", DEVICES)
@each("form", groups.FORMS)
@each(
    "dtype,activation",
    (
        *itertools.product((torch.float32, torch.bfloat16, torch.float64), (None, "gelu")),
        (torch.complex64, None),
    ),
)
def test_gradients_of_groups(
    dtype: torch.dtype, activation: str | None, form: str, device: str
) -> None:
    """Each group's are the products by hand that they are, in the order of the forward, whatever
    the setting is in the backward; zeros beyond all groups."""
    drawn = groups.make(form, (0, 5, 5, 100, 240), 250, 130, 52, dtype, device)
    has_bias = form != "columns" and dtype not in COMPLEX
    bias = cases.fill(5, 52, dtype, device) if has_bias else None
    asked = {"sum_order": "tree:16"}
    before = drawn.run(bias=bias, **asked)
    seed = cases.fill(before.numel(), 1, dtype, device).view(before.shape)
    got = grouped_gradients(drawn, bias, seed, "chain", activation=activation, **asked)
    again = grouped_gradients(drawn, bias, seed, "tree:32", activation=activation, **asked)
    with tiled_mm.sum_order("tree:16"):
        set_then = grouped_gradients(drawn, bias, seed, "chain", activation=activation)
    for one, two, three in zip(got, again, set_then, strict=True):
        assert_same_bits(one, two, "another setting in the backward")
        assert_same_bits(one, three, "the setting of the forward")

    passed = seed
    if activation:
        passed, _ = torch.ops.tiled.activation_backward(seed, before, activation)
    of_a, of_b = torch.zeros_like(drawn.a), torch.zeros_like(drawn.b)
    parts_a, parts_b = zip(*drawn.on(of_a, of_b).each(), strict=True)
    for g, ((x, y), part) in enumerate(zip(drawn.each(), drawn.parts(passed), strict=True)):
        parts_a[g].copy_(by_hand(part, y.mH, 16))
        parts_b[g].copy_(by_hand(x.mH, part, 16))
    assert_same_bits(got[0], of_a, "a's")
    assert_same_bits(got[1], of_b, "b's")
    if dtype not in HALVES:  # whose rounding may hide the order of so few terms
        in_chains = {"activation": activation, "sum_order": "chain"}
        chains = grouped_gradients(drawn, bias, seed, "tree:16", **in_chains)
        assert all(not torch.equal(x, y) for x, y in zip(chains, got, strict=True))
    if bias is None:
        return
    # The sums of a gradient's rows are products with ones.
    for row, part in zip(got[2], drawn.parts(passed), strict=True):
        right = by_hand(part.new_ones(1, len(part)), part, 16).to(dtype)
        assert_same_bits(row, right[0], "the bias'")


@pytest.mark.usefixtures("no_fallback")
@each("device", DEVICES)
@each("dtype", (torch.float32, torch.float64, torch.complex64))
def test_vmap_under_the_setting(dtype: torch.dtype, device: str) -> None:
    """Rules of vmap hand on what nobody asked for by an argument: the order that is set, of
    products and of what torch.func derives of them."""
    pairs = [operands(5, 7, 200, dtype, device) for _ in range(3)]
    a, b = (torch.stack(each_of) for each_of in zip(*pairs, strict=True))
    c = cases.fill(5, 7, dtype, device)
    right = [[by_hand(x, y, 16) for y in b] for x in a]
    products = {
        "mm": (tiled_mm.mm, lambda x: x, lambda x: x),
        "bmm": (tiled_mm.bmm, lambda x: torch.stack((x, -x)), lambda x: torch.stack((x, -x))),
        "linear": (tiled_mm.linear, lambda x: x, lambda x: x.mT),
        "addmm": (lambda x, y: tiled_mm.addmm(c, x, y), lambda x: x, lambda x: x),
        "grouped": (
            lambda x, y: tiled_mm.grouped_mm(x[None], y[None])[0],
            lambda x: x,
            lambda x: x,
        ),
    }
    for (name, (product, of_a, of_b)), dims in itertools.product(
        products.items(), ((0, 0), (0, None), (None, 0))
    ):
        x, y = (
            torch.stack([lay(t) for t in whole]) if dim == 0 else lay(whole[0])
            for whole, dim, lay in zip((a, b), dims, (of_a, of_b), strict=True)
        )
        with tiled_mm.sum_order("tree:16"):
            got = torch.vmap(product, dims)(x, y)
        chains = torch.vmap(product, dims)(x, y)
        for i in range(3):
            root = right[i if dims[0] == 0 else 0][i if dims[1] == 0 else 0]
            if name == "addmm":
                root = root + c.to(root.dtype)
            root = torch.stack((root, root)) if name == "bmm" else root
            assert_same_bits(got[i], root.to(dtype), f"{name}, {dims}, {i}")
        assert not torch.equal(got, chains), f"{name}, {dims}: the setting changed nothing"

    def loss(w: Tensor, x: Tensor, seed: Tensor) -> Tensor:
        return (tiled_mm.mm(x.mT, w) * seed).real.sum()

    if dtype in COMPLEX:
        return
    w, seeds = cases.fill(5, 40, dtype, device), cases.fill(3 * 200, 40, dtype, device)
    x, seeds = torch.cat([a] * 9, 1), seeds.view(3, 200, 40)
    with tiled_mm.sum_order("tree:16"):
        got = torch.vmap(torch.func.grad(loss), (None, 0, 0))(w.repeat(9, 1), x, seeds)
    for i in range(3):
        assert_same_bits(got[i], by_hand(x[i], seeds[i], 16).to(dtype), f"gradient {i}")


def test_second_derivatives_and_forward_mode() -> None:
    a, b = (t.requires_grad_() for t in operands(3, 4, 40, torch.float64, "cpu"))
    product = lambda x, y: tiled_mm.mm(x, y, sum_order="tree:16")  # noqa: E731
    assert torch.autograd.gradcheck(product, (a, b), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(product, (a, b))


@each("device", DEVICES)
def test_the_override_and_autocast(device: str) -> None:
    a, b = operands(20, 30, 200, torch.float32, device)
    with tiled_mm.override(), tiled_mm.sum_order("tree:16"):
        assert_same_bits(a @ b, by_hand(a, b, 16))
        assert_same_bits(torch.nn.functional.linear(a, b.mT), by_hand(a, b, 16))
    with torch.autocast(device, torch.bfloat16):
        got = tiled_mm.mm(a, b, sum_order="tree:16")
    half = a.bfloat16(), b.bfloat16()
    assert_same_bits(got, by_hand(*half, 16).bfloat16())


@each("device", DEVICES)
@each("backend", ("aot_eager", "inductor"))
def test_compiled(backend: str, device: str) -> None:
    """Asked for, or set; with gradients as it was set when it was compiled."""
    torch._dynamo.reset()
    how = {"backend": backend, "fullgraph": True}
    a, b = operands(6, 7, 100, torch.float32, device)
    product = torch.compile(lambda x, y: tiled_mm.mm(x, y, sum_order="tree:16") * 2, **how)
    assert_same_bits(product(a, b), by_hand(a, b, 16) * 2)
    plain = torch.compile(lambda x, y: tiled_mm.mm(x, y), **how)
    for order in ("chain", "tree:32", "tree:16"):
        with tiled_mm.sum_order(order):
            assert_same_bits(plain(a, b), tiled_mm.mm(a, b, sum_order=order))
    leaves = [t.clone().requires_grad_() for t in (a.repeat(9, 1), b.repeat(1, 9))]
    x, y = (t.detach() for t in leaves)
    for trained, order in ((product, "chain"), (plain, "tree:16")):
        with tiled_mm.sum_order(order):
            c = trained(*leaves)
        seed = cases.fill(*c.shape, torch.float32, device)
        got = torch.autograd.grad(c, leaves, seed)
        seed = seed * 2 if trained is product else seed
        assert_same_bits(got[0], by_hand(seed, y.mT, 16))
        assert_same_bits(got[1], by_hand(x.mT, seed, 16))


def test_the_setting_is_not_changed_while_compiling() -> None:
    def sets(x: Tensor) -> Tensor:
        tiled_mm.set_sum_order("tree")
        return x

    with pytest.raises(RuntimeError, match="outside of the compiled function"):
        torch.compile(sets, backend="eager", fullgraph=True)(torch.ones(2, 2))


def test_the_setting() -> None:
    assert tiled_mm.get_sum_order() == "chain"
    tiled_mm.set_sum_order("tree:1024")
    assert tiled_mm.get_sum_order() == "tree"
    with tiled_mm.sum_order("tree:64"):
        assert tiled_mm.get_sum_order() == "tree:64"
        with tiled_mm.sum_order("chain"):
            assert tiled_mm.get_sum_order() == "chain"
        assert tiled_mm.get_sum_order() == "tree:64"
    assert tiled_mm.get_sum_order() == "tree"


@each("order", ("trees", "tree:", "tree:8", "tree:24", "tree:32768", "tree:016", ""))
def test_names_that_are_none(order: str) -> None:
    a = torch.ones(2, 2)
    known = f"unknown sum_order '{order}'; expected 'chain', 'tree' or 'tree:LEAF'"
    for call in (
        lambda: tiled_mm.mm(a, a, sum_order=order),
        lambda: tiled_mm.linear(a.to("meta"), a.to("meta"), sum_order=order),
        lambda: tiled_mm.set_sum_order(order),
        lambda: tiled_mm.sum_order(order).__enter__(),
    ):
        with pytest.raises(RuntimeError) as refusal:
            call()
        assert known in str(refusal.value)


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="'sum_order' must be str, not int"):
        tiled_mm.mm(torch.ones(2, 2), torch.ones(2, 2), sum_order=16)
    with pytest.raises(TypeError, match=r"'order' .* must be str, not int"):
        tiled_mm.set_sum_order(16)


def test_lessons_refuse_a_tree() -> None:
    a = torch.ones(4, 64)
    for algo in ("naive", "tma_wgmma"):
        with pytest.raises(RuntimeError, match=f"'{algo}' is a lesson"):
            tiled_mm.mm(a, a.mT, algo=algo, sum_order="tree:16")
        with tiled_mm.sum_order("tree:16"), pytest.raises(RuntimeError, match="is a lesson"):
            tiled_mm.mm(a, a.mT, algo=algo)
    assert tiled_mm.algos(a, a.mT, sum_order="tree") == ["blocked"]
    assert "naive" in tiled_mm.algos(a, a.mT)
    found = tiled_mm.algos(a, a.mT, device="h100", sum_order="tree")
    assert found and not {*found} & {*rungs.LESSONS}


def test_explain_shows_the_leaves() -> None:
    sizes = (8192, 10000), (10000, 4096)
    for dtype, k, said in (
        (torch.float32, 1264, "2048 x 2048 of C"),
        (HALVES[0], 10000, "one product"),
    ):
        a, b = (torch.empty(*size, device="meta", dtype=dtype) for size in sizes)
        plan = tiled_mm.plan(a, b, device="h100", sum_order="tree")
        assert plan.leaves == [1264, *[1248] * 7]
        assert (plan.batch, plan.k) == (1, k)
        text = tiled_mm.explain(a, b, device="h100", sum_order="tree")
        assert "a tree of 8 leaves: 1264, 1248" in text and said in text
        assert tiled_mm.plan(a, b, device="h100").leaves is None
    x, y = operands(4, 4, 64, torch.float32, "cpu")
    assert tiled_mm.plan(x, y, sum_order="tree:16").leaves == [16] * 4
    assert "a tree of 4 leaves" in tiled_mm.explain(x, y, sum_order="tree:16")


def test_out_of_core_knows_the_chain_alone() -> None:
    a = torch.empty(64, 64, device="meta")
    with tiled_mm.sum_order("tree"), pytest.raises(NotImplementedError, match="of one chain"):
        tiled_mm.explain_out_of_core(a, a, memory=1 << 30, device="h200")


@each("device", DEVICES)
def test_the_benchmark(device: str) -> None:
    cases_of_it = list(tree.cases(7))
    assert len({case.name for case in cases_of_it}) == len(cases_of_it) == 3 * 4 + 3 * tree.SMALL
    for case in (cases_of_it[0], cases_of_it[9], *cases_of_it[12:15]):
        small = tree.divided(case, 128)
        record = tree.measure(small, torch.device(device), 7, Rounds(2, 2, 0.01))
        assert results.problems(record, schema.Tree) == []
        assert set(record["seconds"]) == {"chain", "torch", *case.orders}
    assert len(list(tree.summary([record]))) == 1


def test_the_benchmark_sees_a_wrong_tree(monkeypatch) -> None:
    case = tree.Case("small", "float32", "ieee", 3, 4, 5000)
    monkeypatch.setattr(tree, "parts_of", lambda begin, end, leaf, unit: [begin, end])
    with pytest.raises(RuntimeError, match="a wrong result: small ieee 3x4x5000, tree"):
        tree.measure(case, torch.device("cpu"), 7, Rounds(2, 2, 0.01))


def test_where_a_tree_is_summed() -> None:
    """By one product of all leaves, which blocks share out where C is small; or by leaves' own,
    where another rung is better at few rows, or there are too many leaves for one."""

    def plan(m: int, n: int, k: int, order: str = "tree", dtype=torch.bfloat16) -> dict:
        a, b = (torch.empty(x, k, dtype=dtype, device="meta") for x in (m, n))
        return tiled_mm.plan(a, b.mT, device="h100", sum_order=order)

    large, small = plan(8192, 4096, 14336), plan(300, 200, 16384)
    assert not large["hopper"]["split_k"] and small["hopper"]["split_k"]
    assert [len(x["leaves"]) for x in (large, small)] == [8, 16]
    # One sum of eight leaves leaves the registers, of each block's tile.
    assert large["workspace_bytes"] == large["steps"][0]["grid_x"] * 128 * 128 * 4
    assert small["workspace_bytes"] == 16 * 300 * 200 * 4
    few, many = plan(1, 2048, 16384), plan(300, 200, 16384, "tree:16")
    assert few["algo"] == "few_rows" and len(many["leaves"]) == 1024
    assert few["k"] == 16384 and [step["work"] for step in few["steps"]] == ["product"]
    assert many["k"] == 16  # the first leaf's
    for dtype, algo in ((torch.float32, "register_tile"), (torch.float64, "mma_tile")):
        a, b = (
            torch.empty(*size, dtype=dtype, device="meta") for size in ((300, 16384), (16384, 200))
        )
        small = tiled_mm.plan(a, b, device="h100", sum_order="tree")
        assert (small["algo"], small["k"], small["split_k"]) == (algo, 16384, True)
        assert [step["work"] for step in small["steps"]] == ["product", "sums"]
        assert plan(4000, 4000, 16384, dtype=dtype)["k"] == 1024  # the first leaf's
