"""A stranger's applications go behind a policy: what is told beforehand is what happens."""
