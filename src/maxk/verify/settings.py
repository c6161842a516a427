"""How programs are judged: the arguments of a `Verifier` as one value, to be handed on or written.

The defaults of the limits are those of `Limits`.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from maxk.verify.jail import Limits
from maxk.verify.judge import Verifier

Isolate = Literal["program", "test"]


@dataclass(frozen=True)
class VerifierSettings:
    """The arguments of a `Verifier`."""

    workers: int | None = None
    """programs judged at once; default: two per core"""
    limits: Limits = field(default_factory=Limits)
    allow_unsafe: bool = False
    """judge under resource limits alone where the kernel has no isolation; for code you trust"""
    isolate: Isolate = "program"
    """what gets a process of its own"""

    @classmethod
    def of(cls, verifier: Verifier) -> "VerifierSettings":
        """Those of a verifier that verdicts depend on."""
        return cls(limits=verifier.limits, isolate=verifier.isolate)

    def verifier(self) -> Verifier:
        """A verifier, whose jails are started."""
        return Verifier(self.workers, self.limits, self.allow_unsafe, isolate=self.isolate)

    def of_verdicts(self) -> dict[str, Any]:
        """The settings that verdicts depend on: not how many programs run at once."""
        return {"limits": asdict(self.limits), "isolate": self.isolate}
