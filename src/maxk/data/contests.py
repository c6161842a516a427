"""Programs that read stdin: CodeContests, Codeforces, and CURE's versions of such data sets."""

from functools import partial
from typing import Any

from maxk.data.base import Account, LazyTests, Row, stdin_tests, unix
from maxk.records import Problem, Test

# The numbers of CodeContests' enums are the positions here.
DIFFICULTIES = (
    *("UNKNOWN_DIFFICULTY", "EASY", "MEDIUM", "HARD", "HARDER", "HARDEST", "EXTERNAL"),
    *"ABCDEFGHIJKLMNOPQRSTUV",
)
SOURCES = ("unknown", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu")
PYTHON3 = (3, "PYTHON3")
INCOMPLETE = "official tests incomplete"
# Contests accept numbers that are nearly right. Statements say how nearly, mostly 1e-4 to 1e-9, in
# words; one tolerance in the middle stands for all.
TOLERANCE = 1e-5


def code_contests(row: Row, account: Account) -> Problem | None:
    """A row of deepmind/code_contests.

    Public tests are shown and graded; private and generated ones are graded only. The reference is
    the first Python 3 solution. Names can be the same in two sources, so the source is part of the
    id. Copies with test_input and test_output, which do not say which tests are public, show none.
    """
    if row.has("question"):
        return _code_contests_flat(row, account)
    if row.has("input_file") or row.has("output_file"):
        return account.drop("reads or writes a file")
    public, *hidden = (_pairs(row, f"{kind}_tests") for kind in ("public", "private", "generated"))
    if not any(inputs for inputs, _ in (public, *hidden)):
        return account.drop("no tests")
    examples = tuple(stdin_tests(*public, TOLERANCE))
    source = SOURCES[row.get("source", int, 0)]
    return Problem(
        id=row.id(f"{source}/{row.text('name')}"),
        statement=row.text("description"),
        tests=LazyTests(partial(_joined, examples, hidden)),
        reference=_python_of(row.get("solutions", dict, {})),
        difficulty=difficulty(row.get("difficulty", (int, str), 0)),
        examples=examples,
        time_limit=_seconds(row.get("time_limit", dict, {})),
        tags=tuple(tag for tag in row.get("cf_tags", list, []) if tag),
    )


def codeforces(row: Row, account: Account, *, special_judge: bool = False) -> Problem | None:
    """A row of open-r1/codeforces.

    The examples are shown and graded; of the official tests, which often begin with the examples,
    the others are graded only. Interactive problems, those that use files and those marked as not
    executable are dropped, and so are those with several right answers, which need their own
    checker: special_judge=True keeps these, judged by the one answer that is published.
    """
    if row.has("interaction_format"):
        return account.drop("interactive")
    if row.get("input_mode", str, "stdio") == "file":
        return account.drop("reads or writes a file")
    if row.has("generated_checker") and not special_judge:
        return account.drop("needs a special judge")
    if row.get("executable", bool, True) is False:
        return account.drop("not executable")
    shown, official = (row.get(name, list, []) for name in ("examples", "official_tests"))
    if not shown and not official:
        return account.drop("no tests")
    tags = tuple(row.get("tags", list, []))
    if row.get("official_tests_complete", bool, True) is False:
        account.note(INCOMPLETE)
        tags += (INCOMPLETE,)
    examples = tuple(stdin_tests(*_texts(row, "examples", shown), TOLERANCE))
    hidden = _texts(row, "official_tests", official)
    rating = row.get("rating", (int, float), None)
    return Problem(
        id=row.id(row.text("id")),
        statement=_codeforces_statement(row),
        tests=LazyTests(partial(_without_repeats, examples, hidden)),
        difficulty=None if rating is None else f"{rating:g}",
        examples=examples,
        time_limit=row.get("time_limit", (int, float), None),
        tags=tags,
    )


def cure(row: Row, account: Account) -> Problem | None:
    """A row of the sets that CURE published, all turned to stdin form.

    As CURE does, example_* is shown and test_* is graded.
    """
    graded = _lists(row, "test_input", "test_output")
    if not graded[0]:
        return account.drop("no tests")
    number = int(row.where.rsplit(" ", 1)[-1]) - 1  # sets without task ids have their order, from 0
    return Problem(
        id=row.id(row.get("task_id", (int, str), str(number))),
        statement=row.text("question"),
        tests=LazyTests(partial(stdin_tests, *graded)),
        reference=_python_of(row.get("solutions", (dict, list, str), [])),
        difficulty=difficulty(row.get("difficulty", (int, str), 0)),
        examples=tuple(stdin_tests(*_lists(row, "example_input", "example_output"))),
        time_limit=row.get("test_time_limit", (int, float), None),
    )


def difficulty(level: int | str) -> str | None:
    """The name of a level that CodeContests writes as a number; other names stay as they are.

    >>> difficulty(7), difficulty("2"), difficulty(1), difficulty("very hard"), difficulty(0)
    ('A', 'MEDIUM', 'EASY', 'very hard', None)
    """
    if isinstance(level, str) and not level.isdecimal():
        return level
    number = int(level)
    return DIFFICULTIES[number] if 0 < number < len(DIFFICULTIES) else None


def _code_contests_flat(row: Row, account: Account) -> Problem | None:
    graded = _lists(row, "test_input", "test_output")
    if not graded[0]:
        return account.drop("no tests")
    return Problem(
        id=row.id(row.text("id")),
        statement=row.text("question"),
        tests=LazyTests(partial(stdin_tests, *graded, TOLERANCE)),
        reference=row.text("solution", "") or None,
        difficulty=difficulty(row.get("difficulty_raw", (int, str), 0)),
        tags=tuple(row.get("tags", list, [])),
    )


def _codeforces_statement(row: Row) -> str:
    """The parts of the statement under the headings that Codeforces prints."""
    parts = [f"# {row.text('title')}"] if row.has("title") else []
    limit = row.get("time_limit", (int, float), None)
    if limit is not None:
        parts.append(f"Time limit per test: {limit:g} seconds")
    parts.append(row.text("description", ""))
    for heading, name in (("Input", "input_format"), ("Output", "output_format"), ("Note", "note")):
        if row.has(name):
            parts.append(f"## {heading}\n\n{row.text(name)}")
    return "\n\n".join(filter(None, parts))


def _pairs(row: Row, name: str) -> tuple[list[str], list[str]]:
    """The inputs and outputs of a field {input: [...], output: [...]}."""
    tests = row.get(name, dict, {})
    inputs, outputs = (tests.get(key) or [] for key in ("input", "output"))
    return _matched(row, name, inputs, outputs)


def _lists(row: Row, given: str, wanted: str) -> tuple[list[str], list[str]]:
    return _matched(row, given, row.json(given, list, []), row.json(wanted, list, []))


def _matched(row: Row, name: str, inputs: Any, outputs: Any) -> tuple[list[str], list[str]]:
    if len(inputs) != len(outputs):
        raise row.error(name, f"{len(inputs)} inputs and {len(outputs)} outputs")
    if not all(isinstance(text, str) for text in (*inputs, *outputs)):
        raise row.error(name, "an input or output is not text")
    return inputs, outputs


def _joined(examples: tuple[Test, ...], hidden: list[tuple[list[str], list[str]]]) -> list[Test]:
    return [*examples, *(test for pair in hidden for test in stdin_tests(*pair, TOLERANCE))]


def _texts(row: Row, name: str, tests: list[Any]) -> tuple[list[str], list[str]]:
    """The inputs and outputs of a list of objects that have one of each."""
    for number, test in enumerate(tests, start=1):
        for key in ("input", "output"):
            if not isinstance(test, dict) or not isinstance(test.get(key), str):
                raise row.error(name, f"test {number} has no text in {key}")
    return [test["input"] for test in tests], [test["output"] for test in tests]


def _without_repeats(
    examples: tuple[Test, ...], official: tuple[list[str], list[str]]
) -> list[Test]:
    return list(dict.fromkeys((*examples, *stdin_tests(*official, TOLERANCE))))


def _seconds(limit: dict[str, int | None]) -> float | None:
    seconds, nanos = limit.get("seconds"), limit.get("nanos")
    return None if seconds is None and nanos is None else (seconds or 0) + (nanos or 0) / 1e9


def _python_of(solutions: dict[str, list[Any]] | list[Any] | str) -> str | None:
    """The first Python 3 program among solutions by language, or the first of a plain list."""
    if isinstance(solutions, dict):
        marked = zip(solutions.get("language", ()), solutions.get("solution", ()), strict=True)
        found = (text for language, text in marked if language in PYTHON3)
    else:
        found = (s for s in ([solutions] if isinstance(solutions, str) else solutions) if s)
    text = next(found, None)
    return unix(text) if isinstance(text, str) else None
