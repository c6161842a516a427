"""Run the code blocks of a page as a reader would: in order, in one folder."""

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maxk.cli import main

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d.,]*")
NOT_RUN = re.compile(r"make |\. \.venv/bin/activate$")  # tests/test_docs.py knows make's targets


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in a language."""
    return [code for found, code in BLOCK.findall((ROOT / page).read_text()) if found == language]


def commands(block: str) -> Iterator[str]:
    """The commands of a shell block; a here-document belongs to its command.

    >>> list(commands("cat > a <<'END'\\nmaxk\\nEND\\nmaxk doctor\\n"))
    ["cat > a <<'END'\\nmaxk\\nEND", 'maxk doctor']
    """
    lines = iter(block.splitlines())
    for line in lines:
        if "<<'END'" in line:
            line = "\n".join([line, *iter(lambda: next(lines), "END"), "END"])
        yield line


class Reader:
    """Types what a page says. Python blocks run when their output is shown or their file is run.

    changed: what is typed in the place of a command, to make it quick.
    """

    def __init__(self, changed: Callable[[str], str] = lambda command: command) -> None:
        self.changed = changed
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.pending: list[str] = []
        self.seen = ""  # what the blocks since the last shown output printed

    def read(self, page: str, compare: Callable[[str, str, str], None]) -> None:
        """Run all blocks; compare(language, shown, seen) for each output that the page shows."""
        last = ""
        for language, code in BLOCK.findall((ROOT / page).read_text()):
            if language == "text":
                self.run_python()
                compare(last, code, self.seen)
                self.seen = ""
            elif language == "python":
                self.pending.append(code)
            elif language == "sh":
                for command in commands(code):
                    self.type(self.changed(command))
            last = language
        self.run_python()

    def type(self, command: str) -> None:
        if NOT_RUN.match(command):
            return
        if re.fullmatch(r"python \w+\.py", command):
            assert self.pending, f"{command}: the page has no such file"
            self.run_python()
        elif command.startswith("maxk "):
            self.seen += printed(lambda: run_maxk(command))
        else:
            done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            self.seen += done.stdout

    def run_python(self) -> None:
        code, self.pending = "\n".join(self.pending), []
        self.seen += printed(lambda: exec(code, self.names))


def run_maxk(command: str) -> None:
    """A command of maxk; exit code 1 is an answer, such as "faults were found"."""
    with pytest.raises(SystemExit) as exit:
        main(shlex.split(command, comments=True)[1:])
    assert exit.value.code in (0, 1), command


def printed(call: Callable[[], Any]) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        call()
    return said.getvalue()


def missing(shown: str, seen: str, numbers: bool = True) -> list[str]:
    """The parts of a shown output that were not seen, in order; `...` stands for anything.

    Runs of blanks and lines are equal. numbers=False: all numbers are.

    >>> missing("a  1 ...\\nc 2", "a 1 b\\nc  2"), missing("a 1", "a 2"), missing("1", "2", False)
    ([], ['a 1'], [])
    """

    def plain(text: str) -> str:
        return " ".join((text if numbers else NUMBER.sub("0", text)).split())

    rest, lost = plain(seen), []
    for part in re.split(r"\.\.\.|\n", shown):
        if not (wanted := plain(part)):
            continue
        _, found, after = rest.partition(wanted)
        if found:
            rest = after
        else:
            lost.append(wanted)
    return lost
