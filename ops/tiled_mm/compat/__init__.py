"""The names of other libraries, for programs that call them: changing an import is all."""

from . import batch_invariant_ops, transformers

__all__ = ["batch_invariant_ops", "transformers"]
