"""Load a model and its tokenizer: "pocket", a folder, a name on the hub, an adapter, GGUF."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

from maxk.pocket import resolve

ADAPTER = "adapter_config.json"
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")


def adapter_of(model: str) -> dict[str, Any] | None:
    """The settings of a LoRA adapter in a folder or on the hub; None for other models."""
    path: str | Path | None = Path(model) / ADAPTER
    if _ON_HUB.fullmatch(model) and not Path(model).exists():
        from transformers.utils.peft_utils import find_adapter_config_file

        path = find_adapter_config_file(model)
    return json.loads(Path(path).read_text("utf-8")) if path and Path(path).exists() else None


def load(model: str, *, device: str | None = None, dtype: str | None = None) -> tuple[Any, Any]:
    """The model, ready to sample, and its tokenizer.

    An adapter is merged into its base model. dtype: default, float32 on a CPU and what the weights
    are stored in on a GPU.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = resolve(model)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("float32" if device == "cpu" else "auto")
    adapter = adapter_of(model)
    base = adapter["base_model_name_or_path"] if adapter else model
    where: dict[str, Any] = {}
    if base.endswith(".gguf"):
        if importlib.util.find_spec("gguf") is None:
            raise ImportError(f"{base} is a GGUF file; to read it: pip install gguf")
        base, where["gguf_file"] = str(Path(base).parent), Path(base).name
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        base, dtype=dtype, **where, **_dequantized(where)
    )
    if adapter:
        loaded = with_adapter(loaded, model)
        if (Path(model) / "tokenizer_config.json").exists():
            base, where = model, {}
    tokenizer = AutoTokenizer.from_pretrained(base, **where)
    return loaded.to(device).eval(), tokenizer


def _dequantized(where: dict[str, Any]) -> dict[str, Any]:
    """The argument with which newer transformers unpack a GGUF file, as older ones always do."""
    import transformers

    if "gguf_file" not in where or not hasattr(transformers, "GgufConfig"):
        return {}
    return {"quantization_config": transformers.GgufConfig(dequantize=True)}


def with_adapter(loaded: Any, folder: str) -> Any:
    """The model with an adapter merged into its weights."""
    if importlib.util.find_spec("peft") is None:
        raise ImportError(f"{folder} is a LoRA adapter; to read it: pip install peft")
    from peft import PeftModel

    return PeftModel.from_pretrained(loaded, folder).merge_and_unload()


def unpack(gguf: str, folder: str) -> None:
    """Write the model of a GGUF file as safetensors, in bfloat16."""
    loaded, tokenizer = load(gguf, device="cpu", dtype="bfloat16")
    loaded.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
