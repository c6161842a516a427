"""What this machine has: each layer tried for real, in a process of its own."""

import platform
from typing import NamedTuple

from .calls import succeeds
from .landlock import python_paths, restrict_files
from .namespaces import enter_namespaces, enter_root
from .seccomp import AUDIT_ARCH, restrict_calls


class Kernel(NamedTuple):
    """What works here, found out by doing it in a process of its own."""

    namespaces: bool
    landlock: bool
    seccomp: bool

    @property
    def tier(self) -> str | None:
        """A: all three. B: Landlock and seccomp. None: not enough to run a stranger's code."""
        if not (self.landlock and self.seccomp):
            return None
        return "A" if self.namespaces else "B"


def own_space() -> None:
    """Namespaces, and a root in them that holds Python's library alone."""
    enter_namespaces()
    enter_root(python_paths(), [])


def probe() -> Kernel:
    """Try each layer for real."""
    return Kernel(
        namespaces=succeeds(own_space),
        landlock=succeeds(lambda: restrict_files([])),
        seccomp=platform.machine() in AUDIT_ARCH and succeeds(restrict_calls),
    )
