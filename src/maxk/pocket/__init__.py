"""The embedded default: a small language model and a small world of programming problems.

>>> problem = problems("test", 3)[0]
>>> problem.difficulty in ("easy", "medium", "hard"), len(problem.tests)
(True, 8)
"""

from maxk.pocket.world import examples, problems

__all__ = ["examples", "problems"]
