"""How programs are judged, as one value: what a `Verifier` is made from."""

from dataclasses import dataclass, field
from typing import Literal

from maxk.verify.jail import Limits
from maxk.verify.judge import Verifier


@dataclass(frozen=True)
class VerifierSettings:
    """The arguments of a `Verifier`."""

    workers: int | None = None  # programs judged at once; None: two per core
    limits: Limits = field(default_factory=Limits)
    allow_unsafe: bool = False  # under resource limits alone where the kernel has no isolation
    isolate: Literal["program", "test"] = "program"  # what gets a process of its own

    def verifier(self) -> Verifier:
        """Start the jails."""
        return Verifier(self.workers, self.limits, self.allow_unsafe, isolate=self.isolate)
