"""The errors a person may meet, one small tree; the command line turns each into its exit code."""


class OrchestrateError(Exception):
    """Anything wrong that a person can mend; its text says what, where and how."""

    exit_code = 2


class ConfigError(OrchestrateError):
    """The configuration or the command cannot be used."""


class PolicyError(OrchestrateError):
    """A policy text is wrong; the text carries one `file:line:column: CODE message` a line."""


class PluginError(OrchestrateError):
    """A name in the policy or configuration has no plug-in."""


class RunDirError(OrchestrateError):
    """The run directory or its journal is damaged, or cannot be written."""

    exit_code = 4


class RunBusyError(OrchestrateError):
    """Another supervisor is acting on this run."""
