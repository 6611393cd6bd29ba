"""What pytest must not import on its search for doctests: jobs of the end-to-end runs, which run when imported."""

collect_ignore_glob = ["e2e/trainers_jobs/*.py"]
