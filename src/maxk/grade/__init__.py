"""The one way from a completion to a verdict: find the program, judge it once, give the reward."""

from maxk.grade.extract import program_for, program_of
from maxk.grade.grading import Graded, grade, grade_programs
from maxk.grade.reward import UnitTestReward

__all__ = ["Graded", "UnitTestReward", "grade", "grade_programs", "program_for", "program_of"]
