"""The one way from a completion to a verdict: find the program, judge it once, give the reward."""

from maxk.grade.extract import program_for, program_of
from maxk.grade.parallel import verify_run
from maxk.grade.reward import UnitTestReward
from maxk.grade.run import Judging

__all__ = ["Judging", "UnitTestReward", "program_for", "program_of", "verify_run"]
