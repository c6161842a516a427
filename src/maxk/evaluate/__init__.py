"""Rewards in, numbers with intervals out: curves, comparisons, tables, forecasts, allocations.

Every number comes with an interval, and every comparison is paired. No torch; only `read` touches
files.
"""

from maxk.evaluate.allocate import allocate, allocated, cross_validated
from maxk.evaluate.bootstrap import Interval
from maxk.evaluate.curves import Curve, Point, curve, curves_by_group
from maxk.evaluate.diversity import distinct, normalise, unique_share
from maxk.evaluate.ensemble import ensemble
from maxk.evaluate.evaluation import Comparison, Evaluation, Pair, compare, evaluate
from maxk.evaluate.forecast import Forecast, ForecastPoint, forecast
from maxk.evaluate.paired import Difference, adjust, differences, wilcoxon
from maxk.evaluate.replicates import Replicates, RunDifference, compare_runs, mean_curve, replicates
from maxk.evaluate.samples import scores
from maxk.evaluate.tables import Cell, Table, ranked

__all__ = [
    "Cell",
    "Comparison",
    "Curve",
    "Difference",
    "Evaluation",
    "Forecast",
    "ForecastPoint",
    "Interval",
    "Pair",
    "Point",
    "Replicates",
    "RunDifference",
    "Table",
    "adjust",
    "allocate",
    "allocated",
    "compare",
    "compare_runs",
    "cross_validated",
    "curve",
    "curves_by_group",
    "differences",
    "distinct",
    "ensemble",
    "evaluate",
    "forecast",
    "mean_curve",
    "normalise",
    "ranked",
    "replicates",
    "scores",
    "unique_share",
    "wilcoxon",
]
