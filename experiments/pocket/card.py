"""The model card of the small model: card.md with the figures measured put in."""

import csv
from pathlib import Path

from maxk.pocket.families import HELD_OUT, SEEN

TEMPLATE = Path(__file__).with_name("card.md")


def card(folder: Path, figures: list[list[str]], problems: int) -> str:
    """The card of the model in a folder; `figures` are the rows of a table, its head first."""
    curve = list(csv.DictReader((folder / "loss.csv").read_text().splitlines()))
    head, *rows = figures
    table = [head, ["---"] * len(head), *rows]
    return TEMPLATE.read_text().format(
        weights=(folder / "model.safetensors").stat().st_size / 2e6,
        families=len(SEEN) + len(HELD_OUT),
        open=sum(bool(family.hidden) for family in SEEN + HELD_OUT),
        unseen=len(HELD_OUT),
        steps=int(curve[-1]["step"]),
        tokens=int(curve[-1]["tokens"]) / 1e6,
        loss=float(curve[-1]["loss"]),
        samples=rows[-1][0],
        problems=problems,
        table="\n".join(f"| {' | '.join(row)} |" for row in table),
    )
