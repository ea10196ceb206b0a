"""Which operator of a model changes with the batch: ``tiled_mm.check_invariance``.

``_calls`` sees a program's calls, ``_program`` runs it, ``_rows`` finds the batch in a tensor's
sizes and hashes rows, ``_record`` keeps the hashes of a run, ``_judge`` tries one call alone,
``_blame`` says who did it, ``_report`` prints it.
"""

from ._check import assert_batch_invariant, check_invariance
from ._report import Finding, Report

__all__ = ["Finding", "Report", "assert_batch_invariant", "check_invariance"]
