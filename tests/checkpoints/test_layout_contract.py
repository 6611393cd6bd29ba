"""Every layout against every kind of damage: the right verdict, a reason in words, and nothing deleted."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest
from checkpoint_folders import KITS, Bytes, Kit, lay, marked

from orchestrator import registry
from orchestrator.checkpoints import PARTS, check
from orchestrator.checkpoints._digest import write_digests
from orchestrator.checkpoints._retention import own, remove


def kits(chosen: Callable[[Kit], object] = bool) -> pytest.MarkDecorator:
    some = [kit for kit in KITS if chosen(kit)]
    return pytest.mark.parametrize("kit", some, ids=[kit.name for kit in some])


each_kit = kits()


class Place:
    """A root on some file system, with whole checkpoints at 100 and whatever a test lays at 200."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs, self.root = fs, root

    def lay(self, kit: Kit, step: int, files: Bytes | None = None) -> str:
        path = f"{self.root}/{kit.base(step)}"
        lay(self.fs, path, kit.files(step) if files is None else files)
        return path

    def point(self, kit: Kit, text: str) -> None:
        if kit.pointer:
            lay(self.fs, f"{self.root}/{kit.pointer[0]}", {"": text.encode()})

    def listing(self) -> dict[str, int]:
        return {path: info["size"] for path, info in self.fs.find(self.root, detail=True).items()}


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path) -> Iterator[Place]:
    if request.param == "local":
        yield Place(fsspec.filesystem("file"), str(tmp_path))
        return
    memory = fsspec.filesystem("memory")
    yield Place(memory, "/run")
    if memory.exists("/run"):
        memory.rm("/run", recursive=True)


def newest(place: Place, kit: Kit, full: bool = False) -> int | None:
    whole = [each for each in check(kit.layout, place.fs, kit.layout.scan(place.fs, place.root), full) if each.complete]
    return whole[-1].step if whole else None


def verdict(place: Place, kit: Kit, step: int, full: bool = False) -> str:
    """Why the checkpoint of a step is not usable, from the listing or from a look inside; "absent" when unseen."""
    found = {each.step: each for each in kit.layout.scan(place.fs, place.root)}
    if step not in found:
        return "absent"
    return found[step].why or kit.layout.verify(place.fs, found[step].path, full)


def test_every_layout_of_the_family_is_in_the_table():
    assert {kit.layout.__name__.rpartition(".")[2] for kit in KITS} == set(registry.names("checkpoints"))


@each_kit
def test_whole_ones_are_found_in_the_order_of_their_numbers(place, kit):
    for step in (9000, 10000, 200):
        place.lay(kit, step)
    place.point(kit, kit.pointer[1](10000) if kit.pointer else "")
    found = kit.layout.scan(place.fs, place.root)
    assert [(each.step, each.complete, each.why) for each in found] == [
        (200, True, ""), (9000, True, ""), (10000, True, ""),
    ]  # fmt: skip
    checked = check(kit.layout, place.fs, found)
    assert [each.why for each in checked] == ["", "", ""]
    assert [each.path for each in checked] == [f"{place.root}/{kit.base(step)}" for step in (200, 9000, 10000)]
    assert [each.missing for each in checked] == [kit.missing] * 3
    assert set(kit.missing) <= set(PARTS)
    assert [kit.layout.verify(place.fs, each.path, full=True) for each in found] == ["", "", ""]
    assert all(isinstance(word, str) for word in kit.layout.resume_hint(found[0]))


@each_kit
def test_where_nothing_was_saved_yet_there_is_nothing_to_find(place, kit):
    assert kit.layout.scan(place.fs, f"{place.root}/never") == []
    assert kit.layout.verify(place.fs, f"{place.root}/never/{kit.base(5)}") == "it is gone"


def without(name: str) -> Any:
    return lambda files: {each: data for each, data in files.items() if each != name}


def cut(name: str, share: float) -> Any:
    return lambda files: {**files, name: files[name][: int(len(files[name]) * share)]}


DAMAGE = {
    "missing file": lambda kit: without(kit.data),
    "zero-length file": lambda kit: cut(kit.data, 0),
    "truncated file": lambda kit: cut(kit.data, 0.5),
    "cut off by one byte": lambda kit: cut(kit.data, 0.9999),
    "half-written": lambda kit: without(kit.last),
    "a rank's file gone": lambda kit: without(kit.rank),
}
WORDS = ("missing", "is empty", "holds ", "cut off", "holds no ", "is gone", "no model_optim_rng", "absent")


DAMAGED = [
    pytest.param(kit, damage, id=f"{kit.name}, {damage}")
    for kit in KITS
    for damage in DAMAGE
    if not (damage == "half-written" and not kit.last) and not (damage == "a rank's file gone" and not kit.rank)
]


@pytest.mark.parametrize(("kit", "damage"), DAMAGED)
def test_a_damaged_one_is_told_in_words_and_the_one_before_it_is_the_newest(place, kit, damage):
    place.lay(kit, 100)
    place.lay(kit, 200, DAMAGE[damage](kit)(kit.files(200)))
    place.point(kit, kit.pointer[1](200) if kit.pointer else "")
    before = place.listing()

    why = verdict(place, kit, 200)

    assert any(word in why for word in WORDS), why
    assert newest(place, kit) == 100
    assert place.listing() == before


@kits(lambda kit: kit.pointer)
@pytest.mark.parametrize("text", ["ahead", "empty", "missing"])
def test_a_wrong_pointer_changes_nothing_about_what_is_whole(place, kit, text):
    for step in (100, 200):
        place.lay(kit, step)
    place.lay(kit, 300, without(kit.last)(kit.files(300)))
    if text != "missing":
        place.point(kit, kit.pointer[1](300) if text == "ahead" else "")
    assert newest(place, kit) == 200
    assert verdict(place, kit, 300) != ""


@each_kit
def test_a_flipped_bit_is_caught_by_the_digests(place, kit):
    place.lay(kit, 100)
    path = place.lay(kit, 200)
    assert write_digests(place.fs, path) == ""
    assert newest(place, kit, full=True) == 200
    data = bytearray(kit.files(200)[kit.data])
    data[len(data) // 2] ^= 1
    lay(place.fs, path, {kit.data: bytes(data)})

    assert verdict(place, kit, 200, full=True).endswith("is not what was saved: its digest differs")
    assert newest(place, kit, full=True) == 100
    assert len(kit.layout.scan(place.fs, place.root)) == 2, "the digests themselves look like no checkpoint"


@each_kit
def test_what_is_being_written_under_a_temporary_name_is_not_in_sight(place, kit):
    place.lay(kit, 100)
    for name in (f".{kit.base(200)}", f"{kit.base(200)}.tmp", f"{kit.base(200)}.partial", f"tmp-{kit.base(200)}"):
        lay(place.fs, f"{place.root}/{name}", kit.files(200))
    assert [each.step for each in kit.layout.scan(place.fs, place.root)] == [100]


@each_kit
def test_what_an_older_run_left_is_told_from_ones_own(place, kit):
    for step in (500, 600, 700):
        old = kit.files(step)
        place.lay(kit, step, marked(old, step, run="old", attempt=4) if kit.marks else old)
    mine = kit.files(100)
    path = place.lay(kit, 100, marked(mine, 100, run="new", attempt=1) if kit.marks else mine)
    place.point(kit, kit.pointer[1](700) if kit.pointer else "")
    found = kit.layout.scan(place.fs, place.root)
    assert [each.step for each in own(found, "new", {path})] == [100]
    if kit.marks:
        assert [(each.run, each.attempt) for each in found] == [("new", 1), *[("old", 4)] * 3]


@kits(lambda kit: kit.marks)
def test_a_marker_is_the_last_word_where_there_is_one(place, kit):
    files = marked(kit.files(200), 200)
    name = next(each for each in sorted(files) if each.endswith((".pt", ".distcp", ".safetensors")))
    place.lay(kit, 200, {**files, "orchestrate.json": files["orchestrate.json"][:-9]})
    place.point(kit, kit.pointer[1](200) if kit.pointer else "")
    assert verdict(place, kit, 200) == "orchestrate.json is not whole"
    longer = json.loads(files["orchestrate.json"])
    longer["files"][name] += 1
    place.lay(kit, 200, {**files, "orchestrate.json": json.dumps(longer).encode()})
    assert verdict(place, kit, 200).startswith(f"{name} holds ")


@each_kit
def test_a_half_deleted_one_is_never_complete(place, kit, monkeypatch):
    class Interrupted(Exception):
        pass

    files = kit.files(200)
    for allowed in range(1, len(files)):
        path = place.lay(kit, 200)
        place.point(kit, kit.pointer[1](200) if kit.pointer else "")
        found = kit.layout.scan(place.fs, place.root)[0]
        left = iter(range(allowed))
        real = type(place.fs).rm_file

        def until_cut(self, each, left=left, real=real):
            if next(left, None) is None:
                raise Interrupted
            real(self, each)

        with monkeypatch.context() as patch:
            patch.setattr(type(place.fs), "rm_file", until_cut)
            with pytest.raises(Interrupted):
                remove(place.fs, found)
        assert verdict(place, kit, 200) != "", f"after {allowed} of {len(files)} deletions"
        assert place.fs.exists(path)


@each_kit
def test_removal_leaves_the_others_and_nothing_of_its_own(place, kit):
    place.lay(kit, 100)
    before = place.listing()
    path = place.lay(kit, 200)
    write_digests(place.fs, path)
    remove(place.fs, kit.layout.scan(place.fs, place.root)[-1])
    assert place.listing() == before
    assert kit.layout.verify(place.fs, path) == "it is gone"


@each_kit
def test_rolling_back_leaves_the_target_where_it_is_and_loses_nothing(place, kit):
    for step in (100, 200, 300):
        place.lay(kit, step)
    place.point(kit, kit.pointer[1](300) if kit.pointer else "")
    target = kit.layout.scan(place.fs, place.root)[0]
    before = sum(place.listing().values())

    said = kit.layout.point_to(place.fs, place.root, target)

    assert kit.layout.verify(place.fs, target.path) == ""
    if kit.pointer:
        name, text = kit.pointer
        assert place.fs.cat_file(f"{place.root}/{name}").decode() == text(100)
        assert said == [f"{name} names {text(100)}"]
    else:
        assert sum(place.listing().values()) == before
    highest_wins = kit.layout.__name__.endswith((".dcp", ".huggingface", ".olmo"))
    steps = [each.step for each in kit.layout.scan(place.fs, place.root)]
    moved = highest_wins and type(place.fs).__name__ == "LocalFileSystem"
    assert steps == ([100] if moved else [100, 200, 300])
    assert kit.layout.point_to(place.fs, place.root, target) == (said if not moved else []), "twice is as good as once"
