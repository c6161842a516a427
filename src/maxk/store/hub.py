"""The Hugging Face hub, when it cannot be reached: use its caches at once.

The hub's packages try again for half a minute before they look into their caches.
"""

import functools
import os
import socket
import sys
import threading
import urllib.request
from urllib.parse import urlsplit

_SECONDS = 5.0
_OFFLINE = {  # the packages read these when they are loaded
    "HF_HUB_OFFLINE": (
        "huggingface_hub.constants.HF_HUB_OFFLINE",
        "datasets.config.HF_HUB_OFFLINE",
        "transformers.utils.hub._is_offline_mode",
    ),
    "HF_DATASETS_OFFLINE": ("datasets.config.HF_DATASETS_OFFLINE",),
}


@functools.cache
def reachable() -> bool:
    """Whether the hub can be reached. If not, its packages use their caches from now on."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    if urllib.request.getproxies().get("https"):
        return True  # the proxy knows
    place = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    port = place.port or (80 if place.scheme == "http" else 443)
    if _answers(place.hostname or "", port):
        return True
    for variable, places in _OFFLINE.items():
        os.environ[variable] = "1"
        for module, _, name in (each.rpartition(".") for each in places):
            if hasattr(sys.modules.get(module), name):
                setattr(sys.modules[module], name, True)
    return False


def _answers(host: str, port: int) -> bool:
    """Whether a connection is made within a few seconds, the time to look up its name included."""
    made = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection((host, port), _SECONDS).close()
        except OSError:
            return
        made.set()

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return made.is_set()
