"""The families of problems by theme, in a fixed order."""

from maxk.pocket.families import arithmetic, conditions, lists, loops, state, strings, words

# Shown in pretraining and in training, and in test with other parameters.
SEEN = (
    *arithmetic.FAMILIES,
    *conditions.FAMILIES,
    *lists.FAMILIES,
    *strings.FAMILIES,
    *words.FAMILIES,
    *loops.FAMILIES,
    *state.FAMILIES,
)
# In test only: each puts together what others do.
HELD_OUT = (*lists.HELD_OUT, *strings.HELD_OUT, *words.HELD_OUT)

__all__ = ["HELD_OUT", "SEEN"]
