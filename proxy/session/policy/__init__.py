"""What the policy decides about a client's commands, and what it asks Redis for that.

judging.py         what the policy decides about a client's commands
procedure.py       rules that ask Redis before they decide
node_questions.py  the questions of rules with a cluster upstream: which node gets each
scripts.py         EVAL, FCALL and their relatives: what the rules need to know about the script
tenancy.py         a tenant's prefix in what is sent and asked for its clients
paying.py          byte limits for a streamed request
"""
