"""The program in a completion.

Models wrap code in Markdown, prose, tags and reasoning. The rules, in this order:

1. What stands before the first `</think>` is dropped, and so is all from an end-of-turn token on. A
   program in a closed fence may have either in a string, and is left as it is.
2. Fenced blocks (``` or ~~~, three or more, indented or not). A block that is still open when the
   text ends, at the length limit, runs to the end. Blocks marked as Python come first; if there are
   none, those without a mark; then those of another language.
3. Among several of these, those that define the entry point, if one is asked for and any does; then
   the longest, and of equal ones the last. Examples of use are shorter than the solution, and an
   improved solution comes later.
4. Without a fence: the text between `[PYTHON]`, `[BEGIN]` or `<code>` tags, closed or not.
5. Without tags: from the first line that looks like Python to the last line that does not look
   like prose. If no line looks like Python, the whole text, which will then not compile.

A closed block that is not indented is given back byte for byte. Only text is looked at. A
stranger's code is never parsed in the judge's process, where a deeply nested expression could end
it; and every step takes a time in proportion to the text, whatever is in it.
"""

import functools
import os
import re
from typing import NamedTuple

from maxk.grade.lines import looks_like_python
from maxk.records import Problem

_PYTHON = re.compile(r"i?python[\d.]*|py[\d.]*", re.IGNORECASE)
_TAGS = [("[PYTHON]", "[/PYTHON]"), ("[BEGIN]", "[DONE]"), ("<code>", "</code>")]
_END_OF_TURN = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end|>", "</s>", "<eos>")
_END_OF_REASONING = "</think>"


class Block(NamedTuple):
    """A fenced block. info: what stands behind the opening fence."""

    info: str
    code: str


class _Fence(NamedTuple):
    indent: str
    mark: str
    info: str


def program_of(completion: str, entry_point: str | None = None) -> str:
    """The Python program in a completion, or "" if the completion is empty.

    >>> print(program_of("Sure!\\n```python\\nprint(1)\\n```\\nThis prints one."))
    print(1)
    """
    blocks, outside = divided(completion.lstrip("\ufeff"))
    if blocks:
        best = min(_rank(block.info) for block in blocks)
        return _choose([code for info, code in blocks if _rank(info) == best], entry_point)
    text = outside.replace("\r\n", "\n").replace("\r", "\n")
    for opening, closing in _TAGS:
        if opening in text:
            return _strip(text.split(opening, 1)[1].split(closing, 1)[0])
    return _strip(unfenced(text))


def program_for(problem: Problem, completion: str) -> str:
    """The program that a completion gives for a problem, as it is judged everywhere; or "".

    The block that defines the problem's function is taken, and the preamble put before it.
    """
    return problem.complete(program_of(completion, problem.entry_point))


def divided(text: str) -> tuple[list[Block], str]:
    """The fenced blocks of an answer, and its text if it has none."""
    blocks: list[Block] = []
    outside: list[str] = []
    fence: _Fence | None = None
    inside: list[str] = []
    lines = text.split("\n")
    reasoning = text.lstrip()[:7] == "<think>"
    left = _ends_in_fences(lines) if _END_OF_REASONING in text else set()
    may_end = any(token in text for token in _END_OF_TURN)
    for i, line in enumerate(lines):
        if not line:
            (outside if fence is None else inside).append(line)
            continue
        if _END_OF_REASONING in line and (fence is None or reasoning or i in left):
            # All before it was reasoning, drafts included.
            line = line.split(_END_OF_REASONING, 1)[1]
            blocks, outside, fence, reasoning = [], [], None, False
        mark = _fence(line)
        if fence is None:
            line, over = _cut(line) if may_end else (line, False)
            if mark and (one := _one_line(line)):
                blocks.append(Block("python", one))
            elif mark and "`" not in mark.info:
                fence, inside = mark, []
            else:
                outside.append(line)
            if over:
                break
        elif mark and mark.mark.startswith(fence.mark) and not _cut(mark.info)[0]:
            blocks.append(_block(fence, inside, lines[i]))
            fence = None
            if mark.info:
                break  # an end-of-turn token
        else:
            inside.append(line)
    if fence is not None:
        blocks.append(_open_block(fence, inside))
    return blocks, "\n".join(outside)


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


def _ends_in_fences(lines: list[str]) -> set[int]:
    """Lines on which reasoning ends though a fence of its draft was never closed.

    Such a line says nothing else, and a fence is opened again before one is closed. In the string
    of a program that is closed properly it means nothing.
    """
    found: set[int] = set()
    waiting: list[int] = []
    for i, line in enumerate(lines):
        if line.strip() == _END_OF_REASONING:
            waiting.append(i)
        elif waiting and (mark := _fence(line)):
            if _cut(mark.info)[0]:
                found.update(waiting)
            waiting = []
    return found


def _fence(line: str) -> _Fence | None:
    bare = line.lstrip(" \t")
    sign = bare[:1]
    if sign not in ("`", "~") or bare[1:3] != 2 * sign:
        return None
    info = bare.lstrip(sign)
    return _Fence(line[: len(line) - len(bare)], bare[: len(bare) - len(info)], info.strip())


def _one_line(line: str) -> str | None:
    """The code of a block whose fences stand on one line."""
    bare = line.strip()
    if len(bare) < 8 or not (bare.startswith("```") and bare.endswith("```")):
        return None
    inner = bare[3:-3]
    first, blank, rest = inner.partition(" ") if " " in inner else inner.partition("\t")
    if "`" in inner or not blank or first not in ("", "py", "python", "python3"):
        return None
    return rest.strip() or None


def _cut(line: str) -> tuple[str, bool]:
    """The line up to an end-of-turn token, and whether there is one."""
    if "<" not in line:  # which all of them begin with
        return line, False
    places = [at for token in _END_OF_TURN if (at := line.find(token)) >= 0]
    return (line[: min(places)], True) if places else (line, False)


def _block(fence: _Fence, lines: list[str], closing: str) -> Block:
    if closing.endswith("\r"):  # so does every line of such a completion
        lines = [line.removesuffix("\r") for line in lines]
    return Block(fence.info, _dedent("\n".join(lines)) if lines else "")


def _open_block(fence: _Fence, lines: list[str]) -> Block:
    """A block that the length limit or the end of the turn cut off."""
    kept: list[str] = []
    for line in lines:
        bare = line.rstrip()
        token = next((token for token in _END_OF_TURN if bare.endswith(token)), None)
        if token is not None:
            kept.append(_cut(line)[0])
            break
        kept.append(line.removesuffix("\r"))
    return Block(fence.info, _strip("\n".join(kept)))


def _is_prose(line: str) -> bool:
    """Blank, or several words from the left margin that are no statement."""
    if not line.strip():
        return True
    return not line[0].isspace() and not looks_like_python(line) and len(line.split(None, 2)) > 2


@functools.lru_cache(maxsize=1000)
def _rank(info: str) -> int:
    """0 for a block marked as Python, 1 for one without a mark, 2 for another language."""
    language = re.split(r"[\s,;:]", info[:100].strip().strip("{}").lstrip("."), maxsplit=1)[0]
    return 0 if _PYTHON.fullmatch(language) else 1 if not language else 2


def _choose(blocks: list[str], entry_point: str | None) -> str:
    if entry_point:
        name = re.escape(re.split(r"[.(]", entry_point)[0])
        defines = re.compile(
            rf"^[ \t]*+(?:(?:async[ \t]++)?(?:def|class)[ \t]++{name}\b)|^{name}[ \t]*+=",
            re.MULTILINE,
        )
        blocks = [code for code in blocks if defines.search(code)] or blocks
    return max(reversed(blocks), key=lambda code: len(code.strip()))


def _dedent(code: str) -> str:
    """Without the indentation that all lines share; a program that has none is left as it is."""
    lines = code.split("\n")
    margin = os.path.commonprefix([line for line in lines if line.strip()])  # noqa: RUF071
    margin = margin[: len(margin) - len(margin.lstrip(" \t"))]
    if not margin:
        return code
    return "\n".join(line[len(margin) :] if line.strip() else "" for line in lines)


def _strip(code: str) -> str:
    """Without blank lines around it and, if all of it is indented, without the indentation."""
    return _dedent(code.strip("\n")).rstrip()
