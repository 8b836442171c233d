"""Traffic statistics: windows over time, merged over workers.

hot_keys.py        the busiest keys of a window
interval_stats.py  what one route did in an interval
key_figures.py     what is added up about one key, and about one pattern of keys
heaviest.py        figures by name, the lightest names folded into one sum
time_series.py     intervals kept: seconds for a minute, tens of seconds for ten minutes, minutes for an hour
slot_counts.py     uses of hash slots, by slot
merge.py           merges top lists with their error bounds
trace.py           one traced command
latency.py         latency histograms
tag_spread.py      hash tags that put too many keys into one slot
shapes.py          the shape of a key: the key without its ids
key_text.py        keys as printable text
redaction.py       keys as the policy lets them be shown
json_views.py      the JSON of the admin port, the page and ``keyrail top``
alerts.py          thresholds for incidents
hotspots.py        hot keys, hot slots and large values of the last seconds
cache_figures.py   what a local cache has done
incidents.py       when an incident begins and ends
key_past.py        how busy a key was before, and since when it has been as busy as now
incident_lines.py  the text of an incident
advice.py          the advice of an incident: a cap for a hot key, remedies for large values
figures.py         figures in the form of incidents
effects.py         what a limit on one key, or on clients, would have refused
client_ids.py      the short names of clients, for remedies
client_figures.py  connections of clients that have ended, and the time of their commands at Redis
misuse.py          clients that loop over KEYS, reconnect all the time, or take most of the time
client_lines.py    incidents about clients in words
labels.py          how evidence and figures name clients and moments
command_form.py    what of a command may be kept: its exemplar and its form, without values
exemplars.py       commands made again from their exemplars
evidence_rows.py   verdicts, commands and forms of commands, crossed with who sent them: what is kept
rule_totals.py     how many commands each rule applied to
violations.py      one violation as a line of JSON
"""
