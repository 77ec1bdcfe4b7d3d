"""The load generator against servers that behave, misbehave, or die.

Its answers are checked against a second count: what the server at the other end saw.
"""
