"""What this machine gives the verifier, what is missing, and the one command that would add it."""

import errno
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from maxk.records import StdinTest
from maxk.verify.isolation.landlock import landlock_error
from maxk.verify.isolation.namespaces import closed_directories
from maxk.verify.isolation.probe import probe
from maxk.verify.judge import Verifier


@dataclass(frozen=True)
class Finding:
    """One layer: whether it works here and, if not, why and what to do."""

    layer: str
    stops: str
    works: bool
    why: str = ""
    command: str = ""


@dataclass(frozen=True)
class Report:
    """What the doctor found."""

    tier: str | None
    findings: tuple[Finding, ...]
    trial: str  # what became of an honest program


def read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def examine() -> Report:
    """Try every layer, then judge a program."""
    kernel = probe()
    container = any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv")))
    findings = (
        Finding(
            "user namespaces",
            "seeing other processes, the network, IPC of others",
            kernel.namespaces,
            *(("", "") if kernel.namespaces else namespaces_missing(read, container)),
        ),
        Finding(
            "Landlock",
            "opening files other than Python's library",
            kernel.landlock,
            *(("", "") if kernel.landlock else landlock_missing(landlock_error(), read)),
        ),
        Finding(
            "seccomp",
            "system calls a program that computes and prints has no use for",
            kernel.seccomp,
            *(("", "") if kernel.seccomp else seccomp_missing(platform.machine())),
        ),
    )
    if kernel.tier is None:
        return Report(None, findings, "")
    with Verifier(workers=1) as verifier:
        if os.geteuid() == 0:
            findings += (other_user(verifier),)
        return Report(kernel.tier, findings, trial(verifier))


def other_user(verifier: Verifier) -> Finding:
    """For root: whether programs run as someone else."""
    who = "import os; print(0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()))"
    (verdict,) = verifier.judge([(who, [StdinTest("", "False")])])
    stops = "being root; every jail has a user of its own"
    why = f"no user but root can read {sys.base_prefix}"
    command = f"chmod o+x {' '.join(closed_directories())}"
    missing = () if verdict.passed else (why, command)
    return Finding("another user", stops, verdict.passed, *missing)


def trial(verifier: Verifier) -> str:
    started = time.perf_counter()
    tests = [StdinTest(str(i), str(2 * i)) for i in range(10)]
    (verdict,) = verifier.judge([("print(int(input()) * 2)", tests)])
    if not verdict.passed:
        return f"an honest program was judged {verdict.fraction:.0%}: {verdict.tests[0]}"
    milliseconds = 1000 * (time.perf_counter() - started)
    python = ".".join(map(str, sys.version_info[:3]))
    return f"an honest program passed its 10 tests in {milliseconds:.0f} ms (Python {python})"


def namespaces_missing(read: Callable[[str], str | None], container: bool) -> tuple[str, str]:
    """Why user namespaces are refused, and the command that allows them."""
    switches = (
        ("user.max_user_namespaces", "0", "15000"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    )
    for name, off, on in switches:
        if read(f"/proc/sys/{name.replace('.', '/')}") == off:
            return f"{name} is {off}", f"sudo sysctl -w {name}={on}"
    if container:
        return (
            "the container's seccomp profile refuses them",
            "docker run --security-opt seccomp=unconfined ... (tier B is fine without)",
        )
    return "the kernel refuses them", "zcat /proc/config.gz | grep CONFIG_USER_NS  # has to be y"


def landlock_missing(error: int, read: Callable[[str], str | None]) -> tuple[str, str]:
    """Why there is no Landlock, from the error number of the kernel's answer."""
    modules = read("/sys/kernel/security/lsm") or "capability"
    if error == errno.EOPNOTSUPP:
        add = f"sudo grubby --update-kernel=ALL --args=lsm=landlock,{modules} && sudo reboot"
        return "the kernel has it and did not switch it on", add
    if error == errno.EPERM:
        return (
            "the container's seccomp profile refuses it",
            "docker run --security-opt seccomp=unconfined ...",
        )
    release = platform.release()
    return (
        f"Linux {release} was built without it; it is in 5.13 and newer",
        "sudo apt-get install --install-recommends linux-generic  # or your system's newer kernel",
    )


def seccomp_missing(machine: str) -> tuple[str, str]:
    if machine not in ("x86_64", "aarch64"):
        return f"the list of calls is not written for {machine}", ""
    return "the kernel refuses filters", "grep CONFIG_SECCOMP_FILTER /boot/config-$(uname -r)"
