"""Lint that thinks: what is wrong with a policy although its every value may be written so."""
