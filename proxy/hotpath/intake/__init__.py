"""One client: its bytes in, runs of commands out.

intake.py          client bytes in, runs of commands out
runs.py            neighbouring commands of one client that leave together
repeated_reads.py  reads of a hot key that stand one behind the other
run_ends.py        why a run ends
split_runs.py      what runs know of their client, and commands with keys of several slots
open_run.py        the run that is being gathered
intake_handler.py  what decides about the commands at which the intake stops
command_sender.py  one client towards Redis: the only place through which its bytes leave
"""
