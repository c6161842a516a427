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
    hash_seeds: int = 1
    """2: count only what passes under two seeds of Python's hashes, at twice the cost"""

    @classmethod
    def of(cls, verifier: Verifier) -> "VerifierSettings":
        """Those of a verifier that verdicts depend on."""
        seeds = verifier.hash_seeds
        return cls(limits=verifier.limits, isolate=verifier.isolate, hash_seeds=seeds)

    def verifier(self) -> Verifier:
        """A verifier, whose jails are started."""
        given = (self.workers, self.limits, self.allow_unsafe)
        return Verifier(*given, isolate=self.isolate, hash_seeds=self.hash_seeds)

    def of_verdicts(self) -> dict[str, Any]:
        """The settings that verdicts depend on: not how many programs run at once."""
        more = {} if self.hash_seeds == 1 else {"hash_seeds": self.hash_seeds}  # files are older
        return {"limits": asdict(self.limits), "isolate": self.isolate, **more}
