"""The sections of a policy file. Each module reads the section of its name.

rules.py       the rules
modes.py       modes: off, audit, warn, enforce, enforce 10%
apps.py        applications, and how a client is recognised as one
rollout.py     modes by rule and application
exceptions.py  exceptions from rules, with an end date
schema.py      the key schema
networks.py    networks, for apps and zones
zones.py       where servers are, by their addresses
tenants.py     apps that see only their own keys
alerts.py      thresholds for incidents
tests.py       the tests of a policy
"""
