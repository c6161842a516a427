"""Untrusted programs and their tests in, verdicts out: docs/explanation/verifier.md."""

from maxk.verify.jail import Limits, WorkerFailed
from maxk.verify.judge import Verifier
from maxk.verify.settings import VerifierSettings

__all__ = ["Limits", "Verifier", "VerifierSettings", "WorkerFailed"]
