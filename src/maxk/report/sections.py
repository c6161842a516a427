"""The sections of the page: titles, paragraphs, figures, tables."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from maxk.records import total_tokens
from maxk.report.changes import Effect, Moved
from maxk.report.draw import inline
from maxk.report.figures import all_figures
from maxk.report.findings import Findings
from maxk.report.gather import Gathered, RunData
from maxk.report.pack import Packed
from maxk.report.sentences import signed
from maxk.report.theme import Figure, Numbers

_LISTED = 12  # lost problems in the table; the page's own table has them all


@dataclass(frozen=True)
class Shown:
    """A figure or a table in its place on the page."""

    title: str
    numbers: Numbers
    caption: str = ""
    svg: str = ""
    links: tuple[str, ...] = ()  # one per row, where rows are problems


@dataclass(frozen=True)
class Section:
    """A part of the page; only text where there are no data."""

    id: str
    short: str
    title: str
    text: list[str]
    figures: list[Shown] = field(default_factory=list)
    tables: list[Shown] = field(default_factory=list)


# --- the top -------------------------------------------------------------------------------------


def title(gathered: Gathered) -> str:
    """base → run, run: the base model, and the runs that are compared with it."""
    base, methods = list(gathered.methods)[:1], list(gathered.methods)[1:]
    others = [*methods, *(run.name for run in gathered.trained)]
    return " → ".join(filter(None, [*base, ", ".join(others)])) or "no run yet"


def tiles(found: Findings) -> list[dict[str, str]]:
    """The main numbers of the first comparison."""
    if not found.effects:
        return []
    each = found.effects[0]
    out = [
        {
            "name": f"max@{change.k}, {each.other} minus {each.base}",
            "value": signed(change.value),
            "detail": f"{signed(change.low)} to {signed(change.high)}, 95 % interval",
        }
        for change in dict.fromkeys((each.changes[0], each.changes[-1]))
    ]
    at = each.crossing
    if at is None:
        where, detail = "nowhere", f"up to k = {each.changes[-1].k}"
    else:
        where = f"k = {at.k:.0f}" + (", not for the first time" if at.back else "")
        ends = (f"after k = {at.low}" if at.low else "", f"by k = {at.high}" if at.high else "")
        detail = ", ".join(filter(None, ends)) or "not told apart at any k"
    out.append({"name": "Curves cross", "value": where, "detail": detail})
    moves = found.moves(each.other)
    lost, gained = (sum(m.move == move for m in moves) for move in ("lost", "gained"))
    detail = f"of {len(moves)} problems, in {each.changes[-1].k} samples"
    out.append({"name": "Lost / gained", "value": f"{lost} / {gained}", "detail": detail})
    return out


def about_run(run: RunData) -> str:
    """One line on a run: the model, the data, the method."""
    config = run.config
    if run.kind == "train":
        method, model = config.get("method", {}), config.get("model", {})
        step = max((line["step"] for line in run.metrics), default=0)
        k = f", k = {method['k']}" if "k" in method else ""
        state = "finished" if run.finished else "not finished"
        start = f"training, {method.get('name', '')}{k}, from {model.get('name', '')}"
        return f"{start}, step {step}, {state}"
    data, settings = config["data"], config["settings"]
    variants = len(config.get("prompt_variants", ()))
    turns = f", {variants} prompt variants in turn" if variants else ""
    return (
        f"{config['model']}, {data['name']} {data.get('split', '')}, n = {config['n']}, "
        f"temperature {settings['temperature']}, top-p {settings['top_p']}{turns}"
    )


# --- the sections --------------------------------------------------------------------------------


def all_sections(found: Findings) -> list[Section]:
    """The sections that have data; a sentence where something is missing."""
    figures = {name: list(map(_shown, each)) for name, each in all_figures(found).items()}
    sampled, trained = found.gathered.sampled, found.gathered.trained
    sections = []
    if sampled:
        sections += [
            _curves(found, figures.get("curves", [])),
            _where(found, figures.get("moves", [])),
            _entropy(sampled, figures.get("entropy", [])),
        ]
    if trained or len(sampled) > 1:
        sections.append(_training(bool(trained), figures.get("training", [])))
    if sampled or trained:
        costs = [Shown("Samples and judging", _costs(found.gathered.runs))]
        drawn = figures.get("cost", [])
        sections.append(Section("cost", "Cost", "What it cost", [], drawn, costs))
    return sections


def _shown(figure: Figure) -> Shown:
    return Shown(figure.title, figure.numbers, figure.caption, inline(figure))


def _curves(found: Findings, figures: list[Shown]) -> Section:
    text = [
        "max@k is the expected best reward of k samples, pass@k the chance that one of them passes "
        "all tests. Both estimates are unbiased."
    ]
    changes = (
        [Shown("max@k against the base model", _changes(found.effects))] if found.effects else []
    )
    return Section("curves", "Best of k", "max@k and pass@k", text, figures, changes)


def _where(found: Findings, figures: list[Shown]) -> Section:
    """Problems that are solved by one model alone, and max@k by difficulty."""
    text, tables = [], []
    place = {task: i for i, task in enumerate(found.gathered.tasks)}
    for each in found.effects:
        moves = found.moves(each.other)
        lost = sorted((m for m in moves if m.move == "lost"), key=lambda m: m.chance)
        sure = sum(m.chance < 0.05 for m in lost)
        gained = sum(m.move == "gained" for m in moves)
        text.append(
            f"{each.other} no longer reaches {_problems(len(lost))} that {each.base} solved, "
            f"{sure} of them beyond chance (Fisher's exact test, p < 0.05), and reaches {gained} "
            f"that {each.base} never solved."
        )
        if lost:
            tables.append(_lost(each, lost, place))
    levels = _by_difficulty(found)
    if levels.rows:
        tables.append(Shown("By difficulty", levels))
    text = text or ["There is one run; add a second one to see which problems moved."]
    return Section("moves", "Where", "Where problems moved", text, figures, tables)


def _problems(number: int) -> str:
    return "1 problem" if number == 1 else f"{number} problems"


def _lost(each: Effect, lost: Sequence[Moved], place: dict[str, int]) -> Shown:
    rows = tuple(
        (m.problem, f"{m.base:.3f}", f"{m.other:.3f}", f"{m.chance:.3f}") for m in lost[:_LISTED]
    )
    more = f", the {len(rows)} surest of {len(lost)}" if len(lost) > len(rows) else ""
    return Shown(
        f"No longer reached by {each.other}{more}",
        Numbers(("problem", each.base, each.other, "chance if nothing changed"), rows),
        links=tuple(f"#/{place[m.problem]}/0" for m in lost[:_LISTED]),
    )


def _by_difficulty(found: Findings) -> Numbers:
    """max@1 and max@n of each run by difficulty; empty where the data set has no difficulties."""
    runs = found.evaluations
    levels = list(dict.fromkeys(level for run in runs.values() for level in run.max_by_group))
    if len(levels) < 2:
        return Numbers((), ())
    columns = ["difficulty", "problems"]
    for end in (0, -1):
        columns += [f"max@{run.max.points[end].k} {name}" for name, run in runs.items()]
    rows = []
    for level in levels:
        curves = [run.max_by_group[level] for run in runs.values()]
        cells = [f"{curve.points[end].value:.3f}" for end in (0, -1) for curve in curves]
        rows.append((str(level), str(curves[0].problems), *cells))
    return Numbers(tuple(columns), tuple(rows))


def _changes(effects: Sequence[Effect]) -> Numbers:
    rows = [
        (
            *(str(change.k), each.other, f"{change.base:.3f}", f"{change.other:.3f}"),
            f"{signed(change.value)} ({signed(change.low)} to {signed(change.high)})",
            f"{change.p:.2g}",
        )
        for each in effects
        for change in each.changes
    ]
    return Numbers(
        ("k", "method", "base model", "this method", "difference, 95 % interval", "p"), tuple(rows)
    )


def _entropy(runs: Sequence[RunData], figures: list[Shown]) -> Section:
    text = ["No entropies are stored: the back end of these runs does not return them."]
    if figures:
        text = ["A distribution further to the left is of a model whose samples vary less."]
    written = [run for run in runs if any(s.text for each in run.samples.values() for s in each)]
    variety = [Shown("Different programs of a problem", _variety(written))] if written else []
    return Section("entropy", "Entropy", "Entropy of completions", text, figures, variety)


def _variety(runs: Sequence[RunData]) -> Numbers:
    """How many programs of a problem are different texts."""
    rows = []
    for run in runs:
        shares = []
        for passing in (False, True):
            groups = [
                [s.text for s in samples if s.passed or not passing]
                for samples in run.samples.values()
            ]
            total = sum(map(len, groups))
            shares.append(
                f"{sum(len(set(group)) for group in groups) / total:.1%}" if total else ""
            )
        rows.append((run.name, *shares))
    return Numbers(("run", "of all completions", "of those that pass"), tuple(rows))


def _training(there: bool, figures: list[Shown]) -> Section:
    text = []
    if not there:
        text = [
            "No training run is among these; name its folder to see reward and policy lag here."
        ]
    elif not figures:
        text = ["Nothing has been logged yet."]
    return Section("training", "Training", "How training went", text, figures)


def _costs(runs: Sequence[RunData]) -> Numbers:
    """A column per run."""
    rows: dict[str, list[str]] = {}
    for run in runs:
        samples = [sample for each in run.samples.values() for sample in each]
        n, tokens = max(len(samples), 1), total_tokens(sample.tokens for sample in samples)
        known = any(sample.tokens is not None for sample in samples)
        tested = any(sample.outcomes for sample in samples)
        figures = {
            "completions": f"{len(samples):,}",
            "tokens": "" if tokens is None or not known else f"{tokens:,}",
            "tokens of a completion": "" if tokens is None or not known else f"{tokens / n:.1f}",
            "cut off at the limit": f"{sum(s.cut for s in samples) / n:.1%}" if known else "",
            "without a program": f"{sum(s.status == 'no program' for s in samples) / n:.1%}",
            "timed out in a test": f"{sum('T' in s.outcomes for s in samples) / n:.1%}" * tested,
            "CPU seconds of judging": f"{run.judge_seconds:,.1f}" * tested,
            "CPU ms of judging, a completion": f"{1000 * run.judge_seconds / n:.2f}" * tested,
        }
        for name, figure in figures.items():
            rows.setdefault(name, []).append(figure)
    columns = ("", *(run.name for run in runs))
    return Numbers(columns, tuple((name, *cells) for name, cells in rows.items() if any(cells)))


# --- the end -------------------------------------------------------------------------------------


def included(packed: Packed) -> str:
    """Which samples are in the page, and which are left out."""
    if not packed.programs:
        return f"All {packed.samples:,} verdicts are in this page. These runs hold no programs."
    if packed.most is None:
        return (
            f"All {packed.samples:,} samples are in this page, {packed.programs:,} different ones."
        )
    return (
        f"All {packed.samples:,} verdicts are in this page, and the programs of "
        f"{packed.with_text:,} samples: up to {packed.most} different ones of each problem and "
        "run, flagged passes first, then in turn the best and commonest of each verdict. The other "
        f"{packed.programs - packed.kept:,} programs are left out; --samples all keeps them."
    )


def settings(runs: Sequence[RunData]) -> Numbers:
    """The settings of each run, and its environment."""
    flat = {run.name: _flat(run.config) | _flat(_surroundings(run), "on.") for run in runs}
    keys = list(dict.fromkeys(key for each in flat.values() for key in each))
    rows = tuple((key, *(flat[run.name].get(key, "")[:120] for run in runs)) for key in keys)
    return Numbers(("setting", *(run.name for run in runs)), rows)


def _surroundings(run: RunData) -> dict[str, Any]:
    wanted = ("time", "python", "gpus", "cores", "commit", "versions")
    return {key: run.environment.get(key) for key in wanted}


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            out |= _flat(value, f"{prefix}{key}.")
        elif value not in (None, [], ""):
            out[f"{prefix}{key}"] = str(value)
    return out


def made(gathered: Gathered) -> list[str]:
    """How the page was made."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = [f"Made by maxk {version('maxk')} on {now}."]
    if gathered.sampled:
        text.append(
            "Intervals of one run are bootstraps over problems (BCa, 10,000 resamples). "
            "Differences are paired by problem; interval and p come from one t, uncorrected, over "
            "runs and problems where both methods have two runs, else over problems. A flagged "
            "pass is a reason to read the program, not a verdict. The page loads no other files."
        )
    return text
