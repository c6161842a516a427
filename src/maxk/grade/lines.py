"""Whether a line of text looks like Python. Each question reads the line once."""

import string

_LETTERS = frozenset(string.ascii_letters + "_")
_TARGET = frozenset("._[]'\", ()*")
_TYPE = frozenset("._[], |")
_BLOCKS = ("for", "while", "if", "elif", "with")
_ANYTHING = ("return", "raise", "assert", "del", "global", "nonlocal", "lambda")


def looks_like_python(line: str) -> bool:
    """Whether a line, by itself, could begin a program.

    >>> looks_like_python("for i in x: print(i)"), looks_like_python("The answer is 3.")
    (True, False)
    """
    bare = line.strip()[:300]
    if not bare:
        return False
    if bare[0] == "#":
        return bare[1:].lstrip()[:1] not in ("#", "*")
    if bare.startswith(('"""', "'''")):
        return True
    if bare[0] == "@":
        rest = _after_name(bare[1:]).partition("#")[0].strip()
        return len(bare) > 1 and (not rest or (rest[0] == "(" and rest[-1] == ")"))
    if bare[0] not in _LETTERS:
        return False
    return _is_statement(bare) or _is_assignment(bare) or _after_name(bare)[:1] == "("


def _after_name(text: str) -> str:
    """What comes behind the letters, digits and dots that the text begins with."""
    for i, char in enumerate(text):
        if not (char.isalnum() or char in "_."):
            return text[i:]
    return ""


def _word(text: str) -> tuple[str, str]:
    """The word that the text begins with, and the rest."""
    for i, char in enumerate(text):
        if not (char.isalnum() or char == "_"):
            return text[:i], text[i:]
    return text, ""


def _is_statement(bare: str) -> bool:
    word, rest = _word(bare)
    blank = rest[:1].isspace()
    if word == "async" and blank:
        word, rest = _word(rest.lstrip())
        return word == "def" and _names(rest, "(")
    if word in ("def", "class"):
        return _names(rest, "(" if word == "def" else ":(")
    if word == "import":
        listed = rest.partition("#")[0]
        return blank and all(c.isalnum() or c in "_., \t" for c in listed)
    if word == "from":
        module = rest.split(None, 2)
        whole = len(module) > 1 and all(c.isalnum() or c in "_." for c in module[0])
        return blank and whole and _word(module[1])[0] == "import"
    if word in _BLOCKS:
        return blank and ":" in rest
    if word in ("try", "else", "finally"):
        return rest.lstrip()[:1] == ":"
    if word == "except":
        return ":" in rest
    if word in ("pass", "break", "continue"):
        return rest.lstrip()[:1] in ("", "#")
    return word in _ANYTHING


def _names(rest: str, after: str) -> bool:
    """Whether a name comes next, and behind it one of these characters."""
    name, rest = _word(rest.lstrip()) if rest[:1].isspace() else ("", "")
    behind = rest.lstrip()[:1]
    return bool(name and behind) and behind in after


def _is_assignment(bare: str) -> bool:
    left, equals, right = bare.partition("=")
    if not equals or right[:1] in ("", "="):
        return False
    for operator in ("//", "**", *"-+*/%&|^"):
        if left.endswith(operator):
            left = left.removesuffix(operator)
            break
    target, _, kind = left.partition(":")
    return all(c.isalnum() or c in _TARGET for c in target) and all(
        c.isalnum() or c in _TYPE for c in kind
    )
