"""Which checkpoints retention lets go of, asked of a state; and the thread that removes, digests and looks."""

import json
import shutil
from pathlib import Path

import fsspec
import pytest

from orchestrator import registry
from orchestrator.checkpoints import dcp, huggingface
from orchestrator.config import RunDir
from orchestrator.core.decide import decide
from orchestrator.core.evolve import evolve
from orchestrator.core.facts import Action, Checkpoint, Decision, Fact, Launched, Order, Outcome, Step, Tick
from orchestrator.core.rules import Rules
from orchestrator.core.state import State, first
from orchestrator.runtime import retention
from orchestrator.runtime.storage import Place, Storage
from orchestrator.store.patience import UNASKED
from tests.simulation import policy

SHORT = {
    "checkpoints__healthy_after": "50 steps",
    "checkpoints__margin": "5 steps",
    "spikes__persistent__confirm__for": "20 steps",
}


def rules(keep: str = "{last: 1, healthy: 1}", **more: str) -> Rules:
    return registry.bind(policy(checkpoints__keep=keep, limits__quarantine__max_share="10%", **SHORT, **more))


def begun(by: Rules) -> State:
    state, decided = decide(by, first(by), Tick(0.0))
    state = evolve(by, state, Launched(1, 0, "", "here", 1, 0.0))
    return evolve(by, state, Outcome(decided[0].actions[0].id, "done", "", 0.0))


def ran(by: Rules, state: State, to: int, every: int = 50, loss: float = 2.0, base: str = "step") -> State:
    for step in range(state.step + 1, to + 1):
        point = Step(state.attempt, step, float(step), loss=loss, grad_norm=1.0, lr=1e-3, shards=("s",))
        state, _ = decide(by, state, point)
        if step % every == 0:
            state, _ = decide(by, state, Checkpoint(state.attempt, step, f"{base}-{step}", "saved", time=float(step)))
    return state


def due(by: Rules, state: State) -> list[int]:
    return [each.step for each in retention.due(by, state)]


class TestWhatGoes:
    def test_without_keep_nothing(self):
        by = registry.bind(policy(**SHORT))
        assert due(by, ran(by, begun(by), 1000)) == []

    def test_the_newest_the_newest_healthy_and_the_milestones_stay(self):
        by = rules("{last: 2, healthy: 1, every: 400 steps}")
        assert due(by, ran(by, begun(by), 1000)) == [50, *range(100, 400, 50), *range(450, 800, 50), 850, 900]

    @pytest.mark.parametrize("mode", ["observe", "propose"])
    def test_who_only_looks_on_removes_nothing(self, mode: str):
        by = rules(mode=mode)
        assert due(by, ran(by, begun(by), 1000)) == []

    def test_what_is_pinned_stays(self):
        by = rules()
        state = evolve(by, ran(by, begun(by), 400), Order("pin", "ada", 1.0, "", 100.0))
        assert 100 not in due(by, state)
        assert 150 in due(by, state)

    def test_what_the_ladder_of_an_open_incident_may_need_stays(self):
        by = rules()
        state = ran(by, begun(by), 420)
        assert due(by, state) == [50, 100, 150, 200, 250, 300]
        state = ran(by, state, 445, loss=6.0)
        (incident,) = state.incidents
        assert incident.above_low
        assert not {300, 350, 250} & set(due(by, state)), "the target, and two more for deeper rungs"
        assert not {400} & set(due(by, state)), "what it taints is looked at as long as it is open"

    def test_what_a_decided_action_names_stays(self):
        by = rules()
        state = ran(by, begun(by), 400)
        back = Action(9, "rollback", 0, 1, 400, to_step=100, path="step-100")
        assert 100 not in due(by, evolve(by, state, Decision(9, 0, (back,), "act", 1.0)))

    def test_an_older_branch_never_pushes_out_the_only_complete_one_of_the_new(self):
        by = rules("{last: 2, healthy: 1}")
        state = ran(by, begun(by), 500)
        state = evolve(by, state, Launched(2, 200, "step-200", "here", 2, 501.0))
        state = ran(by, state, 230, every=10, base="new")
        gone = due(by, state)
        assert not {220, 230} & set(gone), "the two newest of the branch"
        assert 200 not in gone, "this attempt began with it"
        assert 500 not in gone, "left behind, yet no healthy one stands beyond it"

    def test_what_a_rollback_left_goes_once_a_healthy_one_stands_beyond_it(self):
        by = rules("{last: 1, healthy: 1}")
        state = ran(by, begun(by), 300)
        state = evolve(by, state, Launched(2, 200, "step-200", "here", 2, 501.0))
        state = ran(by, state, 600, base="new")
        gone = {each.path for each in retention.due(by, state)}
        assert {"step-250", "step-300"} <= gone
        assert not {"new-600", "new-550"} & gone


class Kept:
    """A storage thread of a run in a folder, driven by hand; what it says is in `facts`."""

    def __init__(self, folder: Path, layout: str = "dcp", told: bool = True) -> None:
        self.run, self.facts = RunDir(folder / "run"), []  # type: ignore[var-annotated]
        self.run.path.mkdir(exist_ok=True)
        self.root = folder / "checkpoints"
        self.root.mkdir(exist_ok=True)
        place = Place(str(self.root), layout, told, "mine")
        self.storage = Storage(self.run, place, self.hear, lambda: 7.0)
        self.by = rules()
        self.state = first(self.by)

    def hear(self, fact: Fact) -> None:
        self.facts.append(fact)
        self.state = evolve(self.by, self.state, fact)

    def do(self) -> None:
        """Every task that waits, at once."""
        while not self.storage._tasks.empty():
            task = self.storage._tasks.get()
            assert task is not None
            task.do(task.checkpoint)

    def seen(self) -> list[tuple[int, str, str]]:
        return [(f.step, f.path.rpartition("/")[2], f.state) for f in self.facts if isinstance(f, Checkpoint)]


def save(root: Path, step: int, run: str = "mine", attempt: int = 1) -> Path:
    """A complete folder of the hook, with the bytes of a real one."""
    import torch
    from torch.distributed.checkpoint.state_dict_saver import save as write

    path = root / f"step-{step}"
    write({"model": torch.zeros(8), "optimizer": torch.zeros(8)}, checkpoint_id=path, no_dist=True)
    files = {f.name: f.stat().st_size for f in path.iterdir()}
    (path / "orchestrate.json").write_text(json.dumps({"step": step, "attempt": attempt, "run": run, "files": files}))
    return path


class TestTheThread:
    def test_digests_are_written_after_a_save_and_catch_a_flipped_bit(self, tmp_path):
        kept = Kept(tmp_path)
        path = save(kept.root, 10)
        kept.storage.take(Checkpoint(1, 10, str(path), "saved"))
        kept.do()
        fs = fsspec.filesystem("file")
        assert dcp.verify(fs, str(path), full=True) == ""
        data = path / "__0_0.distcp"
        data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
        assert dcp.verify(fs, str(path)) == ""
        assert dcp.verify(fs, str(path), full=True).endswith("its digest differs")

    def test_what_is_removed_is_gone_unless_another_attempt_wrote_there_since(self, tmp_path):
        kept = Kept(tmp_path)
        paths = [save(kept.root, step, attempt=attempt) for step, attempt in ((10, 1), (20, 2))]
        for path in paths:
            kept.storage.remove(Checkpoint(1, int(path.name[5:]), str(path), "missing", retention.REMOVED))
        kept.do()
        assert [path.exists() for path in paths] == [False, True]

    def test_a_removal_that_a_crash_cut_off_is_finished_by_the_next_supervisor(self, tmp_path):
        by = rules()
        state = ran(by, begun(by), 200)
        gone = retention.removed(state.checkpoints[0], 1.0)
        state = evolve(by, state, gone)
        assert retention.left_over(state) == [gone]
        rolled_back = evolve(by, state, Launched(2, 0, "", "here", 2, 1.0))
        assert retention.left_over(rolled_back) == [], "the new attempt may be writing it again"

    def test_a_checkpoint_whose_storage_could_not_be_asked_is_asked_for_again(self, tmp_path):
        kept = Kept(tmp_path)
        path = save(kept.root, 10)
        kept.storage.take(Checkpoint(1, 10, str(path), "started", f"{UNASKED}: EndpointConnectionError"))
        kept.do()
        assert kept.seen() == [(10, "step-10", "saved")]
        assert kept.facts[0].why == ""

    def test_the_thread_itself_does_it_and_ends(self, tmp_path):
        kept = Kept(tmp_path)
        path = save(kept.root, 10)
        kept.storage.begin(kept.state)
        kept.storage.start()
        kept.storage.take(Checkpoint(1, 10, str(path), "saved"))
        kept.storage.remove(Checkpoint(1, 10, str(path), "missing", retention.REMOVED))
        while path.exists():
            kept.storage.join(0.01)
        kept.storage.finish()
        kept.storage.join(10)
        assert not kept.storage.is_alive()


def hf(root: Path, step: int, whole: bool = True) -> Path:
    path = root / f"checkpoint-{step}"
    path.mkdir()
    (path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    if whole:
        (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


class TestAJobThatDoesNotTell:
    """K12, K13: the root is looked at by the layout; what an older run left is neither used nor counted."""

    def test_new_ones_become_facts_when_they_are_complete(self, tmp_path):
        kept = Kept(tmp_path, "huggingface", told=False)
        kept.storage.begin(kept.state)
        hf(kept.root, 100)
        half = hf(kept.root, 200, whole=False)
        kept.storage.look(1)
        kept.storage.look(1)
        assert kept.seen() == [(100, "checkpoint-100", "saved"), (200, "checkpoint-200", "started")]
        (half / "trainer_state.json").write_text(json.dumps({"global_step": 200}))
        kept.storage.look(1)
        assert kept.seen()[2:] == [(200, "checkpoint-200", "saved")]

    def test_an_older_run_s_are_foreign_until_they_are_written_anew(self, tmp_path):
        kept = Kept(tmp_path, "huggingface", told=False)
        for step in (500, 600, 700):
            hf(kept.root, step)
        kept.storage.begin(kept.state)
        hf(kept.root, 100)
        kept.storage.look(1)
        assert kept.seen() == [(100, "checkpoint-100", "saved")]
        again = Kept(tmp_path, "huggingface", told=False)  # a new supervisor of the same run
        again.storage.begin(kept.state)
        shutil.rmtree(kept.root / "checkpoint-500")
        hf(kept.root, 500)
        again.storage.look(1)
        assert again.seen() == [(500, "checkpoint-500", "saved")]

    def test_what_the_framework_deletes_itself_is_told(self, tmp_path):
        kept = Kept(tmp_path, "huggingface", told=False)
        kept.storage.begin(kept.state)
        path = hf(kept.root, 100)
        kept.storage.look(1)
        shutil.rmtree(path)
        kept.storage.look(1)
        assert kept.facts[-1].state == "missing"
        assert kept.facts[-1].why == "it is gone, and no retention of ours removed it"

    def test_the_marker_of_another_run_is_foreign_whenever_it_appears(self, tmp_path):
        kept = Kept(tmp_path, told=False)
        kept.storage.begin(kept.state)
        save(kept.root, 10, run="theirs")
        save(kept.root, 20)
        kept.storage.look(1)
        assert [step for step, _, _ in kept.seen()] == [20]

    def test_a_broken_one_is_told_as_such(self, tmp_path):
        kept = Kept(tmp_path, "huggingface", told=False)
        kept.storage.begin(kept.state)
        (hf(kept.root, 100) / "model.safetensors").write_bytes((4096).to_bytes(8, "little") + b"{}")
        kept.storage.look(1)
        assert kept.seen() == [(100, "checkpoint-100", "corrupt")]

    def test_a_file_overwritten_in_place_is_archived_and_the_archive_is_the_checkpoint(self, tmp_path):
        import torch

        kept = Kept(tmp_path, "torchfile", told=False)
        kept.storage.begin(kept.state)
        for step in (500, 1000):
            torch.save({"iter_num": step, "model": torch.zeros(4), "optimizer": {}}, kept.root / "ckpt.pt")
            kept.storage.look(1)
            kept.storage.look(1)
        assert kept.seen() == [(500, "ckpt-500.pt", "saved"), (1000, "ckpt-1000.pt", "saved")]
        assert torch.load(kept.root / "ckpt-500.pt", weights_only=True)["iter_num"] == 500

    def test_the_room_is_the_free_bytes_and_those_of_the_newest_complete_one(self, tmp_path):
        kept = Kept(tmp_path, "huggingface")
        assert kept.storage.room() is None, "without a checkpoint nothing is known of their size"
        hf(kept.root, 100)
        hf(kept.root, 200, whole=False)
        room = kept.storage.room()
        assert room is not None
        sizes = [f.stat().st_size for f in (kept.root / "checkpoint-100").iterdir()]
        assert room.needed == sum(sizes)
        assert room.free == shutil.disk_usage(kept.root).free
        assert [each.complete for each in huggingface.scan(fsspec.filesystem("file"), str(kept.root))] == [True, False]
