"""The plan of a run as a picture, drawn by matplotlib where that is installed."""

from pathlib import Path
from typing import Any

from orchestrator.errors import ConfigError


def draw(plan: dict[str, Any], path: Path) -> None:
    """Write the rate, the clip, phases and checkpoints as PNG; ConfigError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("--png needs the package `matplotlib`: pip install matplotlib") from error
    figure = Figure(figsize=(10, 5), layout="constrained")
    FigureCanvasAgg(figure)
    rate, clip = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [3, 1]})
    rate.plot(*zip(*plan["lr"], strict=True), color="tab:blue")
    rate.set_ylabel("learning rate" if plan["lr_owner"] == "policy" else "share of the trainer's rate")
    rate.set_ylim(bottom=0)
    known = [(step, value) for step, value in plan["clip"] if value is not None]
    if known:
        clip.plot(*zip(*known, strict=True), color="tab:orange")
    clip.set(ylabel="clip", xlabel="step", xlim=(1, plan["steps"]))
    for phase in plan["phases"]:
        rate.axvline(phase["from"], color="grey", linestyle=":")
        rate.text(phase["from"], 0, f" {phase['name']}", va="bottom", color="grey")
    for step in (plan["checkpoints"]["steps"] or [])[:500]:
        rate.axvline(step, ymax=0.02, color="tab:green", linewidth=0.8)
    try:
        figure.savefig(path, format="png", dpi=120)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
