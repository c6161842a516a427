"""A model and its tokenizer from what a user names: pocket, a folder, the hub, an adapter, GGUF."""

import importlib.util
import json
from pathlib import Path
from typing import Any

from maxk.pocket import resolve

ADAPTER = "adapter_config.json"


def adapter_of(model: str) -> dict[str, Any] | None:
    """The settings of a LoRA adapter that lies in a folder, or None if it is none."""
    path = Path(model) / ADAPTER
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


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
    where: dict[str, str] = {}
    if base.endswith(".gguf"):
        if importlib.util.find_spec("gguf") is None:
            raise ImportError(f"{base} is a GGUF file, to read it needs: pip install gguf")
        base, where["gguf_file"] = str(Path(base).parent), Path(base).name
    loaded: Any = AutoModelForCausalLM.from_pretrained(base, dtype=dtype, **where)
    if adapter:
        loaded = with_adapter(loaded, model)
        if (Path(model) / "tokenizer_config.json").exists():
            base, where = model, {}
    tokenizer = AutoTokenizer.from_pretrained(base, **where)
    return loaded.to(device).eval(), tokenizer


def with_adapter(loaded: Any, folder: str) -> Any:
    """The model with an adapter merged into its weights."""
    if importlib.util.find_spec("peft") is None:
        raise ImportError(f"{folder} is a LoRA adapter, to read it needs: pip install peft")
    from peft import PeftModel

    return PeftModel.from_pretrained(loaded, folder).merge_and_unload()
