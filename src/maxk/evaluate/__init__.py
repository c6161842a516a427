"""Evaluation without files: rewards in, curves, comparisons, tables and forecasts out.

Every number comes with an interval, and every comparison is paired. No torch.
"""

from maxk.evaluate.allocate import plan, planned, planned_elsewhere
from maxk.evaluate.curves import Curve, Point, curve, curves_by_group
from maxk.evaluate.diversity import distinct, normalise, unique_share
from maxk.evaluate.ensemble import spread
from maxk.evaluate.evaluation import Comparison, Evaluation, Pair, compare, evaluate
from maxk.evaluate.forecast import Forecast, ForecastPoint, predict
from maxk.evaluate.paired import Difference, adjust, differences, wilcoxon
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
    "Pair",
    "Point",
    "Table",
    "adjust",
    "compare",
    "curve",
    "curves_by_group",
    "differences",
    "distinct",
    "evaluate",
    "normalise",
    "plan",
    "planned",
    "planned_elsewhere",
    "predict",
    "ranked",
    "scores",
    "spread",
    "unique_share",
    "wilcoxon",
]
