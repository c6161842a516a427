"""Untrusted programs and their tests in, verdicts out: docs/verifier.md."""

from maxk.verify.jail import Limits, WorkerFailed
from maxk.verify.judge import Verifier

__all__ = ["Limits", "Verifier", "WorkerFailed"]
