"""Draw docs/images/architecture.svg: the layers, and two walks through them.

python examples/architecture.py
"""

from pathlib import Path
from xml.sax.saxutils import escape

FILE = Path(__file__).parent.parent / "docs" / "images" / "architecture.svg"
WIDTH, HEIGHT = 900, 690

LAYERS = [
    ("cli",),
    ("report", "train", "integrations", "best_of_n"),
    ("sample", "evaluate"),
    ("config",),
    ("grade", "data"),
    ("verify", "pocket", "merge"),
    ("store",),
    ("prompts",),
    ("records", "estimators"),
]
REWARDS = (
    ["TRL", "train/trainer", "train/weighing", "estimators"],
    [
        (0, 1, "rewards"),
        (1, 2, "rewards_PN"),
        (2, 3, "with log_ratios_PN"),
        (3, 2, "advantages_PN"),
        (2, 1, "masked"),
        (1, 0, "advantages"),
    ],
)
COMPLETION = (
    ["sample", "store", "grade", "verify", "evaluate, report"],
    [
        (0, 1, "completions"),
        (1, 2, "problem, text"),
        (2, 3, "program, tests"),
        (3, 2, "verdict"),
        (2, 1, "program, verdict"),
        (1, 4, "rewards, programs: no second extraction"),
    ],
)
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
    fill: #1b1f24; }
  .title { font-weight: 600; font-size: 15px; }
  .small { font-size: 12px; fill: #57606a; }
  .said { font-size: 12px; fill: #57606a; paint-order: stroke; stroke: #ffffff; stroke-width: 5px; }
  .panel { fill: #ffffff; stroke: #d0d7de; }
  .room { fill: #eef4fb; stroke: #7a9cc6; }
  .outside { fill: #f6f1e7; stroke: #b79a5b; }
  .life { stroke: #b6bfc9; stroke-dasharray: 3 4; }
  .arrow { stroke: #2f5f9e; stroke-width: 1.6; fill: none; }
  .head { fill: #2f5f9e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .small { fill: #a3adb8; }
    .said { fill: #a3adb8; stroke: #0f141a; }
    .panel { fill: #0f141a; stroke: #3a434d; }
    .room { fill: #17283c; stroke: #4f7fb5; }
    .outside { fill: #2c2615; stroke: #a98a45; }
    .life { stroke: #4a545f; }
    .arrow { stroke: #79b0f0; }
    .head { fill: #79b0f0; }
  }
"""


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, words: str, kind: str = "room") -> str:
    shape = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{kind}"/>'
    )
    return shape + text(x + width / 2, y + height / 2 + 4.5, words)


def arrow(x0: float, x1: float, y: float) -> str:
    back = -8 if x1 > x0 else 8
    line = f'<path d="M{x0:g} {y:g} H{x1 + back / 2:g}" class="arrow"/>'
    return line + f'<path d="M{x1:g} {y:g} l{back} -4.5 v9 z" class="head"/>'


def layers(x: float, y: float, width: float) -> list[str]:
    """The rooms, floor on floor; each imports only from the floors below it."""
    out = [text(x, y, "Layers", "title", "start")]
    out += [text(x, y + 19, "a room imports only lower floors", "small", "start")]
    height, gap = 42, 7
    top = y + 34
    for i, floor in enumerate(LAYERS):
        room = (width - gap * (len(floor) - 1)) / len(floor)
        per_row = len(floor) if room >= 60 else 2
        room = (width - gap * (per_row - 1)) / per_row
        for j, name in enumerate(floor):
            row, column = divmod(j, per_row)
            out.append(
                box(x + column * (room + gap), top + row * (height + gap), room, height, name)
            )
        rows = -(-len(floor) // per_row)
        top += rows * height + (rows - 1) * gap
        if i < len(LAYERS) - 1:
            out.append(f'<path d="M{x + width / 2:g} {top + 2:g} v12" class="life"/>')
        top += 16
    return out


def walk(
    x: float, y: float, width: float, title: str, said: str, places: list[str], steps: list
) -> list[str]:
    """Who gives what to whom, from top to bottom."""
    out = [text(x, y, title, "title", "start"), text(x, y + 19, said, "small", "start")]
    room = width / len(places)
    middles = [x + room * (i + 0.5) for i in range(len(places))]
    head, first, step = y + 34, y + 96, 33
    bottom = first + step * (len(steps) - 1) + 14
    for middle, name in zip(middles, places, strict=True):
        out.append(f'<path d="M{middle:g} {head + 30:g} V{bottom:g}" class="life"/>')
        kind = "outside" if name == "TRL" else "room"
        out.append(box(middle - room / 2 + 4, head, room - 8, 30, name, kind))
    for i, (source, target, what) in enumerate(steps):
        at = first + i * step
        begin, end = middles[source], middles[target]
        out.append(text((begin + end) / 2, at - 6, f"{i + 1}. {what}", "said"))
        out.append(arrow(begin, end, at))
    return out


def drawing() -> str:
    right = 280
    parts = [
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10" class="panel"/>',
        *layers(24, 38, 220),
        *walk(
            *(right, 38, 602, "A tensor of rewards, in training"),
            "TRL holds those of one process; _PN: all of them, P prompts with N samples each",
            *REWARDS,
        ),
        *walk(
            *(right, 376, 602, "A completion"),
            "each stage reads and writes files, and can be stopped and run again alone",
            *COMPLETION,
        ),
    ]
    body = "\n".join(parts)
    title = "The layers of maxk, the walk of a rewards tensor, and the walk of a completion"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'width="{WIDTH}" height="{HEIGHT}" aria-label="{title}">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n"
    )


def main() -> None:
    FILE.write_text(drawing())
    print(f"picture: {FILE}")


if __name__ == "__main__":
    main()
