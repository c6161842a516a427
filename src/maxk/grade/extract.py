"""The program in a completion.

Models wrap code in Markdown, prose, tags and reasoning. The rules, in this order:

1. What stands before the last `</think>` is dropped, and so is all from an end-of-turn token on.
2. Fenced blocks (``` or ~~~, three or more, indented or not). A block that is still open when the
   text ends, at the length limit, runs to the end. Blocks marked as Python come first; if there are
   none, those without a mark; then those of another language.
3. Among several of these, those that define the entry point, if one is asked for and any does; then
   the longest, and of equal ones the last. Examples of use are shorter than the solution, and an
   improved solution comes later.
4. Without a fence: the text between `[PYTHON]`, `[BEGIN]` or `<code>` tags, closed or not.
5. Without tags: from the first line that looks like Python to the last line that does not look
   like prose. If no line looks like Python, the whole text, which will then not compile.

Only text is looked at. A stranger's code is never parsed in the judge's process, where a deeply
nested expression could end it.
"""

import re
import textwrap

from maxk.records import Problem

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^\n]*)$")
_ONE_LINE = re.compile(r"^[ \t]*```[ \t]*(?:python3?|py)?[ \t]+(?P<code>[^`\n]+?)[ \t]*```[ \t]*$")
_PYTHON = re.compile(r"i?python[\d.]*|py[\d.]*", re.IGNORECASE)
_TAGS = [("[PYTHON]", "[/PYTHON]"), ("[BEGIN]", "[DONE]"), ("<code>", "</code>")]
_END_OF_TURN = re.compile(r"<\|(im_end|endoftext|eot_id|end)\|>|</s>|<eos>")

_KEYWORD = re.compile(
    r"(import\s+[\w., ]+|from\s+[\w.]+\s+import\b.*|(async\s+)?def\s+\w+\s*\(.*"
    r"|class\s+\w+\s*[:(].*|@[\w.]+(\(.*\))?|(for|while|if|elif|with)\s.*:.*|(try|else|finally)\s*:.*|except\b.*:.*"
    r"|(return|raise|assert|del|global|nonlocal)\b.*|pass|break|continue|lambda\b.*)\s*(#.*)?$"
)
_ASSIGNMENT = re.compile(
    r"[A-Za-z_][\w.\[\]'\", ()*]*\s*(:\s*[\w\[\], .|]+)?\s*([-+*/%&|^]|//|\*\*)?=[^=].*$"
)
_CALL = re.compile(r"[A-Za-z_][\w.]*\(.*$")
_COMMENT = re.compile(r"#(?!\s*[#*])|\"\"\"|'''")


def program_of(completion: str, entry_point: str | None = None) -> str:
    """The Python program in a completion, or "" if the completion is empty.

    >>> print(program_of("Sure!\\n```python\\nprint(1)\\n```\\nThis prints one."))
    print(1)
    """
    text = completion.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    text = _END_OF_TURN.split(text.rpartition("</think>")[2])[0]
    blocks = fenced_blocks(text)
    if blocks:
        best = min(_rank(info) for info, _ in blocks)
        return _strip(_choose([code for info, code in blocks if _rank(info) == best], entry_point))
    for opening, closing in _TAGS:
        if opening in text:
            return _strip(text.split(opening, 1)[1].split(closing, 1)[0])
    return _strip(unfenced(text))


def program_for(problem: Problem, completion: str) -> str:
    """The program that a completion gives for a problem, as it is judged everywhere; or "".

    The block that defines the problem's function is taken, and the preamble put before it.
    """
    return problem.complete(program_of(completion, problem.entry_point))


def fenced_blocks(text: str) -> list[tuple[str, str]]:
    """(info string, code) of every fenced block; the last may be unclosed."""
    blocks: list[tuple[str, str]] = []
    fence: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence is None:
            if one := _ONE_LINE.match(line):
                blocks.append(("python", one["code"]))
            elif mark and "`" not in mark["info"]:
                fence, lines = mark, []
        elif mark and mark["mark"].startswith(fence["mark"]) and not mark["info"].strip():
            blocks.append((fence["info"], _dedent(lines, fence["indent"])))
            fence = None
        else:
            lines.append(line)
    if fence is not None:
        blocks.append((fence["info"], _dedent(lines, fence["indent"])))
    return blocks


def unfenced(text: str) -> str:
    """The lines from the first that looks like Python to the last that does not look like prose."""
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if looks_like_python(line)), None)
    if start is None:
        return text
    end = len(lines)
    while end > start + 1 and _is_prose(lines[end - 1]):
        end -= 1
    return "\n".join(lines[start:end])


def looks_like_python(line: str) -> bool:
    """Whether a line, by itself, could begin a program."""
    bare = line.strip()[:300]  # enough to tell, and no long line can keep the patterns busy
    return any(
        pattern.match(bare) is not None for pattern in (_KEYWORD, _ASSIGNMENT, _CALL, _COMMENT)
    )


def _is_prose(line: str) -> bool:
    """Blank, or several words from the left margin that are no statement."""
    if not line.strip():
        return True
    return not line[0].isspace() and not looks_like_python(line) and len(line.split()) > 2


def _rank(info: str) -> int:
    """0 for a block marked as Python, 1 for one without a mark, 2 for another language."""
    language = re.split(r"[\s,;:]", info.strip().strip("{}").lstrip("."))[0]
    return 0 if _PYTHON.fullmatch(language) else 1 if not language else 2


def _choose(blocks: list[str], entry_point: str | None) -> str:
    if entry_point:
        name = re.escape(re.split(r"[.(]", entry_point)[0])
        defines = re.compile(
            rf"^[ \t]*((async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", re.MULTILINE
        )
        blocks = [code for code in blocks if defines.search(code)] or blocks
    return max(reversed(blocks), key=lambda code: len(code.strip()))


def _dedent(lines: list[str], indent: str) -> str:
    code = "\n".join(lines)
    return textwrap.dedent(code) if indent else code


def _strip(code: str) -> str:
    """Without blank lines around it and, if all of it is indented, without the indentation."""
    return textwrap.dedent(code.strip("\n")).rstrip()
