"""Policy files: YAML to Policy, every error at once with its file, line and column.

A policy may extend one policy of its own folder; overrides from the command line are one more layer, and
errors in them point at the override.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from orchestrator.core.policy import Policy
from orchestrator.errors import PolicyError
from orchestrator.store import yaml_text
from orchestrator.store.policy_layers import NAME, Origin, chain, merged, override, shipped
from orchestrator.store.policy_schema import Checked, check
from orchestrator.store.policy_write import yaml_dump
from orchestrator.store.yaml_text import Finding, Mark, Text

__all__ = ["Loaded", "below", "checked", "load", "load_text", "locate", "named", "read", "shipped", "yaml_dump"]


@dataclass(frozen=True)
class Loaded:
    """A policy in force: the values as written (merged), where each came from, and the policy itself.

    `policy` is None as long as anything is wrong; `sound` is then the part of it that is right.
    """

    file: str
    raw: dict[str, Any]
    origin: Origin
    policy: Policy | None
    findings: tuple[Finding, ...]
    sound: Policy | None = None
    layers: tuple[Text, ...] = field(default=(), repr=False)
    wrong: frozenset[yaml_text.Path] = frozenset()

    @property
    def digest(self) -> str:
        """Names the merged policy: the same in force, the same digest."""
        return hashlib.sha256(yaml_dump(self.raw).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def locate(name: str, root: Path | None = None) -> Path:
    """A policy by path, by name in the project's policies/, or by name among the shipped ones."""
    given = Path(name)
    candidates = [given, *([root / given] if root else [])]
    if NAME.fullmatch(name):
        folders = [*([root / "policies"] if root else []), Path("policies"), shipped()]
        candidates += [folder / f"{name}.yaml" for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    known = named()
    near = get_close_matches(Path(name).stem, known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise PolicyError(f"{name}: there is no such policy; {hint}shipped are {', '.join(known)}")


def named() -> list[str]:
    """The names of the shipped policies."""
    return sorted(path.stem for path in shipped().glob("*.yaml") if not path.stem.endswith(".cases"))


def read(name: str, root: Path | None = None, overrides: Sequence[str] = ()) -> Policy:
    """The policy in force, or PolicyError with every finding, one a line."""
    return checked(load(locate(name, root), overrides))


def checked(loaded: Loaded) -> Policy:
    """The policy of a loaded text, or PolicyError."""
    if loaded.policy is None:
        raise PolicyError("\n".join(map(str, loaded.findings)))
    return loaded.policy


def load(path: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read a policy file with all that it extends; findings instead of exceptions."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        return Loaded(str(path), {}, {}, None, (Finding(Mark(str(path), 1, 1), "ORC004", f"cannot be read: {reason}"),))
    return load_text(source, str(path), path.parent, overrides)


def load_text(source: str, file: str, folder: Path | None, overrides: Sequence[str] = ()) -> Loaded:
    """Read a policy text; `extends` is looked for in `folder` (nowhere but among the shipped when it is None)."""
    layers, findings = chain(source, file, folder)
    layers += [override(text) for text in overrides]
    raw, origin = merged(layers, findings)
    found = Checked(None, ())
    if raw or not findings:
        found = check(raw, origin, file)
        places = {finding.mark for finding in findings}  # what is not read at all is of no wrong kind
        findings += [finding for finding in found.findings if finding.mark not in places]
    findings = sorted(dict.fromkeys(findings), key=lambda f: (f.mark.file != file, *f.mark))
    policy = None if findings else found.policy
    return Loaded(file, raw, origin, policy, tuple(findings), found.policy, tuple(layers), found.wrong)


def below(loaded: Loaded) -> Loaded | None:
    """The policy that a text extends, overrides left out; None where it extends none or that one is wrong."""
    texts = [layer for layer in loaded.layers if not layer.file.startswith("override ")]
    if len(texts) < 2:
        return None
    findings: list[Finding] = []
    raw, origin = merged(texts[:-1], findings)
    found = check(raw, origin, texts[-2].file)
    findings += found.findings
    base = Loaded(texts[-2].file, raw, origin, found.policy, tuple(findings), found.policy, tuple(texts[:-1]))
    return None if findings else base
