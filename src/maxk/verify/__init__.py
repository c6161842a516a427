"""Untrusted programs in, verdicts out: docs/verifier.md."""

from maxk.verify.extract import program_for, program_of
from maxk.verify.jail import Limits, WorkerFailed
from maxk.verify.judge import Verifier
from maxk.verify.reward import UnitTestReward

__all__ = ["Limits", "UnitTestReward", "Verifier", "WorkerFailed", "program_for", "program_of"]
