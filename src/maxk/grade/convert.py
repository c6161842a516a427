"""Runs that an older maxk wrote, made into those that this one reads.

Format 1 had no programs beside the verdicts, and other names for some settings and metrics. Each
part of a table is replaced as a whole, and the format is written last. So a conversion that was
stopped is repeated with the same command.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maxk.grade.dedup import key_of
from maxk.grade.extract import program_for
from maxk.records import Problem
from maxk.store.run import FORMAT, MODEL, Run, RunError, write_whole
from maxk.store.tables import VERDICTS, problems_of

_SETTINGS = {"skip_silent": "skip_zero_variance", "share_prompts": "pack_prompts"}  # of [trl]
_REMOVED = ("average_from", "keep_start")  # of [trl]; what they did is `maxk merge` now
_MASKING = {"completion": "sequence", "token": "token", "none": "none"}
_LIMITS = ("cpu_seconds", "wall_seconds", "memory_bytes", "after_timeout")
_METRICS = {
    "groups/no_signal": "groups/zero_variance",
    "groups/saturated": "groups/all_correct",
    "ratio/gated": "ratio/masked",
}


def convert(folder: Any) -> list[str]:
    """Convert the run in a folder; gives what was done, a sentence each. RunError if it cannot be.

    A training run that is not finished is refused: its checkpoints belong to the older maxk.
    """
    run = Run.open(folder, older=True)
    if run.format == FORMAT:
        return [f"{folder} has format {FORMAT} already."]
    if run.kind == "train" and not (run.folder / MODEL).exists():
        raise RunError(
            f"{folder} is a training run that is not finished; finish it with the maxk that began "
            "it, or train anew"
        )
    with run.locked():
        done = _convert_verdicts(run) if run.kind == "sample" else _convert_training(run)
        run.change(converted_config(run.kind, run.config))
    return [*done, f"{folder} has format {FORMAT} now."]


def converted_config(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, in today's names.

    >>> converted_config("sample", {"n": 4, "hints": ["Use no library."]})
    {'n': 4, 'prompt_variants': ['Use no library.']}
    """
    new = json.loads(json.dumps(config))  # plain values, as TOML has them
    if kind == "sample":
        if "hints" in new:
            new["prompt_variants"] = new.pop("hints")
        return new
    method, reward, trl = (new.get(name, {}) for name in ("method", "reward", "trl"))
    if "trust_region" in method:
        method["masking"] = _MASKING[method.pop("trust_region")]
    limits = {name: reward.pop(name) for name in _LIMITS if name in reward}
    if limits:
        reward["limits"] = limits
    for old, name in _SETTINGS.items():
        if old in trl:
            trl[name] = trl.pop(old)
    for old in _REMOVED:
        trl.pop(old, None)
    return new


def _convert_verdicts(run: Run) -> list[str]:
    """The programs into every table of verdicts, found as they were when they were judged."""
    problems = {problem.id: problem for problem in problems_of(run)}
    tables = [name for name in run.tables() if name not in ("problems", "completions")]
    count = 0
    for name in tables:
        for part in run.parts(name):
            path = run.folder / name / f"{part}.parquet"
            verdicts = pq.read_table(path)
            texts = pq.read_table(
                run.folder / "completions" / f"{part}.parquet",
                columns=["problem", "sample", "completion"],
            ).to_pylist()
            found = programs(texts, problems)
            rows = [{**row, **found[row["problem"], row["sample"]]} for row in verdicts.to_pylist()]
            schema = VERDICTS.with_metadata(verdicts.schema.metadata)
            run.write(name, part, pa.Table.from_pylist(rows, schema))
            count += len(rows)
    return [f"{count} verdicts in {', '.join(tables)} have their programs now."] if tables else []


def programs(
    texts: Sequence[Mapping[str, Any]], problems: Mapping[str, Problem]
) -> dict[tuple[str, int], dict[str, Any]]:
    """The columns `program` and `same_as` of a part of the completions, by problem and sample."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    first: dict[tuple[str, Any], int] = {}
    for row in texts:
        problem, sample = row["problem"], row["sample"]
        program = program_for(problems[problem], row["completion"])
        columns: dict[str, Any] = {"program": None, "same_as": None}
        if program.strip():
            same = first.setdefault((problem, key_of(program)), sample)
            columns = {"program": program, "same_as": None if same == sample else same}
        found[problem, sample] = columns
    return found


def _convert_training(run: Run) -> list[str]:
    """The programs into the rollouts, and the metrics under today's names."""
    problems = {p.id: p for p in problems_of(run)} if run.parts("problems") else {}
    count = 0
    for part in run.parts("rollouts"):
        path = run.folder / "rollouts" / f"{part}.parquet"
        table = pq.read_table(path)
        found = []
        for row in table.select(["problem", "completion", "verdict"]).to_pylist():
            problem = problems.get(row["problem"], Problem("", "", ()))
            judged = row["verdict"] is not None
            found.append(program_for(problem, row["completion"]) if judged else None)
        if "program" not in table.column_names:
            table = table.append_column("program", pa.array(found, pa.string()))
        run.write("rollouts", part, table)
        count += len(found)
    lines = [{renamed(key): value for key, value in line.items()} for line in run.metrics()]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write_whole(run.folder / "metrics.jsonl", text.encode())
    return [f"{count} rollouts have their programs, and {len(lines)} steps today's metric names."]


def renamed(metric: str) -> str:
    """A metric under today's name.

    >>> renamed("drift/iteration_2/mean"), renamed("groups/no_signal"), renamed("reward")
    ('policy_lag/iteration_2/mean', 'groups/zero_variance', 'reward')
    """
    if metric.startswith("drift/"):
        return f"policy_lag/{metric.removeprefix('drift/')}"
    return _METRICS.get(metric, metric)
