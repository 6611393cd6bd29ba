"""Policy cases: input series and what a policy must decide on them, run through the very core of a live run."""
