"""What a change of a policy means: the clauses that changed, and the decisions that change on recordings."""
