# What pyright takes for scipy, which has no types of its own: inferring them takes seconds.
from typing import Any

def __getattr__(name: str) -> Any: ...
