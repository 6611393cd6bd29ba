"""One way to tell people or machines a file: `address()` and `send(notice)`.

`address` is the channel's address from the environment, None where it is not set: an address never stands in a
policy or a configuration. `send` raises OSError or ValueError when the notice could not be delivered. A notice is
JSON: `text` in words, `run` the run directory, and what else is known (`state`, `incident`, `step`, `attempt`).
"""
