"""The command, as a user types it. `maxk verify` is in tests/grade/test_file.py."""

import importlib
import json
import os
import subprocess
import sys

import pytest

import maxk as maxk_package
from maxk.cli import COMMANDS, main
from maxk.cli.data import Data
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


def test_a_problem_is_shown_as_model_and_judge_see_it():
    said = maxk("data", "show", "starter", "--id", "starter/001", "--tests", "3")
    asked, graded = said.split("--- what it is graded by: ")
    assert "Write a Python program that reads the input from stdin" in asked
    assert graded.count("\nshown  {") == 2
    assert graded.count("\nhidden {") == 1
    assert "--- the reference ---\n" in graded
    assert maxk("data", "show", "starter", "--id", "001", "--tests", "3") == said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["show", "starter", "--id", "starter/999"],
            "no problem 'starter/999'; there are starter/",
        ),
        (
            ["show", "nonsense", "--id", "1"],
            "name='nonsense' is unknown; use one of code-contests,",
        ),
        (
            ["show", "mbpp", "--id", "1", "--split", "dev"],
            "split='dev' is unknown; mbpp has train,",
        ),
        (["verify", "mbpp", "--source", "/no/such/file"], "/no/such/file"),
    ],
)
def test_a_mistake_is_one_line_with_the_way_out(arguments, message):
    assert message in " ".join(maxk("data", *arguments, code=1).split())


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
    assert "2 with a reference, 1 fail: 1 wrong answer" in said
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
    assert capsys.readouterr().err == "maxk: out of memory\nwhat takes less of it:\n  this\n"


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
    code, *modules = last.split()
    assert code == "0"
    assert [name for name in modules if name.startswith("maxk")] == ["maxk", "maxk.cli"]
    assert not {"numpy", "torch", "tyro", "rich", "pyarrow", "scipy"} & set(modules)


def test_version_and_no_command(capsys):
    assert ended(["--version"]) == 0
    assert capsys.readouterr().out == f"maxk {maxk_package.__version__}\n"
    assert ended([]) == 2
    assert "usage: maxk COMMAND" in capsys.readouterr().err


def test_an_unknown_command_is_an_error_that_names_those_like_it(capsys):
    assert ended(["evalute", "runs/base"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("maxk: unknown command 'evalute'; did you mean evaluate")
    assert ended(["zzz"]) == 2
    assert capsys.readouterr().err == (
        "maxk: unknown command 'zzz'; maxk --help lists all commands\n"
    )


def test_ctrl_c_says_that_the_command_can_be_repeated(monkeypatch, capsys):
    def run(_: Data) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Data, "run", run)
    assert ended(["data", "list"]) == 130
    assert capsys.readouterr().out == "stopped; repeat the command to go on\n"


def ended(arguments: list[str]) -> object:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code
