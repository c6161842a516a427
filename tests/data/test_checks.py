"""A published check function as one test for each assert."""

from maxk.data.checks import split_check

TWO = """
def check(f):
    assert f(1) == 0

def near(a, b):
    assert abs(a - b) < 0.1
    assert a == a

def check(f):
    assert f(1) == 1
    near(f(2), 2)
    assert f(3) == 3
"""


def run(code: str) -> None:
    """With the identity as the candidate."""
    exec(code, {"same": lambda x: x})


def test_the_last_check_is_split_as_python_would_call_it():
    first, second = split_check(TWO, "check(same)")
    for part in (first, second):
        run(part)
    assert [part.count("f(3)") for part in (first, second)] == [0, 1]
    assert [part.count("f(1) == 1") for part in (first, second)] == [1, 0]


def test_other_functions_keep_their_asserts():
    for part in split_check(TWO, "check(same)"):
        assert part.count("assert abs(a - b) < 0.1") == part.count("assert a == a") == 1


def test_one_assert_is_the_whole():
    code = "def near(a):\n    assert a\n    assert a\ndef check(f):\n    assert f(1)"
    assert split_check(code, "check(same)") == [f"{code}\ncheck(same)"]
