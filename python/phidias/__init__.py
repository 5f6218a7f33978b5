"""Phidias runs the Phi-3 family of language models and shows what is inside them.

    import phidias
    model = phidias.Model("Phi-4-mini-instruct")       # a folder, a .gguf file, a name
    print(model.chat("Why is the sky blue?"))
    for piece in model.stream("Once upon a time").text():
        print(piece, end="", flush=True)
"""

from ._core import (
    Choice,
    DecodeStream,
    Engine,
    Event,
    Inspection,
    ModelInfo,
    Sequence,
    Token,
    Tokenizer,
    build_info,
    inspect,
    pull,
)
from .chat import ChatPrompt, ChatTemplate, chat_prompt
from .errors import (
    CancelledError,
    CapacityExceededError,
    CorruptError,
    Error,
    InternalError,
    InvalidArgumentError,
    IoError,
    NonFiniteError,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
)
from .generation import GenerateOptions, Generation, Stream
from .model import Model

__version__: str = build_info()["version"]

__all__ = [
    "CancelledError",
    "CapacityExceededError",
    "ChatPrompt",
    "ChatTemplate",
    "Choice",
    "CorruptError",
    "DecodeStream",
    "Engine",
    "Error",
    "Event",
    "GenerateOptions",
    "Generation",
    "Inspection",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "Model",
    "ModelInfo",
    "NonFiniteError",
    "NotFoundError",
    "OutOfMemoryError",
    "Sequence",
    "Stream",
    "Token",
    "Tokenizer",
    "UnsupportedError",
    "__version__",
    "build_info",
    "chat_prompt",
    "inspect",
    "pull",
]
