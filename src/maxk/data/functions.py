"""Problems that ask for a function: MBPP, HumanEval, LeetCode. EvalPlus is in `plus`."""

import ast
import builtins
import re
import warnings
from collections.abc import Sequence

from maxk.data.base import Account, Row, unix
from maxk.data.checks import split_check
from maxk.data.helpers import imports_for, needed, unfit
from maxk.records import AssertTest, Problem
from maxk.verify.names import free_names

# Examples in a statement of LeetCode, up to what comes behind them.
_EXAMPLES = re.compile(
    r"\n[ \t]*(?:Examples?[ \t]*\d*|Input)[ \t]*:.*?(?=\n[ \t]*(?:Constraints|Note)[ \t]*:|\Z)",
    re.S,
)
MBPP_SPLITS = {"prompt": (1, 10), "test": (11, 510), "validation": (511, 600), "train": (601, 974)}


def mbpp(row: Row, account: Account, shown: int | None = None) -> Problem | None:
    """A row of google-research-datasets/mbpp, full or sanitized.

    As is usual with MBPP, the prompt shows the asserts of test_list, without which nobody could
    know the name of the function and the types of its arguments: they are the examples, and graded
    too. The asserts of challenge_test_list are graded and never shown.

    shown: so many asserts of test_list in the prompt instead, and the others alone are graded. A
    model that is trained on what it is shown learns to answer just that (`maxk.data`).
    """
    own = row.get("task_id", int)
    setup = [*row.get("test_imports", list, []), row.text("test_setup_code", "")]
    usual, hidden = (row.get(name, list, []) for name in ("test_list", "challenge_test_list"))
    if not usual and not hidden:
        return account.drop("no tests")
    reference = row.text("code")
    function = called_function(row, [*usual, *hidden], reference)

    try:
        code = parsed(reference)
    except SyntaxError:
        code = ast.Module([], [])
    provided = {n.name for n in code.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}

    def test(line: str) -> AssertTest:
        text = unix("\n".join(filter(None, [*setup, line])))
        text = "\n".join([*imports_for(free_names(text, function), code), text])
        # Classes, and functions that make their instances, which the tests ask for by name.
        classes = sorted((free_names(text, function) & provided) - {function})
        return AssertTest(text, function, tuple(classes))

    examples = tuple(map(test, usual[:shown]))
    graded = [*usual, *hidden][0 if shown is None else shown :]
    if not graded:
        return account.drop("no tests but those that are shown")
    for each in map(test, graded):
        if why := unfit(each.code, function, each.classes):
            account.bad.append(f"{row.where}, field test_list: a test {why}")
            return account.drop("a test that cannot be judged")
    return Problem(
        id=row.id(own),
        statement=row.text("text" if row.has("text") else "prompt"),
        tests=tuple(map(test, graded)),
        entry_point=function,
        reference=reference,
        examples=examples,
    )


def mbpp_split(row: Row) -> str | None:
    """The split that a task belongs to, which its number says."""
    number = row.get("task_id", int)
    return next((s for s, (low, high) in MBPP_SPLITS.items() if low <= number <= high), None)


def humaneval(row: Row, account: Account) -> Problem | None:
    """A row of openai/openai_humaneval: a signature with a docstring, to be completed.

    Each assert of the published check is a test. None is shown beside the prompt. What the prompt
    has before the function, imports and now and then a helper, stands before every solution.
    """
    function = row.text("entry_point")
    if not row.has("test"):
        return account.drop("no tests")
    prompt = row.text("prompt")
    found = _checks(row, prompt, function, account)
    if found is None:
        return None
    tests, _ = found
    return Problem(
        id=row.id(row.text("task_id").removeprefix("HumanEval/")),
        statement=prompt,
        tests=tests,
        entry_point=function,
        reference=prompt + row.text("canonical_solution"),
        starter=prompt,
        preamble=before(prompt, function),
    )


def before(prompt: str, function: str) -> str | None:
    """What a prompt has before the function that it asks for.

    >>> before("import math\\n\\n\\ndef area(r):\\n", "area")
    'import math'
    """
    asked = re.search(rf"^def {re.escape(function)}\b", prompt, re.MULTILINE)
    return (prompt[: asked.start()].strip() if asked else "") or None


def leetcode(row: Row, account: Account, shown: int | None = None) -> Problem | None:
    """A row of newfacade/LeetCodeDataset, in the form of version 0.3 or of 0.2.

    Each assert of the published check is a test. The data set's own prompt, imports mostly, stands
    before every solution. Some checks build linked lists or trees: what builds and
    compares them is part of the test. The classes of their nodes are data on both sides, and part
    of the starter.

    shown: 0 leaves the examples out of the statement. In version 0.2 they are the tests.
    """
    if shown not in (None, 0):
        raise ValueError(f"shown={shown} is not for leetcode: 0, or None for the whole statement")
    method = row.text("entry_point")
    if not row.has("test"):
        return account.drop("no tests")
    meta = Row(row.dataset, f"{row.where}, meta", row.get("meta", dict, {}))
    old = not row.has("problem_description")
    starter = meta.text("lang_code", "") if old else row.text("starter_code", "")
    level = meta.text("difficulty", "") if old else row.text("difficulty", "")
    prompt = row.text("prompt")
    found = _checks(row, prompt, method, account)
    if found is None:
        return None
    tests, classes = found
    statement = meta.text("question_title") if old else row.text("problem_description")
    if shown == 0:
        statement = _EXAMPLES.sub("\n", statement)
        if "Output:" in statement:
            return account.drop("its examples cannot be told from its statement")
    return Problem(
        id=row.id(row.text("task_id")),
        statement=statement,
        tests=tests,
        entry_point=method,
        reference=f"{prompt}\n{row.text('completion')}",
        difficulty=level or None,
        starter="\n\n".join([*classes, starter]) if starter else None,
        preamble=prompt,
        tags=tuple(row.get("tags", list, [])),
    )


def _parts(row: Row, helpers: list[str], function: str) -> list[str]:
    """The published check, an assert at a time, each with the helpers it needs."""
    try:
        parts = split_check(row.text("test"), f"check({function})\n")
    except SyntaxError as error:
        raise row.error("test", f"is not Python: {error.msg}") from None
    return ["\n\n".join([*helpers, part]) for part in parts]


def _checks(
    row: Row, prompt: str, function: str, account: Account
) -> tuple[tuple[AssertTest, ...], list[str]] | None:
    """The tests of a published check, with what they need of the prompt, and its classes of nodes;
    None if one cannot be judged, which is noted."""
    own = function.replace("()", "").split(".")[0]
    try:
        body = _opened(prompt)
        found = needed(f"{row.text('test')}\ncheck({function})\n", body, own)
    except SyntaxError as error:
        raise row.error("test", f"test or prompt is not Python: {error.msg}") from None
    tests = [AssertTest(c, function, (), found.nodes) for c in _parts(row, found.helpers, function)]
    for test in tests:
        if why := unfit(test.code, function, (), test.nodes):
            account.bad.append(f"{row.where}, field test: it {why}")
            return account.drop("a test that cannot be judged")
    return tuple(tests), found.classes


def _opened(prompt: str) -> ast.Module:
    """The syntax tree of a prompt, which may end with the line that opens its function."""
    try:
        return parsed(prompt)
    except SyntaxError:
        return parsed(f"{prompt.rstrip()}\n    pass\n")


def called_function(row: Row, asserts: Sequence[str], reference: str) -> str:
    """The function that the first assert is about: of those it calls, one the reference defines.

    Where the reference cannot be read, the outermost call of no function of Python's own counts.
    """
    try:
        calls = [node for node in ast.walk(parsed(asserts[0])) if isinstance(node, ast.Call)]
    except SyntaxError as error:
        raise row.error("test_list", f"{asserts[0]!r:.100} is not Python: {error.msg}") from None
    names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
    try:
        defined = {getattr(node, "name", None) for node in parsed(reference).body}
    except SyntaxError:
        defined = {name for name in names if not hasattr(builtins, name)}
    found = next((name for name in names if name in defined), None)
    if found is None:
        raise row.error("test_list", f"{asserts[0]!r:.100} calls no function of the reference")
    return found


def parsed(code: str) -> ast.Module:
    """The syntax tree; SyntaxError if there is none. Warnings about old code are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (ValueError, RecursionError, MemoryError) as error:  # null bytes, deep nesting
            raise SyntaxError(str(error)) from None
