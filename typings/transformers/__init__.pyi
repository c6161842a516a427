# What pyright takes for transformers: its own __init__ imports some 400 models, which takes half of
# a type check. Its values are Any here; its submodules are its own.
from typing import Any

def __getattr__(name: str) -> Any: ...
