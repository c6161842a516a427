"""Runs as commands are given them: FOLDER, NAME=FOLDER, and patterns."""

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path


def named(given: str | Path) -> tuple[str, Path]:
    """The name and the folder of a run that is given as FOLDER or NAME=FOLDER.

    >>> named("ours=runs/7")
    ('ours', PosixPath('runs/7'))
    """
    name, equals, folder = str(given).partition("=")
    if not equals or Path(given).is_dir():
        return printable(Path(given).resolve().name), Path(given)
    return printable(name), Path(folder)


def places(given: Sequence[str | Path]) -> Iterator[tuple[str, Path, bool]]:
    """The name and folder of each run, and whether the name was given; FOLDER may be a pattern."""
    for each in given:
        name, folder = named(each)
        is_named = "=" in str(each) and not Path(each).is_dir()
        if not any(mark in str(folder) for mark in "*?["):
            yield name, folder, is_named
            continue
        found = sorted(Path(path) for path in glob.glob(str(folder)) if Path(path).is_dir())
        if not found:
            raise ValueError(f"no folder is like {str(folder)!r}; check the pattern")
        for path in found:
            yield (name if is_named else named(path)[0]), path, is_named


def printable(text: str) -> str:
    """Without what a terminal would obey and XML cannot hold.

    >>> printable("a\\x1b[31mb")
    'a?[31mb'
    """
    return "".join(character if character.isprintable() else "?" for character in text)
