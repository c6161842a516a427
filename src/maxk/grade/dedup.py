"""Which programs need to be run once: they differ in nothing but comments and empty lines.

Of the samples of a trained model many do. Nothing is parsed here, since a text that takes a parser
long or down should do so in a jail. Where a comment might be something else the text is left alone.
"""

import re

# A string that goes over lines may have a # or an empty line in it. A carriage return ends a line,
# other control characters and halves of surrogate pairs are errors, even in a comment.
_LEFT_ALONE = re.compile(
    r"""'''|\"\"\"|[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]"""
    # Programs that may say on which line they are.
    r"""|traceback|inspect|lineno|_getframe|__code__|co_lines|warnings|logging|cProfile|\btrace\b"""
)


def key_of(program: str) -> tuple[bool, str]:
    """The same for programs that do the same, but for how long it takes to read them.

    >>> key_of("x = 1  # one\\n\\ny = '#'") == key_of("x = 1\\n# two\\ny = '#'\\n")
    True
    >>> key_of("x = '#'") == key_of("x = '")
    False
    """
    if _LEFT_ALONE.search(program):
        return False, program
    kept = []
    for line in program.split("\n"):
        if "#" in line and "'" not in line and '"' not in line:
            line = line[: line.index("#")]
        line = line.rstrip(" \t")
        if line.endswith("\\"):  # the next goes on with it, string or comment
            return False, program
        if line:
            kept.append(line)
    return True, "\n".join(kept)
