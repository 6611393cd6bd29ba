"""What pytest must not import on its search for doctests: jobs that the end-to-end runs start, which run when imported."""

collect_ignore_glob = ["e2e/trainers_jobs/*.py"]
