"""The doctor: what is missing has a reason and one command."""

import errno
import os
from types import SimpleNamespace

import pytest

from maxk.verify import Verifier, doctor
from maxk.verify.isolation.probe import Kernel, probe


def test_on_this_machine_every_layer_of_its_tier_works_and_a_program_passes():
    report = doctor.examine()
    assert report.tier == probe().tier
    layers, rest = report.findings[:3], report.findings[3:]
    assert [f.works for f in layers] == list(probe())
    assert [f.layer for f in rest] == (["another user"] if os.geteuid() == 0 else [])
    if report.tier == "A":
        assert all(f.works for f in rest)
    assert report.trial.startswith("an honest program passed its 10 tests")


def test_the_trial_says_how_long_it_took(monkeypatch):
    with Verifier(workers=1) as verifier:
        monkeypatch.setattr(doctor, "time", SimpleNamespace(perf_counter=iter([9, 9.25]).__next__))
        assert "10 tests in 250 ms" in doctor.trial(verifier)


@pytest.mark.parametrize(
    ("files", "container", "why", "command"),
    [
        (
            {"/proc/sys/user/max_user_namespaces": "0"},
            False,
            "user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        (
            {"/proc/sys/kernel/unprivileged_userns_clone": "0"},
            False,
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
            True,
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({}, True, "the container's seccomp profile", "--security-opt seccomp=unconfined"),
        ({}, False, "the kernel refuses them", "CONFIG_USER_NS"),
    ],
)
def test_missing_namespaces_are_explained_by_the_switch_that_is_off(files, container, why, command):
    found = doctor.namespaces_missing(files.get, container)
    assert found[0].startswith(why)
    assert command in found[1]


def test_missing_landlock_is_explained_by_the_error_of_the_kernel():
    files = {"/sys/kernel/security/lsm": "capability,yama"}
    off = doctor.landlock_missing(errno.EOPNOTSUPP, files.get)
    assert "--args=lsm=landlock,capability,yama" in off[1]
    filtered = doctor.landlock_missing(errno.EPERM, files.get)
    assert "seccomp=unconfined" in filtered[1]
    absent = doctor.landlock_missing(errno.ENOSYS, files.get)
    assert "5.13" in absent[0]


def test_no_tier_means_no_trial(monkeypatch):
    monkeypatch.setattr(doctor, "probe", lambda: Kernel(True, False, True))
    monkeypatch.setattr(doctor, "landlock_error", lambda: errno.ENOSYS)
    report = doctor.examine()
    assert (report.tier, report.trial) == (None, "")
    assert report.findings[1].command
