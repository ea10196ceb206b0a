"""Named sets of problems, each with its source.

C[m, n] = A[m, k] . B[k, n], `batch` times. Layout has one letter per operand: n is row-major,
t is a transposed view; so "nt" is what a linear layer asks for, its weight being [n, k].
Data names what A holds: normal numbers, or what comes out of a softmax or a GELU.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace

FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
DTYPES = FLOATS + COMPLEX + INTEGERS
SCALED = ("float8_e4m3fn",)  # of products with scales alone
LAYOUTS = ("nn", "nt", "tn", "tt")
DATA = ("normal", "softmax", "gelu")

BYTES = {
    "float32": 4,
    "float64": 8,
    "float16": 2,
    "bfloat16": 2,
    "complex64": 8,
    "complex128": 16,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "float8_e4m3fn": 1,
}


@dataclass(frozen=True)
class Shape:
    """One problem."""

    m: int
    n: int
    k: int
    layout: str = "nn"
    dtype: str = "float32"
    batch: int = 1
    data: str = "normal"  # of A; B is normal

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k, self.batch) < 1:
            raise ValueError(f"sizes must be positive: {self}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}: {self}")
        if self.dtype not in DTYPES + SCALED:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}: {self}")
        if self.data not in DATA or (self.data != "normal" and self.dtype not in FLOATS):
            raise ValueError(f"data must be one of {', '.join(DATA)}, of floats: {self}")

    @property
    def flops(self) -> int:
        """Operations, a multiply-add counted as two (a complex one as eight)."""
        per_term = 8 if self.dtype in COMPLEX else 2
        return per_term * self.batch * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Least traffic, in bytes: every operand read once, C written once."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return self.batch * elements * BYTES[self.dtype]

    @property
    def label(self) -> str:
        cube = self.m == self.n == self.k
        sizes = f"{self.m}³" if cube else f"{self.m}x{self.n}x{self.k}"
        batch = f"{self.batch} x " if self.batch > 1 else ""
        data = f" {self.data}" if self.data != "normal" else ""
        return f"{batch}{sizes} {self.layout}{data} {self.dtype}"

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict) -> Shape:
        return cls(**record)


@dataclass(frozen=True)
class ShapeSet:
    """Problems that belong together. `dtypes` are the ones run unless others are asked for."""

    name: str
    about: str
    source: str
    dtypes: tuple[str, ...]
    templates: tuple[Shape, ...]

    def shapes(self, dtypes: tuple[str, ...] = ()) -> list[Shape]:
        return [replace(t, dtype=d) for d in (dtypes or self.dtypes) for t in self.templates]


def _cubes(*sizes: int) -> tuple[Shape, ...]:
    return tuple(Shape(s, s, s) for s in sizes)


def _linear(rows: tuple[int, ...], weights: tuple[tuple[int, int], ...]) -> tuple[Shape, ...]:
    """`rows` inputs through layers whose weights are [n, k]."""
    return tuple(Shape(m, n, k, "nt") for n, k in weights for m in rows)


# (N, K) of the linear layers of transformers of 8 billion parameters, the first four, and of 70.
LAYERS = (
    (4096, 4096),
    (6144, 4096),
    (28672, 4096),
    (4096, 14336),
    (8192, 8192),
    (57344, 8192),
    (8192, 28672),
)


def _with_layers(*rows: int) -> tuple[Shape, ...]:
    return tuple(Shape(m, n, k) for m in rows for n, k in LAYERS)


def _in_layouts(templates: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Each of them, once, in the layouts that a training step asks for."""
    once = dict.fromkeys(templates)
    return tuple(replace(t, layout=layout) for layout in ("nn", "nt", "tn") for t in once)


# From issues on small products.
TINY = (Shape(12, 12, 64), Shape(128, 45, 45), Shape(128, 46, 46))


def drawn_size(rng: random.Random, low: int, high: int, step: int) -> int:
    """A multiple of `step`, of sizes that are spread evenly over their logarithms."""
    return max(step, step * round(low * (high / low) ** rng.random() / step))


def _drawn(seed: int, count: int, low: int, high: int, most: float) -> tuple[Shape, ...]:
    """Sizes spread evenly over their logarithms, from `low` to `high`, in multiples of 64, every
    third a cube; of at most `most` multiply-adds. Nobody chose a tile for them."""
    rng = random.Random(seed)
    found: list[Shape] = []

    def size() -> int:
        return drawn_size(rng, low, high, 64)

    while len(found) < count:
        one = size()
        m, n, k = (one, one, one) if len(found) % 3 == 0 else (size(), size(), size())
        if m * n * k <= most:
            found.append(Shape(m, n, k))
    return tuple(found)


def _drawn_layers(seed: int, count: int) -> tuple[Shape, ...]:
    """96 to 512 rows, in multiples of 32, with layers of drawn widths and depths."""
    rng = random.Random(seed)
    sizes = [
        (64 * round(2 ** rng.uniform(4, 8)), 64 * round(2 ** rng.uniform(4, 8)))
        for _ in range(count)
    ]
    return tuple(Shape(32 * rng.randint(3, 16), n, k) for n, k in sizes)


SETS: dict[str, ShapeSet] = {
    s.name: s
    for s in (
        ShapeSet(
            "ladder",
            "the sizes at which every rung is compared, from the first kernel on",
            "the usual plot of a course: run time over N, one line for each tile width",
            ("float32",),
            _cubes(128, 256, 512, 1024, 2048, 4096, 8192),
        ),
        ShapeSet(
            "squares",
            "squares from launch-bound to power-bound",
            "what most matrix-product benchmarks show",
            ("float32", "bfloat16"),
            _cubes(512, 1024, 2048, 4096, 8192),
        ),
        ShapeSet(
            "odd",
            "sizes that no tile divides and rows that do not begin on 16 bytes",
            "pytorch issues 106469, 146817, 181718 and 85387 (16-bit products up to 31 times "
            "slower than their even neighbours), mlx issue 2712; 50257 is GPT-2's vocabulary",
            ("bfloat16",),
            (
                *_cubes(1023, 2047, 2056, 2072, 4095, 4097, 8191),
                Shape(3000, 5000, 7001),
                Shape(8193, 2501, 5008),
                Shape(65, 253, 4096),
                Shape(2048, 50257, 768, "nt"),
                *(Shape(i, 100, 100000, "tn") for i in (3, 4, 7, 8, 15, 16, 17)),
                *(Shape(s, s, 1024, "nn", batch=128) for s in (255, 256, 257)),
            ),
        ),
        ShapeSet(
            "large16",
            "16-bit products that the power limit decides, in three layouts",
            "squares, and the layers of Llama 3 8B and 70B with 512 to 8192 rows",
            ("bfloat16", "float16"),
            _in_layouts(
                _cubes(2048, 2056, 3072, 4096, 6144, 8192, 12288, 16384)
                + _with_layers(512, 2048, 8192)
            ),
        ),
        ShapeSet(
            "middle16",
            "16-bit products of one wave or few, in three layouts",
            "squares off the powers of two, and the same layers with 128 and 256 rows",
            ("bfloat16", "float16"),
            _in_layouts(_cubes(384, 512, 768, 1024, 1280, 1536, 1792) + _with_layers(128, 256)),
        ),
        ShapeSet(
            "large16_drawn",
            "large 16-bit products of sizes that nobody chose, in three layouts",
            "drawn by a seed",
            ("bfloat16",),
            _in_layouts(_drawn(2201, 40, 2048, 12288, 5e11)),
        ),
        ShapeSet(
            "middle16_drawn",
            "middle ones, likewise",
            "drawn by a seed",
            ("bfloat16",),
            _in_layouts(_drawn(2202, 20, 224, 1920, 1e10) + _drawn_layers(2203, 12)),
        ),
        ShapeSet(
            "unaligned16",
            "16-bit products whose rows do not begin on 16 bytes, in three layouts",
            "the sizes of the set `odd` that are large, two between them, and even ones that are "
            "no multiple of 8",
            ("bfloat16", "float16"),
            _in_layouts(
                (
                    *_cubes(1023, 1111, 1999, 2047, 4095, 4097, 8191, 1030, 2050, 4100),
                    Shape(3000, 5000, 7001),
                    Shape(4096, 50257, 768),
                    Shape(8193, 2501, 5008),
                )
            ),
        ),
        ShapeSet(
            "mma_sync",
            "what mma.sync can do, for --algo async_mma, in three layouts",
            "squares and layers at which CUTLASS's kernels for compute capability 8.0 were timed; "
            "with --dtype float32 --precision tf32 they are for tf32",
            ("bfloat16", "int8"),
            _in_layouts(
                (
                    *_cubes(512, 1024, 2048, 4096, 8192),
                    Shape(128, 4096, 4096),
                    Shape(512, 4096, 4096),
                    Shape(2048, 4096, 14336),
                )
            ),
        ),
        ShapeSet(
            "tf32",
            "fp32 rounded to tf32, for --precision tf32, in three layouts",
            "squares and two of the layers",
            ("float32",),
            _in_layouts(
                (*_cubes(4096, 8192, 16384), Shape(8192, 4096, 14336), Shape(8192, 28672, 4096))
            ),
        ),
        ShapeSet(
            "fp16x3",
            "fp32 in two fp16 parts, for --precision fp16x3, in three layouts",
            "squares, aligned and not, the layers of Llama 3 8B with many rows and few, and scores "
            "times values of attention",
            ("float32",),
            _in_layouts(
                (
                    *_cubes(1024, 1536, 2048, 2304, 2560, 2816, 3072, 4096, 8192, 16384),
                    *_cubes(2047, 4095),
                    Shape(8192, 4096, 14336),
                    Shape(4096, 28672, 4096),
                    Shape(4096, 128, 4096),
                    *(Shape(m, n, 4096) for n in (4096, 28672) for m in (1, 16, 64)),
                )
            ),
        ),
        ShapeSet(
            "activations",
            "fp32 whose A comes out of a softmax or a GELU, for --precision fp16x3",
            "attention's weights times its values, and the second layer of a transformer's MLP; "
            "what is small beside its row's largest element is where two fp16 parts lose bits",
            ("float32",),
            tuple(
                Shape(m, n, k, layout, data=kind)
                for m, n, k, kind in ((4096, 128, 4096, "softmax"), (4096, 4096, 16384, "gelu"))
                for layout in ("nn", "nt")
            ),
        ),
        ShapeSet(
            "ieee",
            "fp32 chains, for --precision ieee, in three layouts",
            "squares",
            ("float32",),
            _in_layouts(_cubes(512, 1024, 2048, 4096, 8192, 16384)),
        ),
        ShapeSet(
            "fp64",
            "fp64 chains, in three layouts",
            "squares, aligned and not, and a narrow C",
            ("float64",),
            _in_layouts((*_cubes(512, 1024, 2048, 4096, 8192, 2047, 4095), Shape(4096, 128, 4096))),
        ),
        ShapeSet(
            "ieee_drawn",
            "fp32 chains of sizes that nobody chose, for --precision ieee, in three layouts",
            "drawn by a seed",
            ("float32",),
            _in_layouts(_drawn(2204, 24, 512, 8192, 1.5e11)),
        ),
        ShapeSet(
            "fp64_drawn",
            "fp64 chains, likewise",
            "drawn by a seed",
            ("float64",),
            _in_layouts(_drawn(2205, 24, 512, 8192, 1.5e11)),
        ),
        ShapeSet(
            "complex",
            "squares, any sizes, and a few rows, in three layouts",
            "drawn by a seed; the rows are a few layers'",
            COMPLEX,
            _in_layouts(
                (
                    *_drawn(2206, 12, 64, 4096, 1e10),
                    *(Shape(m, n, k) for n, k in LAYERS[:2] for m in (1, 4, 16, 64)),
                    Shape(65536, 64, 64),
                )
            ),
        ),
        ShapeSet(
            "few_rows",
            "decoding and routing: one to sixteen rows against a weight",
            "vllm issues 44343, 44217, 35121 and 42562, TensorRT-LLM issue 13646, onnxruntime "
            "issue 28986, pytorch issue 161134",
            ("bfloat16", "float32"),
            _linear(
                (1, 2, 4, 8, 16),
                (
                    (64, 7168),
                    (128, 6144),
                    (256, 2048),
                    (256, 7168),
                    (384, 7168),
                    (1792, 5120),
                    (2048, 2048),
                    (4096, 4096),
                    (4864, 896),
                    (6144, 4096),
                ),
            ),
        ),
        ShapeSet(
            "deep",
            "small C, deep K, and two as large as a weight's gradient, in three layouts",
            "pytorch issue 114911 and the split-K literature",
            ("bfloat16", "float32", "float64"),
            _in_layouts(
                (
                    Shape(1, 1, 131072),
                    Shape(16, 4096, 65536),
                    Shape(64, 64, 65536),
                    Shape(96, 96, 40960),
                    Shape(128, 128, 131072),
                    Shape(256, 256, 65536),
                    Shape(512, 512, 32768),
                    Shape(512, 512, 131072),
                    Shape(768, 640, 32768),
                    Shape(128, 1024, 100000),
                    Shape(2048, 2048, 32768),
                    Shape(4096, 4096, 65536),
                )
            ),
        ),
        ShapeSet(
            "tall",
            "many rows, very few columns, in three layouts",
            "pytorch issues 119000 (a 16 x 16 linear layer), 186348 (K and N below 8), 101249 "
            "and 16594",
            ("float32", "bfloat16"),
            _in_layouts(
                (
                    *(Shape(1 << e, 16, 16) for e in (13, 18, 23)),
                    Shape(400000, 4, 4),
                    Shape(1000000, 7, 7),
                    Shape(1000000, 16, 16),
                    Shape(1048576, 32, 32),
                    Shape(500000, 48, 96),
                    Shape(262144, 64, 64),
                    Shape(131072, 128, 128),
                    Shape(131072, 256, 32),
                    Shape(262144, 16, 512),
                )
            ),
        ),
        ShapeSet(
            "small",
            "where launching costs as much as computing",
            "pytorch issues 58760, 96140, 103313, 113743 and 144633",
            ("float32",),
            (
                *_cubes(3, 4, 16, 32, 64, 128, 256),
                *TINY,
            ),
        ),
        ShapeSet(
            "integers",
            "exact products; torch has no general integer product on CUDA",
            "pytorch issues 20897, 29961, 44428 and 49890",
            ("int8", "int32", "int64"),
            _cubes(1024, 4096),
        ),
        ShapeSet(
            "cpu",
            "the CPU's overview: small to middle squares and a linear layer",
            "pytorch issues 96140, 103313, 144633 and 162683 (small), 59177 and 146508 (16-bit)",
            ("float32", "float64", "bfloat16", "int32"),
            (
                *_cubes(16, 64, 256, 1000, 1024),
                *TINY,
                Shape(1, 4096, 4096, "nt"),
            ),
        ),
    )
}


def named_set(name: str) -> ShapeSet:
    if name not in SETS:
        raise KeyError(f"no shape set named {name!r}; there are: {', '.join(SETS)}")
    return SETS[name]
