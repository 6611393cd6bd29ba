"""The table of rules: each has a code, a severity and a function whose docstring is its page."""

import inspect
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from orchestrator.review.lint import course_rules, job_rules, ladder_rules, limit_rules, saving_rules, weaker_rules
from orchestrator.review.lint.subject import Problem, Subject


class Rule(NamedTuple):
    """One rule of lint."""

    code: str
    severity: Literal["error", "warning"]
    find: Callable[[Subject], Iterator[Problem]]

    @property
    def title(self) -> str:
        """The page's first line."""
        return inspect.getdoc(self.find).splitlines()[0]  # type: ignore[union-attr]

    @property
    def page(self) -> str:
        """What is wrong, why it matters, what to do."""
        return inspect.getdoc(self.find).partition("\n\n")[2]  # type: ignore[union-attr]


RULES: tuple[Rule, ...] = (
    Rule("ORC101", "warning", ladder_rules.ladder_without_end),
    Rule("ORC102", "error", ladder_rules.unreachable_rung),
    Rule("ORC103", "error", ladder_rules.rollback_without_relaunch),
    Rule("ORC104", "warning", ladder_rules.relaunch_without_rollback),
    Rule("ORC105", "warning", ladder_rules.rollback_for_isolated),
    Rule("ORC106", "warning", ladder_rules.quarantine_without_relaunch),
    Rule("ORC107", "warning", ladder_rules.weaker_rung),
    Rule("ORC108", "error", ladder_rules.cut_that_is_none),
    Rule("ORC109", "warning", ladder_rules.cuts_below_floor),
    Rule("ORC110", "warning", ladder_rules.clip_of_nothing),
    Rule("ORC120", "error", saving_rules.retention_below_two),
    Rule("ORC121", "error", saving_rules.look_back_too_short),
    Rule("ORC122", "error", saving_rules.never_healthy),
    Rule("ORC123", "warning", saving_rules.confirm_longer_than_cadence),
    Rule("ORC124", "warning", saving_rules.healthy_before_confirmed),
    Rule("ORC125", "warning", saving_rules.denser_is_not),
    Rule("ORC130", "warning", limit_rules.limit_cannot_bind),
    Rule("ORC131", "error", limit_rules.limit_forbids),
    Rule("ORC140", "warning", weaker_rules.protection_off),
    Rule("ORC141", "warning", weaker_rules.nothing_for_nan),
    Rule("ORC142", "warning", weaker_rules.seen_later),
    Rule("ORC143", "warning", weaker_rules.limit_looser),
    Rule("ORC144", "warning", weaker_rules.less_proof),
    Rule("ORC145", "warning", weaker_rules.severity_lower),
    Rule("ORC150", "warning", course_rules.phase_without_grace),
    Rule("ORC151", "error", course_rules.phases_out_of_order),
    Rule("ORC152", "error", course_rules.schedule_without_course),
    Rule("ORC153", "warning", course_rules.fixed_threshold),
    Rule("ORC201", "error", job_rules.rate_cannot_change),
    Rule("ORC202", "warning", job_rules.clip_cannot_change),
    Rule("ORC203", "error", job_rules.cannot_resume),
    Rule("ORC204", "warning", job_rules.cannot_quarantine),
    Rule("ORC205", "warning", job_rules.cannot_save_now),
    Rule("ORC206", "error", job_rules.schedule_not_owned),
    Rule("ORC207", "error", job_rules.framework_deletes),
)
