"""Untrusted programs in, verdicts out: `Verifier` judges, `program_of` finds the program.

docs/verifier.md has the threat model: what each layer stops, and what lies outside.
"""

from maxk.verify.extract import program_of
from maxk.verify.judge import Verifier
from maxk.verify.worker import Limits, WorkerFailed

__all__ = ["Limits", "Verifier", "WorkerFailed", "program_of"]
