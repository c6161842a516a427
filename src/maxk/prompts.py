"""Prompts: one template for programs that read stdin, one for functions.

Of a problem's tests a prompt shows only the `examples`. It asks for one fenced code block, which
`maxk.grade.extract` finds in the completion.
"""

from maxk.records import AssertTest, CallTest, Problem, StdinTest, Test, literal

STDIN = """\
{statement}
{examples}
Write a Python program that reads the input from stdin and prints the answer to stdout. Give the \
whole program in one ```python block."""

FUNCTION = """\
{statement}
{starter}{examples}
Write {what} in Python. Give the whole code, with the imports it needs, in one ```python block."""


def messages(problem: Problem) -> list[dict[str, str]]:
    """The prompt of a problem as a chat of one message.

    >>> example = CallTest("f", (2,), 4)
    >>> problem = Problem("a", "Double it.", (), entry_point="f", examples=(example,))
    >>> print(messages(problem)[0]["content"])  # doctest: +ELLIPSIS
    Double it.
    <BLANKLINE>
    For example:
    ```python
    assert f(2) == 4
    ```
    <BLANKLINE>
    Write the function `f` in Python. Give the whole code, with...
    """
    statement = problem.statement.strip()
    if problem.verbatim:
        text = statement
    elif problem.entry_point is None:
        text = STDIN.format(statement=statement, examples=_runs(problem.examples))
    else:
        starter = problem.starter.strip() if problem.starter else ""
        if starter == statement:  # the statement is itself the beginning of the code
            statement, starter = "Complete this function.", problem.starter or ""
        text = FUNCTION.format(
            statement=statement,
            starter=f"\nBegin with this code:\n{_fenced(starter)}\n" if starter else "",
            examples=_asserts(problem.examples),
            what=_what(problem.entry_point),
        )
    return [{"role": "user", "content": text}]


def with_variant(prompt: list[dict[str, str]], variant: str) -> list[dict[str, str]]:
    """A prompt with the sentence of a prompt variant at its end; unchanged if that is empty.

    >>> with_variant([{"role": "user", "content": "Double it."}], "Use no library.")[0]["content"]
    'Double it.\\nUse no library.'
    """
    if not variant:
        return prompt
    *before, last = prompt
    return [*before, {**last, "content": f"{last['content']}\n{variant}"}]


def _what(entry_point: str) -> str:
    head, _, method = entry_point.rpartition(".")
    return (
        f"the class `{head.removesuffix('()')}` with the method `{method}`"
        if head
        else (f"the function `{entry_point}`")
    )


def _runs(examples: tuple[Test, ...]) -> str:
    """Input and output of each example, in blocks of their own."""
    parts = [
        f"\nInput:\n{_fenced(test.input, '')}\nOutput:\n{_fenced(test.output, '')}"
        for test in examples
        if isinstance(test, StdinTest)
    ]
    return "".join(f"{part}\n" for part in parts)


def _asserts(examples: tuple[Test, ...]) -> str:
    lines = []
    for test in examples:
        if isinstance(test, AssertTest):
            lines.append(test.code.strip())
        elif isinstance(test, CallTest):
            args = ", ".join(map(literal, test.args))
            lines.append(f"assert {test.function}({args}) == {literal(test.expected)}")
    return "\nFor example:\n" + _fenced("\n".join(lines)) + "\n" if lines else ""


def _fenced(text: str, language: str = "python") -> str:
    text = text.rstrip("\n")
    fence = "```"
    while fence in text:  # a longer fence than any inside
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
