"""The small model: a Llama of about a million weights that reads and writes characters."""

import json
from pathlib import Path
from typing import Any, cast

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
PAD, EOS, UNKNOWN = range(3)  # the first tokens; the characters follow
LONGEST = 256  # tokens of prompt and program together
PROMPT = "{statement}\n>>>\n"  # what the chat template makes of a user's message
_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}>>>\n{{ message['content'] }}{{ eos_token }}"
    "{% else %}{{ message['content'] }}\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}>>>\n{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """A token for each printable character of ASCII and the line end.

    >>> made = tokenizer()
    >>> made.decode(made("print(1)  # x\\n")["input_ids"])
    'print(1)  # x\\n'
    """
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", "<unk>", *CHARACTERS])}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.pre_tokenizer = cast(Any, pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"))
    plain.decoder = cast(Any, decoders.Fuse())
    return PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        model_max_length=LONGEST,
        clean_up_tokenization_spaces=False,
        chat_template=_TEMPLATE,
    )


def model(layers: int = 4, width: int = 160) -> LlamaForCausalLM:
    """The model with random weights; 1.3 million of them by default."""
    config = LlamaConfig(
        vocab_size=len(CHARACTERS) + 3,
        hidden_size=width,
        intermediate_size=width * 8 // 3 // 16 * 16,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config)


def save(trained: LlamaForCausalLM, folder: Path) -> None:
    """In the form of Hugging Face, with weights of 16 bits that load as 32.

    The weights lie on disk as float16 to be small. The configuration says float32, since training
    in 16 bits on a CPU is slow and loses small steps.
    """
    half = LlamaForCausalLM(trained.config)
    half.load_state_dict(trained.state_dict())
    half.half().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    _set(folder / "config.json", dtype="float32")
    # Transformers 5 writes a name of this class that version 4 does not know; both know this one.
    _set(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")


def _set(path: Path, **fields: str) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}, indent=2) + "\n")
