"""Load published benchmarks, and your own problems, as `Problem`s.

>>> problems = load("starter", "all")
>>> problems[0].id
'starter/001'

A prompt shows the `examples` of a problem; its `tests` grade. By data set:

- code-contests, live-code-bench, live-bench: public tests are shown; all tests grade.
- codeforces: examples are shown; they and the official tests grade.
- mbpp: the asserts of test_list are shown, as is usual; they and challenge_test_list grade. With
  ``shown=1`` one assert is shown and the others grade.
- humaneval, humaneval-plus, leetcode, mbpp-plus: what the statement itself has is shown; the
  published checks grade. ``load("leetcode", "train", shown=0)`` leaves the examples out of the
  statement.
- cure-...: example_input and example_output are shown; they and test_input, test_output grade.
- starter, jsonl: the first `shown` tests are shown; all grade.

A model that trains on the tests it is shown learns to print their answers. Tests that any program
passes, such as ``assert True``, are left out and counted.
"""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from maxk.data import sources
from maxk.data.base import Account, LazyTests
from maxk.data.constants import with_tests_that_ask
from maxk.data.jsonl import Fault, check, places_of_faults, refuse_faults
from maxk.data.jsonl import problem as _own_problem
from maxk.data.plus import expected_values
from maxk.data.references import broken, slow
from maxk.data.registry import DATASETS, DataSet
from maxk.records import Problem
from maxk.store.rows import BadRow

__all__ = [
    "DATASETS",
    "Account",
    "DataSet",
    "Fault",
    "LazyTests",
    "check",
    "expected_values",
    "load",
    "load_with_account",
]

_log = logging.getLogger("maxk.data")


def load(
    name: str,
    split: str,
    source: str | Path | None = None,
    *,
    keep_broken: bool = False,
    skip: bool = False,
    **options: Any,
) -> list[Problem]:
    """The problems of a split of a data set, in the published order.

    name: one of DATASETS. source: None reads the published files from the Hugging Face hub, once,
    and then from its cache; a path reads the same files from disk, one file or a folder of them.
    keep_broken: keep problems whose own solution is known to fail its tests. skip: leave out rows
    that cannot be read, which are an error otherwise. options: of the loader of this data set, such
    as special_judge=True for codeforces.
    """
    return load_with_account(name, split, source, keep_broken=keep_broken, skip=skip, **options)[0]


def load_with_account(
    name: str,
    split: str,
    source: str | Path | None = None,
    *,
    keep_broken: bool = False,
    skip: bool = False,
    **options: Any,
) -> tuple[list[Problem], Account]:
    """The same as `load`, with an account of which rows were dropped and why."""
    dataset = _dataset(name, split)
    account = Account()

    def on_bad(error: ValueError) -> None:
        account.bad.append(str(error))

    faulty: set[str] = set()
    if dataset.loader is _own_problem and source is not None:
        files = sources.files_of(dataset, split, Path(source))
        faulty = places_of_faults(files, on_bad) if skip else refuse_faults(files)
    if dataset.made is not None and source is None:
        if options:
            raise TypeError(f"{name} has no option {next(iter(options))!r}")
        made = dataset.made(split)
        account.kept = len(made)
        return made, account
    problems: dict[str, Problem] = {}
    places: dict[str, str] = {}
    known, slowly = broken(name), slow(name)
    empty = True
    for row in sources.rows(dataset, split, source, on_bad if skip else None):
        empty = False
        if row.where in faulty:
            continue
        try:
            if dataset.split_of is not None and dataset.split_of(row) != split:
                continue
            problem = dataset.loader(row, account, **options)
        except ValueError as error:
            if not skip:
                raise
            on_bad(error)
            continue
        if problem is None:
            continue
        if problem.id in problems:
            if problem.statement == problems[problem.id].statement:
                account.drop("repeated")
                continue
            bad = BadRow(
                f"{row.where}, field id: {problem.id!r} is the id of another problem, at "
                f"{places[problem.id]}, too"
            )
            if not skip:
                raise bad
            on_bad(bad)
            continue
        if problem.id in known and not keep_broken:
            account.drop(f"its own solution fails: {known[problem.id]}")
            continue
        problem = with_tests_that_ask(problem, account)
        if problem is None:
            continue
        if problem.id in slowly:
            account.note("its own solution takes more than a quarter of the CPU limit of a test")
        places[problem.id] = row.where
        problems[problem.id] = replace(problem, origin=dataset.hub or dataset.name)
        account.kept += 1
    if empty and not account.bad:
        raise ValueError(f"{source or dataset.hub} has no rows; give a file that has some")
    _log.info("%s %s: %s", name, split, str(account).replace("\n", "; "))
    return list(problems.values()), account


def _dataset(name: str, split: str) -> DataSet:
    if name not in DATASETS:
        raise ValueError(f"name={name!r} is unknown; use one of {', '.join(DATASETS)}")
    dataset = DATASETS[name]
    if split not in dataset.splits:
        raise ValueError(f"split={split!r} is unknown; {name} has {', '.join(dataset.splits)}")
    return dataset
