"""Breaks of the program, each with a test of ``.ci/run`` that finds it.

So it is known what the suite catches: where a test is changed or deleted, each break must still be found.
"""
