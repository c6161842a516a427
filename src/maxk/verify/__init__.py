"""Untrusted programs in, verdicts out.

So far the parts that need no sandbox: the program in a completion, values on the wire, comparison.
"""
