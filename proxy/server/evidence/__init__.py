"""The evidence that is kept, in a file of the state folder or in memory, and what it says of policies.

model.py           what is added and what is read
bounds.py          how much is kept: texts are cut, and the lightest rows of an hour folded
memory_store.py    in memory, without a state folder
schema.py          the tables of the file, and how it is opened, found damaged and set aside
statements.py      the statements that add, fold and drop rows
subjects.py        the ids of names in the file
store.py           the file: SQLite, one transaction for each batch
group_evidence.py  what all workers have found and what waits to be kept
keeper.py          writes what is new every few seconds, in a thread
json_form.py       evidence as JSON, for /evidence
policy_facts.py    what a report has to know of a policy
judging.py         what one rule does with a recorded command
diff.py            what another policy would change
sample_keys.py     keys that have a shape, in place of hidden ones
schema_share.py    how many commands are on keys of no entry of a schema
report.py          what a policy would break, for whom, and whom to ask
learn/             a policy that describes it, and refuses nothing of it
ready.py           whether a rule can be enforced
"""
