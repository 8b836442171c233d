"""The evidence that is kept, in a file of the state folder or in memory, and what it says of policies.

model.py         what is added and what is read
json_form.py     the same as JSON, for /evidence
policy_facts.py  what a report has to know of a policy
report.py        what a policy would break, for whom, and whom to ask
"""
