"""Run folders, their tables, and how problems and verdicts are written."""

from maxk.store.run import MODEL, Run, RunError

__all__ = ["MODEL", "Run", "RunError"]
