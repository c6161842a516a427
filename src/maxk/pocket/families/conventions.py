"""What statements leave open, in more than one family, and how often each reading is meant."""

YES = {"'yes'if c else'no'": 0.6, "c": 0.2, "int(c)": 0.12, "'YES'if c else'NO'": 0.08}
NOTHING = {"0": 0.6, "-1": 0.25, "'none'": 0.15}  # what to print where there is nothing to print
FIRST = {"0": 0.65, "1": 0.35}  # the number of the first place


def read(expression: str, **known: object) -> object:
    """The value of a reading that is written as Python.

    >>> read("'yes'if c else'no'", c=True)
    'yes'
    """
    return eval(expression, known)
