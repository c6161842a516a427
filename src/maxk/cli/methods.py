"""Methods of one or several runs, as commands are given them: NAME=FOLDER, patterns, --group."""

import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maxk.cli.arguments import UsageError

if TYPE_CHECKING:
    from maxk.evaluate.read import Stored

Methods = dict[str, list["Stored"]]


def by_data(
    given: Sequence[str], group: Sequence[str] = ()
) -> tuple[dict[str, Methods], list[str]]:
    """The runs by data set and method, and lines that say what was grouped."""
    from maxk.evaluate.read import read_run, refuse_other_settings

    sets: dict[str, Methods] = {}
    seen: set[tuple[str, Path]] = set()
    for name, folder in folders(given):
        run = read_run(folder, name=name)
        if (run.name, folder.resolve()) in seen:
            raise UsageError(f"{folder} is given twice for {run.name!r}; name each run once")
        seen.add((run.name, folder.resolve()))
        methods = sets.setdefault(run.config["data"]["name"], {})
        if run.name in methods and name is None:
            raise UsageError(f"two runs are called {run.name!r}; name them: NAME=FOLDER")
        methods.setdefault(run.name, []).append(run)
    for methods in sets.values():
        refuse_other_settings([run for runs in methods.values() for run in runs])
    if not group:
        return sets, []
    lines: list[str] = []
    for data, methods in sets.items():
        sets[data], said = grouped([run for runs in methods.values() for run in runs], group)
        lines += said
    return sets, lines


def folders(given: Sequence[str]) -> Iterator[tuple[str | None, Path]]:
    """The name, if one is given, and the folder of each run; patterns are filled in.

    >>> list(folders(["runs/base", "grpo=runs/7"]))
    [(None, PosixPath('runs/base')), ('grpo', PosixPath('runs/7'))]
    """
    for each in given:
        name, equals, place = each.rpartition("=")
        if not any(mark in place for mark in "*?["):
            yield (name if equals else None), Path(place)
            continue
        found = sorted(Path(path) for path in glob.glob(place) if Path(path).is_dir())
        if not found:
            raise UsageError(f"no folder is like {place!r}; check the pattern")
        for folder in found:
            yield (name if equals else None), folder


def grouped(runs: Sequence["Stored"], fields: Sequence[str]) -> tuple[Methods, list[str]]:
    """Runs with the same values of the fields as one method; lines that say what was grouped."""
    from maxk.evaluate.read import settings_of

    settings = [settings_of(run) for run in runs]
    known = sorted({key for each in settings for key in each})
    whole = list(fields) == ["config"]
    if missing := [] if whole else [field for field in fields if field not in known]:
        raise UsageError(
            f"--group {missing[0]} is no field of the runs' configurations; use config or some of "
            f"{', '.join(known)}"
        )
    chosen = known if whole else list(fields)
    places: dict[tuple[str | None, ...], list[int]] = {}
    for i, each in enumerate(settings):
        places.setdefault(tuple(each.get(field) for field in chosen), []).append(i)
    methods: Methods = {}
    lines = []
    for values, members in places.items():
        name = _name([runs[i].name for i in members], [] if whole else values, methods)
        methods[name] = [runs[i] for i in members]
        told = ", ".join(runs[i].name for i in members)
        other = differing([settings[i] for i in members])
        but = f"; they also differ in {'; '.join(other)}" if other else ""
        lines.append(f"{name} is {told}{but}")
    return methods, lines


def _name(names: Sequence[str], values: Sequence[str | None], taken: Mapping[str, object]) -> str:
    """Of the values; of the run where there is one, or where the values name nothing new."""
    name = " ".join(value for value in values if value is not None) if len(names) > 1 else ""
    name = name or names[0]
    return name if name not in taken else f"{name} ({names[0]})"


def differing(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """What is not the same in all of them, with the values.

    >>> differing([{"method.k": "4", "a": "1"}, {"method.k": "8", "a": "1"}])
    ['method.k: 4, 8']
    """
    keys = list(dict.fromkeys(key for each in settings for key in each))
    found = {key: dict.fromkeys(each.get(key, "nothing") for each in settings) for key in keys}
    return [f"{key}: {', '.join(values)}" for key, values in found.items() if len(values) > 1]


def samples_compared(methods: Methods) -> list[str]:
    """A line that says how many samples are compared, where the runs have different numbers."""
    have = {
        name: sorted({min(map(len, run.rows)) for run in runs}) for name, runs in methods.items()
    }
    every = sorted({count for counts in have.values() for count in counts})
    if len(every) == 1:
        return []
    counts = ", ".join(f"{name} {' and '.join(map(str, each))}" for name, each in have.items())
    return [f"samples of a problem: {counts}; the first {every[0]} of each are compared"]
