"""The embedded default: a small language model and a small world of programming problems.

>>> problem = problems("test", 3)[0]
>>> problem.difficulty in ("easy", "medium", "hard"), len(problem.tests)
(True, 8)
"""

from pathlib import Path

from maxk.pocket.world import examples, problems

__all__ = ["examples", "folder", "problems", "resolve"]

NAME = "pocket"


def folder() -> Path:
    """The folder of the small model, in the format of Hugging Face."""
    return Path(__file__).with_name("weights")


def resolve(model: str) -> str:
    """The folder or name to load for a model: for "pocket", the model that comes with maxk.

    >>> resolve("Qwen/Qwen2.5-Coder-7B-Instruct")
    'Qwen/Qwen2.5-Coder-7B-Instruct'
    """
    return str(folder()) if model == NAME else model
