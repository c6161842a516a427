"""The report as one HTML file that loads nothing and runs nothing but its own script.

What the reader's browser may do is said in the page itself, by a policy that names the one script
and the one style sheet by their digests. Text of models and data sets is in it in two forms only:
escaped by the template, and as JSON that the script turns into text nodes.
"""

import base64
import datetime
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import maxk
from maxk.report.draw import inline
from maxk.report.figures import COLOURS, Figure, Numbers, all_figures
from maxk.report.findings import Effect, Findings
from maxk.report.gather import LETTERS, Gathered, RunData
from maxk.report.pack import Packed, pack

_HERE = Path(__file__).parent
_SCRIPTS = ("text.js", "table.js", "viewer.js")
_AROUND = 60_000  # bytes of the page beside figures and samples
MEGABYTES = 5.0


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
    """A part of the page; text alone where there are no data for more."""

    id: str
    short: str
    title: str
    text: list[str]
    figures: list[Shown] = field(default_factory=list)
    tables: list[Shown] = field(default_factory=list)


def page(
    found: Findings,
    megabytes: float = MEGABYTES,
    samples: int | None = None,
    version: int | None = None,
) -> str:
    """The whole page. version: of a page that is served and replaced when there is news."""
    try:
        import jinja2
    except ImportError:
        raise ImportError("the page needs jinja2: pip install 'maxk[report]'") from None

    gathered = found.gathered
    sections = _sections(found)
    drawn = sum(len(figure.svg) for section in sections for figure in section.figures)
    packed = pack(gathered, int(megabytes * 1e6) - drawn - _AROUND, samples)
    scripts = _SCRIPTS if version is None else (*_SCRIPTS, "live.js")
    script = '"use strict";\n' + "\n".join((_HERE / name).read_text("utf-8") for name in scripts)
    css = (_HERE / "page.css").read_text("utf-8")
    data = {
        "runs": [{"name": run.name, "kind": run.kind} for run in gathered.runs],
        "problems": packed.index,
        "letters": {letter: status for status, letter in LETTERS.items()},
        "packed": packed.payloads,
        "version": version,
    }
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return templates.get_template("page.html").render(
        title=_title(gathered),
        policy=policy(script, css, live=version is not None),
        css=css,
        script=script,
        live=version is not None,
        headline=found.headline,
        missing=gathered.missing,
        tiles=_tiles(found),
        runs=[
            {"name": run.name, "about": _about_run(run), "colour": COLOURS[i % len(COLOURS)]}
            for i, run in enumerate(gathered.runs)
        ],
        sections=sections,
        kept=_kept(packed),
        about=_settings(gathered.runs),
        made=_made(gathered),
        data=json_in_html(data),
    )


def policy(script: str, css: str, live: bool = False) -> str:
    """The Content-Security-Policy: this script, this style sheet, and nothing from anywhere."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{digest(script)}'",
        f"style-src 'sha256-{digest(css)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, "connect-src 'self'"] if live else rules)


def json_in_html(data: Any) -> str:
    """JSON that no HTML parser takes for the end of a script.

    >>> json_in_html(["</script><!--"])
    '["\\\\u003c/script\\\\u003e\\\\u003c!--"]'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _title(gathered: Gathered) -> str:
    """base → ours, train: what is compared, and what else there is."""
    compared = " → ".join(run.name for run in gathered.sampled)
    return ", ".join(filter(None, [compared, *(run.name for run in gathered.trained)])) or "no run yet"


# --- what stands where ---------------------------------------------------------------------------


def _sections(found: Findings) -> list[Section]:
    figures = {name: list(map(_shown, each)) for name, each in all_figures(found).items()}
    sampled, trained = found.gathered.sampled, found.gathered.trained
    sections = []
    if sampled:
        sections.append(
            Section(
                *("curves", "Best of k", "What more samples buy"),
                ["max@k is the expected best reward of k samples, pass@k the chance that one of them "
                 "passes all tests. Both are unbiased from the samples at hand."],
                figures.get("curves", []),
                [Shown("max@k after minus before", _changes(found.effects))] if found.effects else [],
            )
        )
        sections.append(_where(found, figures.get("moves", [])))
        known = figures.get("entropy", [])
        why = [] if known else ["No entropies are stored: the back end of these runs does not give them."]
        if known and len(sampled) > 1:
            why = ["A distribution that moves to the left is a model that is surer and varies less."]
        variety = [Shown("Different completions of a problem", _variety(sampled))]
        title = "How sure the model is"
        sections.append(Section("entropy", "Entropy", title, why, known, variety))
    if trained:
        curves = figures.get("training", [])
        why = [] if curves else ["Nothing has been logged yet."]
        sections.append(Section("training", "Training", "How training went", why, curves))
    elif len(sampled) > 1:
        text = ["No training run is among these; name its folder to see reward, drift and dead groups here."]
        sections.append(Section("training", "Training", "How training went", text))
    costs = [Shown("Samples and judging", _costs(found.gathered.runs))]
    if found.gathered.runs:
        sections.append(Section("cost", "Cost", "What it cost", [], figures.get("cost", []), costs))
    return sections


def _shown(figure: Figure) -> Shown:
    return Shown(figure.title, figure.numbers, figure.caption, inline(figure))


def _where(found: Findings, moves: list[Shown]) -> Section:
    """Which problems moved, and how groups of them did."""
    text, tables = [], []
    for each in found.effects:
        lost = [m for m in found.moves(each.after) if m.move == "lost"]
        gained = [m for m in found.moves(each.after) if m.move == "gained"]
        sure = sum(m.chance < 0.05 for m in lost)
        text.append(
            f"{each.after} no longer reaches {len(lost)} problems that {each.before} solved, {sure} of "
            f"them beyond chance (Fisher's exact test, p < 0.05), and reaches {len(gained)} that "
            f"{each.before} never solved."
        )
        if lost:
            surest = sorted(lost, key=lambda m: m.chance)[:12]
            rows = [
                (m.problem, f"{m.before:.3f}", f"{m.after:.3f}", f"{m.chance:.3f}") for m in surest
            ]
            more = f", the {len(rows)} surest of {len(lost)}" if len(lost) > len(rows) else ""
            columns = ("problem", each.before, each.after, "chance if nothing changed")
            place = {task: i for i, task in enumerate(found.gathered.tasks)}
            links = tuple(f"#/{place[m.problem]}/0/0" for m in surest)
            title = f"No longer reached by {each.after}{more}"
            tables.append(Shown(title, Numbers(columns, tuple(rows)), links=links))
    levels = _by_difficulty(found)
    if levels.rows:
        tables.append(Shown("By difficulty", levels))
    if not text:
        text = ["There is one run; a second one shows here which problems moved."]
    return Section("moves", "Where", "Where problems moved", text, moves, tables)


def _by_difficulty(found: Findings) -> Numbers:
    names = list(found.evaluations)
    levels = list(dict.fromkeys(x for run in found.evaluations.values() for x in run.max_by_group))
    if len(levels) < 2:
        return Numbers((), ())
    columns = ["difficulty", "problems"]
    ends = {name: (run.max.points[0].k, run.max.points[-1].k) for name, run in found.evaluations.items()}
    for i in (0, 1):
        columns += [f"max@{ends[name][i]} {name}" for name in names]
    rows = []
    for level in levels:
        curves = [found.evaluations[name].max_by_group[level] for name in names]
        cells = [f"{curve.points[i].value:.3f}" for i in (0, -1) for curve in curves]
        rows.append((str(level), str(curves[0].problems), *cells))
    return Numbers(tuple(columns), tuple(rows))


def _changes(effects: Sequence[Effect]) -> Numbers:
    rows = [
        (
            *(str(change.k), each.after, f"{change.before:.3f}", f"{change.after:.3f}"),
            _minus(f"{change.value:+.3f} ({change.low:+.3f} to {change.high:+.3f})"),
            f"{change.p:.2g}",
        )
        for each in effects
        for change in each.changes
    ]
    return Numbers(("k", "run", "before", "after", "difference, 95 % interval", "p"), tuple(rows))


def _minus(text: str) -> str:
    """With a minus that is as wide as the plus."""
    return text.replace("-", "−")  # noqa: RUF001


def _costs(runs: Sequence[RunData]) -> Numbers:
    """A column per run."""
    rows: dict[str, list[str]] = {}
    for run in runs:
        samples = [sample for each in run.samples.values() for sample in each]
        n, tokens = max(len(samples), 1), sum(sample.tokens or 0 for sample in samples)
        known = any(sample.tokens is not None for sample in samples)
        figures = {
            "completions": f"{len(samples):,}",
            "tokens": f"{tokens:,}" if known else "",
            "tokens of a completion": f"{tokens / n:.1f}" if known else "",
            "cut off at the limit": f"{sum(s.cut for s in samples) / n:.1%}" if known else "",
            "without a program": f"{sum(s.status == 'no program' for s in samples) / n:.1%}",
            "timed out in a test": f"{sum('T' in s.fates for s in samples) / n:.1%}",
            "CPU seconds of judging": f"{run.judge_seconds:,.1f}",
            "CPU ms of judging, a completion": f"{1000 * run.judge_seconds / n:.2f}",
        }
        for name, figure in figures.items():
            rows.setdefault(name, []).append(figure)
    columns = ("", *(run.name for run in runs))
    return Numbers(columns, tuple((name, *cells) for name, cells in rows.items() if any(cells)))


def _variety(runs: Sequence[RunData]) -> Numbers:
    """How many of the completions of a problem are different, letter by letter."""
    rows = []
    for run in runs:
        shares = []
        for passing in (False, True):
            groups = [
                [s.completion for s in samples if s.passed or not passing]
                for samples in run.samples.values()
            ]
            different = sum(len(set(group)) for group in groups)
            shares.append(f"{different / max(sum(map(len, groups)), 1):.1%}")
        rows.append((run.name, *shares))
    return Numbers(("run", "of all completions", "of those that pass"), tuple(rows))


def _tiles(found: Findings) -> list[dict[str, str]]:
    """The figures of the first comparison, large."""
    if not found.effects:
        return []
    each = found.effects[0]
    tiles = [
        {
            "name": f"max@{change.k}, {each.after} − {each.before}",
            "value": _minus(f"{change.value:+.3f}"),
            "detail": _minus(f"{change.low:+.3f} to {change.high:+.3f}, 95 % interval"),
        }
        for change in (each.changes[0], each.changes[-1])
    ]
    at = each.crossing
    tiles.append(
        {
            "name": "Curves cross",
            "value": "nowhere" if at is None else f"k = {at.k:.0f}",
            "detail": f"up to k = {each.changes[-1].k}"
            if at is None
            else f"{at.low:.0f} to {at.high:.0f}; in {at.share:.0%} of resamples",
        }
    )
    moves = found.moves(each.after)
    counts = [sum(m.move == move for m in moves) for move in ("lost", "gained")]
    detail = f"problems of {len(moves)}, in {len(next(iter(found.gathered.sampled[0].samples.values())))} samples"
    tiles.append({"name": "Lost / gained", "value": f"{counts[0]} / {counts[1]}", "detail": detail})
    return tiles


def _about_run(run: RunData) -> str:
    config = run.config
    if run.kind == "train":
        method, model = config.get("method", {}), config.get("model", {})
        steps = max((line["step"] for line in run.metrics), default=0)
        state = "finished" if run.finished else "not finished"
        k = f", k = {method['k']}" if "k" in method else ""
        return f"training, {method.get('name', '')}{k}, from {model.get('name', '')}, step {steps}, {state}"
    settings = config.get("settings", {})
    return (
        f"{config.get('model', '')}, {config['data']['name']} {config['data'].get('split', '')}, "
        f"n = {config['n']}, temperature {settings.get('temperature')}, top-p {settings.get('top_p')}"
    )


def _settings(runs: Sequence[RunData]) -> Numbers:
    """What was asked for, run by run; as far as it is short."""
    flat = {run.name: _flat(run.config) | _flat(_surroundings(run), "on.") for run in runs}
    keys = list(dict.fromkeys(key for each in flat.values() for key in each))
    rows = tuple((key, *(flat[run.name].get(key, "")[:120] for run in runs)) for key in keys)
    return Numbers(("setting", *(run.name for run in runs)), rows)


def _surroundings(run: RunData) -> dict[str, Any]:
    wanted = ("time", "python", "gpus", "cores", "commit")
    versions = run.environment.get("versions") or {}
    return {key: run.environment.get(key) for key in wanted} | {"versions": versions}


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    out: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            out |= _flat(value, f"{prefix}{key}.")
        elif value not in (None, [], ""):
            out[f"{prefix}{key}"] = str(value)
    return out


def _kept(packed: Packed) -> str:
    """What of the samples is in the page, and what is not."""
    if packed.most is None:
        return f"All {packed.samples:,} samples are in this page, {packed.programs:,} different ones."
    return (
        f"All {packed.samples:,} verdicts are in this page, and the programs of {packed.with_text:,} "
        f"samples: up to {packed.most} different ones of each problem and run, flagged passes first, "
        f"then in turn the best and commonest of each verdict. The other "
        f"{packed.programs - packed.kept:,} programs would not fit; `--samples all` keeps them."
    )


def _made(gathered: Gathered) -> list[str]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = [f"Made by maxk {maxk.__version__} on {now}."]
    if gathered.sampled:
        text.append(
            "Intervals are bootstraps over problems (BCa, 10,000 resamples), differences are paired "
            "by problem, and p is of the Wilcoxon signed-rank test, uncorrected. A flagged pass is a "
            "reason to look, not a verdict. The page loads nothing from anywhere."
        )
    return text
