"""The child of `_pickled.py`: pickles in on stdin, one line of JSON each out. Standard library only.

Nothing that a pickle names is ever imported: classes become inert stand-ins, and what belongs to neither
torch nor the plain containers is refused by name. So there is nothing that a pickle could call.
"""

import gc
import io
import json
import pickle
import re
import resource
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_MEMORY = 16 << 30
_PLAIN = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): tuple,
    **{("builtins", each.__name__): each for each in (set, frozenset, list, dict, tuple, bytearray, complex)},
}
# What metadata holds by the hundred thousand; without methods of their own they are built without running Python.
_BARE = frozenset(
    (
        "Metadata",
        "MetadataIndex",
        "_StorageInfo",
        "ChunkStorageMetadata",
        "TensorStorageMetadata",
        "BytesStorageMetadata",
    )
)
_KNOWN = re.compile(r"(torch|torchao|megatron|pathlib|numpy)(\..*)?")
_PARTS = {
    "optimizer": re.compile(r"optim", re.IGNORECASE),
    "scheduler": re.compile(r"sched", re.IGNORECASE),
    "scaler": re.compile(r"scaler", re.IGNORECASE),
    "rng": re.compile(r"\brng|rng\b|_rng|rng_|random_state", re.IGNORECASE),
    "data position": re.compile(r"data_?(loader|set|iter|position)|sampler|train_state|^data\b", re.IGNORECASE),
}


class Inert:
    """Stands for any class or function of a pickle: takes every argument, keeps state, does nothing."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "Inert":
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.__dict__.update(state)

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass


class Reader(pickle.Unpickler):
    """An unpickler that resolves names to inert classes; `strict` refuses unknown ones."""

    def __init__(self, blob: bytes, strict: bool) -> None:
        super().__init__(io.BytesIO(blob))
        self.strict = strict

    def find_class(self, module: str, name: str) -> Any:
        plain = _PLAIN.get((module, name))
        if plain is not None:
            return plain
        if self.strict and not _KNOWN.fullmatch(module):
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no checkpoint metadata needs")
        bare = name in _BARE and module.startswith("torch.distributed.checkpoint.")
        return type(name, (object if bare else Inert,), {})

    def persistent_load(self, pid: Any) -> None:
        return None


def metadata(blob: bytes) -> dict[str, Any]:
    """The used extent of every file of a DCP checkpoint, and the parts that its first two key segments name."""
    value = Reader(blob, strict=True).load()
    stored, keys = getattr(value, "storage_data", None), getattr(value, "state_dict_metadata", None)
    if not isinstance(stored, dict) or not isinstance(keys, dict):
        return {"wrong": "it is no metadata of torch.distributed.checkpoint"}
    ends: dict[str, int] = {}
    for each in stored.values():
        name, offset, length = (getattr(each, field, None) for field in ("relative_path", "offset", "length"))
        if not isinstance(name, str) or not isinstance(offset, int) or not isinstance(length, int):
            return {"wrong": "it does not say where its tensors lie"}
        ends[name] = max(ends.get(name, 0), offset + length)
    heads = {".".join(re.split(r"[./]", key, maxsplit=2)[:2]) for key in keys if isinstance(key, str)}
    return {"ends": ends, "parts": [part for part, word in _PARTS.items() if any(word.search(h) for h in heads)]}


def top(blob: bytes) -> dict[str, Any]:
    """The keys of a pickled dict and the whole numbers among its values."""
    value = Reader(blob, strict=False).load()
    if not isinstance(value, dict):
        return {"keys": [], "numbers": {}}
    named = {key: each for key, each in value.items() if isinstance(key, str)}
    return {"keys": list(named), "numbers": {key: each for key, each in named.items() if type(each) is int}}


def main(answer: Callable[[bytes], dict[str, Any]]) -> None:
    """Answer frames (8 bytes of length, big-endian, then the pickle) until stdin ends."""
    while head := sys.stdin.buffer.read(8):
        blob = sys.stdin.buffer.read(struct.unpack(">Q", head)[0])
        try:
            said = json.dumps(answer(blob))
        # A hostile or broken pickle may raise whatever it likes; the answer is the same.
        except (pickle.UnpicklingError, EOFError, ValueError, LookupError, TypeError, AttributeError) as error:
            said = json.dumps({"wrong": f"its pickle cannot be read: {error}"[:300]})
        except (MemoryError, RecursionError, OverflowError, ArithmeticError) as error:
            said = json.dumps({"wrong": f"its pickle cannot be read: {type(error).__name__}"})
        sys.stdout.write(said + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    # A million small objects without cycles: collecting them would take half of the time.
    gc.disable()
    if sys.platform == "linux":
        # A bomb is to end in a MemoryError here, not in the kernel ending somebody else.
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    main({"metadata": metadata, "top": top}[sys.argv[1]])
