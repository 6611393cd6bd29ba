"""One way to start a job a file.

A launcher is a module with `command(words, options) -> list[str]`: the words that the keeper starts on the
supervisor's own host. `options` is the configuration's `launcher` section, and of the attempt: `attempt` (its
number) and `exclude` (hosts to leave out). What the launcher starts must end, with everything of it on every host,
when that process ends.

Where a scheduler owns the job, `place() -> tuple[tuple[str, str], ...]` tells what it says of the allocation, and
`requeue() -> str` asks it to start the whole job once more. Where the same command runs on every host,
`follows(options) -> int` is the number of this one, 0 on the host that supervises.
"""
