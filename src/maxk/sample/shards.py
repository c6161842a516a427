"""Shards of a sampling run: disjoint problems on several machines, joined afterwards."""

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pyarrow.parquet as pq

from maxk.records import Problem
from maxk.store.run import Run, RunError, differences
from maxk.store.tables import pairs_of, problems_of, write_problems

_LISTED = 5


def parse_shard(shard: str) -> tuple[int, int]:
    """`2/3` is the second of three.

    >>> parse_shard("2/3")
    (2, 3)
    """
    first, _, last = shard.partition("/")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise ValueError(f"shard={shard!r} is not NUMBER/COUNT; use 1/2 for the first of two")
    return int(first), int(last)


def shard_of(problems: Sequence[Problem], shard: str | None) -> list[Problem]:
    """The problems of a shard: every m-th."""
    if shard is None:
        return list(problems)
    number, count = parse_shard(shard)
    return list(problems[number - 1 :: count])


def join(runs: Sequence[str | Path], out: str | Path) -> Run:
    """Join the shards of a run into one, as if one machine had sampled it.

    RunError if their settings differ, a shard is missing or incomplete, or two shards have the same
    completion. Verdicts are joined if all shards have them.
    """
    shards = sorted(map(Run.open, runs), key=_number)
    if not shards:
        raise ValueError("runs is empty; give the folders of the shards")
    config = _common_config(shards)
    problems = _interleaved([problems_of(shard) for shard in shards])
    _check_complete(shards, problems, config["n"])
    joined = Run.start(out, "sample", config)
    with joined.locked():
        write_problems(joined, problems)
        full = [
            shard for shard in shards if shard.parts("completions")
        ]  # a shard may have no problems
        for table in shards[0].tables():
            if table == "problems" or not all(shard.parts(table) for shard in full):
                continue
            for i, shard in enumerate(shards):
                for part in shard.parts(table):
                    rows = pq.read_table(shard.folder / table / f"{part}.parquet")
                    joined.write(table, f"{i}{part}", rows)
    return joined


def _number(shard: Run) -> int:
    if shard.kind != "sample" or "shard" not in shard.config:
        raise RunError(f"{shard.folder} is not a shard of a sampling run; give shards")
    return parse_shard(shard.config["shard"])[0]


def _common_config(shards: list[Run]) -> dict:
    configs = [{k: v for k, v in shard.config.items() if k != "shard"} for shard in shards]
    for shard, config in zip(shards[1:], configs[1:], strict=True):
        if rows := differences(configs[0], config):
            text = "\n  ".join(rows)
            raise RunError(
                f"{shard.folder} (asked) and {shards[0].folder} (there) have different settings:\n"
                f"  {text}"
            )
    wanted = parse_shard(shards[0].config["shard"])[1]
    expected = [f"{i}/{wanted}" for i in range(1, wanted + 1)]
    found = [shard.config["shard"] for shard in shards]
    if found != expected:
        raise RunError(f"runs are the shards {', '.join(found)}; give {', '.join(expected)}")
    return configs[0]


def _interleaved(problems: list[list[Problem]]) -> list[Problem]:
    """In the order of the data set; each of m shards has every m-th problem."""
    rows = zip_longest(*problems)
    return [problem for row in rows for problem in row if problem is not None]


def _check_complete(shards: list[Run], problems: list[Problem], n: int) -> None:
    wanted = {(problem.id, i) for problem in problems for i in range(n)}
    seen: set[tuple[str, int]] = set()
    for shard in shards:
        found = pairs_of(shard)
        if twice := seen & found:
            raise RunError(
                f"{shard.folder} has completions that another shard has too: {_few(twice)}"
            )
        seen |= found
    if left := wanted - seen:
        raise RunError(
            f"{len(left)} of {len(wanted)} completions are missing, of {_few(left)}; repeat the "
            "command of their shard to sample them"
        )


def _few(pairs: set[tuple[str, int]]) -> str:
    names = sorted({problem for problem, _ in pairs})
    more = f" and {len(names) - _LISTED} more problems" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
