"""verl on a machine without an accelerator, by verl's own means: a platform of its registry.

Loaded in every process through VERL_USE_EXTERNAL_MODULES, with VERL_PLATFORM=cpu.
"""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from verl.plugin.platform import platform_manager
from verl.plugin.platform.platform_base import PlatformBase


def nothing(*_: Any, **__: Any) -> None:
    return None


# What verl asks of torch.cuda, for one device that is the host.
DEVICE = SimpleNamespace(
    **dict.fromkeys(("empty_cache", "synchronize", "set_device", "manual_seed"), nothing),
    **dict.fromkeys(("manual_seed_all", "ipc_collect", "reset_peak_memory_stats"), nothing),
    **{
        name: lambda *_, **__: 0
        for name in ("max_memory_allocated", "max_memory_reserved", "memory_allocated")
    },
    memory_reserved=lambda *_, **__: 0,
    mem_get_info=lambda *_, **__: (2**34, 2**34),
    current_device=lambda: torch.device("cpu"),
    device_count=lambda: 1,
    is_available=lambda: True,
    get_rng_state=torch.get_rng_state,
    set_rng_state=torch.set_rng_state,
    get_device_name=lambda *_: "cpu",
)


class Cpu(PlatformBase):
    device_name = "cpu"
    vendor_name = "none"
    device_module = DEVICE  # type: ignore[assignment]

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return True

    def current_device(self) -> Any:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "GPU"  # Ray is told that there are some: verl counts them by this name

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None

    @contextmanager
    def nvtx_range(self, msg: str):
        yield

    set_device = synchronize = manual_seed = manual_seed_all = nothing
    set_allocator_settings = empty_cache = profiler_start = profiler_stop = nothing


platform_manager.PlatformRegistry.register(platform="cpu")(Cpu)
