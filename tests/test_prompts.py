"""What the model is asked: the examples, all of them, and nothing of the other tests."""

import pytest

from maxk.data import load
from maxk.grade import program_of
from maxk.prompts import messages, with_variant
from maxk.records import AssertTest, CallTest, Problem, StdinTest


def text_of(problem: Problem) -> str:
    (message,) = messages(problem)
    assert message["role"] == "user"
    return message["content"]


def words(tests) -> list[str]:
    return [w for t in tests for w in (t.input, t.output)]


def test_the_examples_are_shown_and_no_other_test_leaks():
    tests = [StdinTest(f"given{i}zz", f"wanted{i}zz") for i in range(10)]
    text = text_of(Problem("a", "Do it.", tests, examples=tuple(tests[:3])))
    assert all(word in text for word in words(tests[:3]))
    assert not any(word in text for word in words(tests[3:]))


def test_neither_reference_nor_id_nor_tags_leak():
    problem = Problem("ididid", "Do it.", (), reference="print('refref')", tags=("tagtag",))
    assert not {"ididid", "refref", "tagtag"} & set(text_of(problem).replace("'", " ").split())


def test_a_function_is_asked_for_by_its_name_and_examples_are_asserts():
    call = CallTest("f", ((1, 2), "a"), {"b": 1})
    text = text_of(Problem("a", "Do it.", (call,), entry_point="f", examples=(call,)))
    assert "assert f((1, 2), 'a') == {'b': 1}" in text
    assert "Write the function `f`" in text
    line = AssertTest("import math\nassert f(2) == math.pi", "f")
    assert line.code in text_of(Problem("a", "", (line,), entry_point="f", examples=(line,)))


def test_a_method_is_asked_for_with_its_class_and_starter():
    problem = Problem("a", "Do it.", (), entry_point="Solution().go", starter="class Solution:\n")
    assert "Write the class `Solution` with the method `go`" in text_of(problem)
    assert "Begin with this code:\n```python\nclass Solution:\n```" in text_of(problem)


def test_a_statement_that_is_the_beginning_of_the_code_is_not_said_twice():
    code = 'def f(x):\n    """Double it."""\n'
    text = text_of(Problem("a", code, (), entry_point="f", starter=code))
    assert text.count("Double it.") == 1


def test_fences_inside_an_example_do_not_end_its_block():
    test = StdinTest("```\nx\n```", "```")
    text = text_of(Problem("a", "Do it.", (test,), examples=(test,)))
    assert "````\n```\nx\n```\n````" in text


def test_a_prompt_variant_is_the_last_line_and_an_empty_one_leaves_the_prompt():
    prompt = messages(Problem("a", "Do it.", ()))
    (message,) = with_variant(prompt, "Use no library.")
    assert message == {"role": "user", "content": prompt[0]["content"] + "\nUse no library."}
    assert with_variant(prompt, "") == prompt == messages(Problem("a", "Do it.", ()))
    before = [{"role": "system", "content": "You code."}, *prompt]
    assert with_variant(before, "Be short.")[0] == before[0]


@pytest.mark.parametrize("problem", load("starter", "all")[::10], ids=lambda p: p.id)
def test_an_answer_of_the_form_asked_for_is_found_again(problem):
    answer = f"Here is the code.\n```python\n{problem.reference}\n```\n"
    assert program_of(answer).strip() == problem.reference.strip()
    assert messages(problem) == messages(problem)
