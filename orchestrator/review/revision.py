"""A policy by file, by name, or as REV:PATH of git; git is asked for content only, nothing of it is run."""

import subprocess
import tempfile
from pathlib import Path, PurePosixPath

from orchestrator.errors import ConfigError
from orchestrator.store import policy_text
from orchestrator.store.policy_text import Loaded
from orchestrator.store.yaml_text import MAX_CHARS

_GIT_SECONDS = 30.0


def load(name: str) -> Loaded:
    """The policy that a name, a path or REV:PATH stands for; findings are the loaded text's."""
    if ":" in name and not Path(name).exists():
        return _of_revision(*name.split(":", 1))
    return policy_text.load(policy_text.locate(name))


def _of_revision(revision: str, path: str) -> Loaded:
    """A policy as it stood at a revision, with the policies beside it at that revision."""
    if revision.startswith("-") or not revision:
        raise ConfigError(f"{revision}:{path}: a revision cannot begin with '-' or be empty")
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    if not commit:
        raise ConfigError(f"{revision}: git knows no such revision here")
    wanted = PurePosixPath(path)
    folder = wanted.parent.as_posix()
    names = _blobs(commit, "" if folder == "." else f"{folder}/")
    if wanted.name not in names:
        raise ConfigError(f"{revision}:{path}: there is no such file at that revision")
    with tempfile.TemporaryDirectory(prefix="orchestrate-") as place:
        for file, blob in names.items():
            if file == wanted.name or (file.endswith(".yaml") and not file.endswith(".cases.yaml")):
                (Path(place) / file).write_bytes(_git("cat-file", "blob", blob)[: 4 * MAX_CHARS])
        source = (Path(place) / wanted.name).read_bytes().decode("utf-8", "replace")
        return policy_text.load_text(source, f"{revision}:{path}", Path(place))


def _blobs(commit: str, folder: str) -> dict[str, str]:
    """The plain files directly in a folder of a commit; links are left out."""
    found = {}
    listing = _git("ls-tree", "-z", "--full-tree", commit, *([folder] if folder else []))
    for entry in listing.decode("utf-8", "replace").split("\0"):
        about, _, file = entry.partition("\t")
        mode, kind, blob = (*about.split(), "", "", "")[:3]
        if kind == "blob" and mode.startswith("100"):
            found[PurePosixPath(file).name] = blob
    return found


def _git(*words: str) -> bytes:
    """What git prints; nothing when it knows no answer."""
    try:
        done = subprocess.run(
            ["git", "--no-pager", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError("REV:PATH needs git, which is not installed here") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"git {words[0]} did not answer within {_GIT_SECONDS:.0f} s") from error
    if done.returncode and b"not a git repository" in done.stderr:
        raise ConfigError("REV:PATH works inside a git repository only")
    return done.stdout if done.returncode == 0 else b""
