"""The command, as a user types it. `maxk verify` is in tests/grade/test_file.py."""

import importlib
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import maxk as maxk_package
from maxk.cli import COMMANDS, main
from maxk.cli.arguments import actions_of, options_of
from maxk.cli.data import Data
from maxk.cli.table import EXAMPLES, PAGES
from maxk.data import DATASETS
from tests import command


def maxk(*arguments, code: int = 0) -> str:
    run = command.maxk(*arguments)
    assert run.returncode == code, run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    return run.stdout + run.stderr


def test_the_list_has_every_data_set_with_licence_and_paper():
    said = maxk("data", "list")
    for name in DATASETS:
        assert name in said
    assert "CC-BY-4.0" in said
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    identifiers = {each.hub for each in DATASETS.values() if each.hub}
    assert identifiers <= {line.strip().partition(";")[0] for line in lines}


def test_a_problem_is_shown_as_model_and_judge_see_it():
    said = maxk("data", "show", "starter", "--id", "starter/001", "--tests", "3")
    asked, graded = said.split("--- what it is graded by: ")
    assert "Write a Python program that reads the input from stdin" in asked
    assert graded.count("\nshown  {") == 2
    assert graded.count("\nhidden {") == 1
    assert "--- the reference ---\n" in graded
    assert maxk("data", "show", "starter", "--id", "001", "--tests", "3") == said


def test_check_lists_every_fault_with_its_line(tmp_path):
    good = {"id": "a", "statement": "s", "tests": [{"input": "", "output": ""}]}
    lines = [
        good,
        {**good, "id": "b", "tsets": 1},
        good,
        {"id": "c", "statement": "s", "tests": []},
    ]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{\n")
    said = maxk("data", "check", file, code=1)
    for fault in (
        "line 2, tsets: is unknown",
        "line 3, id: 'a' is the id of line 1 too",
        "line 4, tests: is empty",
        "line 5: ",
        "4 faults",
    ):
        assert fault in said
    file.write_text(json.dumps({**good, "tests": []}) + "\n")
    assert maxk("data", "check", file, code=1).splitlines()[-1] == "1 fault"
    file.write_text(json.dumps(good) + "\n")
    assert "no faults" in maxk("data", "check", file)


def test_verify_lists_the_references_that_fail_and_writes_them_down(tmp_path):
    rows = [
        {"id": i, "statement": "?", "tests": [{"input": "2", "output": "4"}], "reference": code}
        for i, code in {"right": "print(int(input()) * 2)", "wrong": "print(5)"}.items()
    ]
    rows.append({"id": "none", "statement": "?", "tests": [{"input": "2", "output": "4"}]})
    file, out = tmp_path / "mine.jsonl", tmp_path / "failures.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = maxk("data", "verify", "jsonl", "--split", "all", "--source", file, "--out", out)
    assert "wrong: 1 of 1 tests, wrong answer" in said
    assert "2 with a reference, 1 fail: 1 wrong answer, 0 are slow" in said
    assert "raises an exception 0.000, prints nothing 0.000, prints True 0.000" in said
    assert "0 problems give one of them too much" in said
    assert json.loads(out.read_text()) == {"wrong": "1 of 1 tests, wrong answer"}


@pytest.mark.parametrize(("given", "found"), [(None, "passive"), ("active", "active")])
def test_threads_that_wait_leave_their_core_to_others(monkeypatch, given, found):
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # put back afterwards, whatever it was
    monkeypatch.delenv("OMP_WAIT_POLICY")
    if given is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    monkeypatch.setattr(sys, "argv", ["maxk", "data", "list"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert os.environ["OMP_WAIT_POLICY"] == found


def test_what_an_error_was_given_to_say_is_said(monkeypatch, capsys):
    def run(_: Data) -> int:
        error = RuntimeError("out of memory")
        error.add_note("what takes less of it:\n  this")
        raise error

    monkeypatch.setattr(Data, "run", run)
    monkeypatch.setattr(sys, "argv", ["maxk", "data", "list"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = "maxk data: out of memory\nwhat takes less of it:\n  this\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("name", COMMANDS)
def test_a_summary_is_the_first_line_of_its_command(name):
    entry = COMMANDS[name]
    module, kind = entry.place.split(":")
    command = getattr(importlib.import_module(module), kind)
    assert command.__doc__.splitlines()[0] == entry.summary
    assert command.run  # what is called


def test_help_lists_all_commands_and_imports_none_of_them():
    code = (
        "import sys; from maxk.cli import main\ntry: main(['--help'])\nexcept SystemExit as ended: "
    )
    code += "print(ended.code, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    *lines, last = done.stdout.splitlines()
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if line[:2] == "  "}
    assert shown == {name: entry.summary for name, entry in COMMANDS.items()}
    assert {line for line in lines if line.endswith(":")} == {e.group for e in COMMANDS.values()}
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    code, *modules = last.split()
    assert code == "0"
    ours = {name for name in modules if name.startswith("maxk")}
    assert ours <= {"maxk", "maxk.cli", "maxk.cli.table", "maxk.cli.help", "maxk.cli.arguments"}
    assert not {"numpy", "torch", "tyro", "rich", "pyarrow", "scipy"} & set(modules)


def test_help_takes_at_most_0_3_seconds_of_cpu():
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "maxk", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(getattr(after, x) - getattr(before, x) for x in ("ru_utime", "ru_stime"))

    assert min(seconds() for _ in range(3)) <= 0.3


def test_version_and_no_command(capsys):
    assert ended(["--version"]) == 0
    assert capsys.readouterr().out == f"maxk {maxk_package.__version__}\n"
    assert ended([]) == 2
    assert "usage: maxk COMMAND" in capsys.readouterr().err


def test_an_unknown_command_is_an_error_that_names_those_like_it(capsys):
    assert ended(["evalute", "runs/base"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("maxk: unknown command 'evalute'\ndid you mean evaluate")
    assert ended(["zzz", "--help"]) == 2
    assert capsys.readouterr().err == (
        "maxk: unknown command 'zzz'\nmaxk --help lists all commands\n"
    )


def test_ctrl_c_says_that_the_command_can_be_repeated(monkeypatch, capsys):
    def run(_: Data) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Data, "run", run)
    assert ended(["data", "list"]) == 130
    assert capsys.readouterr().out == "stopped; repeat the command to go on\n"


@pytest.mark.parametrize("arguments", [["--help"], ["data", "list"]])
def test_output_that_nobody_reads_is_no_error(arguments):
    command = [sys.executable, "-m", "maxk", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 141)


def every_command() -> list[str]:
    """Every command that has a help of its own: `solve`, `data`, `data list`."""
    found = []
    for name, entry in COMMANDS.items():
        module, kind = entry.place.split(":")
        actions = actions_of(getattr(importlib.import_module(module), kind))
        found += [name, *(f"{name} {action}" for action in actions)]
    return found


@pytest.mark.parametrize("name", every_command())
def test_help_begins_with_an_example_and_ends_with_a_page_and_has_no_names_of_the_inside(name):
    said = maxk(*name.split(), "--help")
    first, *lines = said.strip().splitlines()
    assert first == "Example:"
    assert lines[len(EXAMPLES[name]) - 1].strip().startswith(f"maxk {name}")
    assert lines[-1] == f"More: {PAGES[name]}"
    assert max(map(len, lines[len(EXAMPLES[name]) :])) <= 80
    for inside in ("None", "action.file", "verifier.", "sampling.", "==", "(default: )"):
        assert inside not in said
    assert set(EXAMPLES) == set(PAGES) == set(every_command())


def test_pages_of_the_site_that_help_names_are_there():
    root = Path(__file__).parent.parent
    assert [page for page in PAGES.values() if not (root / page).exists()] == []


def test_every_option_of_every_command_has_a_text():
    for name in every_command():
        head, *action = name.split()
        module, kind = COMMANDS[head].place.split(":")
        command = getattr(importlib.import_module(module), kind)
        command = actions_of(command)[action[0]] if action else command
        if not actions_of(command):
            assert [each.name for each in options_of(command) if not each.text] == [], name


def test_train_lists_the_keys_of_its_file():
    keys = re.findall(r"^  (\w+(?:\.\w+)+)", maxk("train", "--keys"), re.MULTILINE)
    for key in ("run.out", "model.name", "data.split", "reward.limits.cpu_seconds", "method.k"):
        assert key in keys
    assert "None" not in maxk("train", "--keys")


def ended(arguments: list[str]) -> object:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code
