"""The command `maxk` in this process: starting Python takes longer than the rest.

Where starting matters (signals, what is imported, the installed script) a test starts it for real.
"""

import contextlib
import io
import os
import sys
import traceback
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from maxk.cli import main


def maxk(*given: object, cwd: Path | None = None, **env: str) -> CompletedProcess[str]:
    """What the command with these arguments says and returns.

    Working directory, environment, `sys.argv` and the three streams are as before afterwards.
    """
    argv = ["maxk", *map(str, given)]
    out, err = _stream(), _stream()
    # Lines are as wide as those of a command whose output goes into a pipe.
    changed = {"COLUMNS": "80", "LINES": "25", **env}
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        mock.patch.dict(os.environ, changed),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = _exit_code(err)
    return CompletedProcess(argv, code, _text(out), _text(err))


def _exit_code(err: io.TextIOWrapper) -> int:
    try:
        main()
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=err)
        return 1
    except Exception:
        traceback.print_exc(file=err)
        return 1
    return 0


def _stream() -> io.TextIOWrapper:
    """With a buffer of bytes below it, as the real ones have."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
