"""Problems that ask for a function: MBPP, HumanEval, LeetCode. EvalPlus is in `plus`."""

import ast
import builtins
import re
import warnings
from collections.abc import Sequence

from maxk.data.base import Account, Row, unix
from maxk.data.checks import split_check
from maxk.records import AssertTest, Problem

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

    def test(line: str) -> AssertTest:
        return AssertTest(unix("\n".join(filter(None, [*setup, line]))), function)

    examples = tuple(map(test, usual[:shown]))
    graded = [*usual, *hidden][0 if shown is None else shown :]
    if not graded:
        return account.drop("no tests but those that are shown")
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
    return Problem(
        id=row.id(row.text("task_id").removeprefix("HumanEval/")),
        statement=prompt,
        tests=tuple(AssertTest(part, function) for part in _parts(row, [], function)),
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
    compares them is part of the test, the classes of their nodes part of the starter, since the
    program needs them too.

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
    prompt, check = row.text("prompt"), row.text("test")
    helpers, classes = _helpers(row, prompt, check)
    statement = meta.text("question_title") if old else row.text("problem_description")
    if shown == 0:
        statement = _EXAMPLES.sub("\n", statement)
        if "Output:" in statement:
            return account.drop("its examples cannot be told from its statement")
    return Problem(
        id=row.id(row.text("task_id")),
        statement=statement,
        tests=tuple(map(AssertTest, _parts(row, helpers, method))),
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


def _helpers(row: Row, prompt: str, check: str) -> tuple[list[str], list[str]]:
    """Of the prompt, the functions that a check uses with all imports, and the classes these use.

    The classes are left to the program: nodes are built, and live, where the program runs.
    """
    try:
        body, wanted = parsed(prompt).body, _names(parsed(check))
    except SyntaxError as error:
        raise row.error("test", f"test or prompt is not Python: {error.msg}") from None
    functions = [n for n in body if isinstance(n, ast.FunctionDef) and n.name in wanted]
    used = {name for function in functions for name in _names(function)}
    classes = [n for n in body if isinstance(n, ast.ClassDef) and n.name in used]
    imports = [n for n in body if isinstance(n, ast.Import | ast.ImportFrom) and functions]
    return [ast.unparse(n) for n in (*imports, *functions)], [ast.unparse(n) for n in classes]


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
