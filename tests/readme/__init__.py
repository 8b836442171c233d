"""README.md as a program: its commands run, its output is compared, its policies load, its tables are complete."""
