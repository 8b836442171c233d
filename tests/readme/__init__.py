"""README.md and docs/ as programs: their commands run, their output is compared, their policies load, their links work,
their tables are complete."""
