"""A Slurm of two nodes on this host, in a folder of its own: munged, slurmctld and two slurmd, ended with the test."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue", "scancel")
NODES = ("n1", "n2")
CONF = """\
ClusterName=two
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={dir}/munge.sock
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool.%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=5
SlurmdTimeout=10
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=1 RealMemory=500 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=1 RealMemory=500 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why no such cluster can run here; "" when it can."""
    absent = [name for name in PROGRAMS if _program(name) is None]
    if absent:
        return f"no {', '.join(absent)} here (Debian: apt-get install slurm-wlm munge)"
    return "" if os.getuid() == 0 else "starting slurmd needs root"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Cluster:
    """Started by entering it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Cluster":
        self.folder.chmod(0o755)
        (self.folder / "munge.key").write_bytes(os.urandom(64))
        (self.folder / "munge.key").chmod(0o400)
        port, first, second = _free_ports(3)
        text = CONF.format(host=socket.gethostname(), dir=self.folder, port=port, first=first, second=second)
        self.conf.write_text(text)
        (self.folder / "state").mkdir()
        self._munge()
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        for node in NODES:
            self.start_node(node)
        self.wait_for(lambda: self.said("sinfo", "-h", "-o", "%T %D").split() == ["idle", "2"])
        return self

    def _munge(self) -> None:
        names = {"socket": "munge.sock", "key-file": "munge.key", "pid-file": "munge.pid", "log-file": "munge.log"}
        words = [f"--{option}={self.folder / name}" for option, name in names.items()]
        self._start("munged", "munged", "--foreground", "--force", f"--seed-file={self.folder / 'munge.seed'}", *words)
        self.wait_for((self.folder / "munge.sock").exists)

    def _start(self, key: str, program: str, *words: str) -> None:
        with open(self.folder / f"{key}.out", "ab") as out:
            daemon = subprocess.Popen(
                [str(_program(program)), *words], stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, "SLURM_CONF": str(self.conf)},
            )  # fmt: skip
        self._daemons[key] = daemon

    def start_node(self, node: str) -> None:
        """One slurmd."""
        self._start(node, "slurmd", "-D", "-N", node, "-f", str(self.conf))

    def kill_node(self, node: str) -> None:
        """The node is gone at once: its slurmd, every step on it, and their tasks."""
        daemon = self._daemons.pop(node)
        daemon.kill()
        daemon.wait()
        for task in _tasks(self.folder, node):
            with contextlib.suppress(psutil.Error):
                for process in (*(p for p in task.parents() if p.name().startswith("slurmstepd")), task):
                    process.kill()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(AssertionError):
            self.said("scancel", "--user=root", "--full")
            self.wait_for(lambda: not self.said("squeue", "-h"), 30)
        for daemon in reversed(self._daemons.values()):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def said(self, *words: str) -> str:
        """The output of a client command."""
        told = {**os.environ, "SLURM_CONF": str(self.conf)}
        done = subprocess.run(words, env=told, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def job(self, number: str) -> dict[str, str]:
        """What Slurm knows of a job."""
        words = self.said("scontrol", "show", "job", number).split()
        return dict(word.partition("=")[::2] for word in words)

    @staticmethod
    def wait_for(condition, within: float = 60.0) -> None:
        """Until a condition holds."""
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, "the cluster did not come to it"
            time.sleep(0.1)


def _tasks(folder: Path, node: str) -> list[psutil.Process]:
    """The processes of jobs of this cluster, on one node."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            told = process.environ()
            if told.get("SLURM_CONF") == str(folder / "slurm.conf") and told.get("SLURMD_NODENAME") == node:
                found.append(process)
    return found


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_ones:
        probes = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
