"""The evidence that is kept, in a file of the state folder or in memory, and read again.

model.py         what is added and what is read
json_form.py     the same as JSON, for /evidence
"""
