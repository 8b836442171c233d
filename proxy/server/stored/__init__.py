"""What is stored in Redis already, judged by a policy.

judging.py  what the rules of a policy find wrong with one key, and whose key it is
"""
