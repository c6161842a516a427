"""Untrusted programs in, verdicts out.

So far its parts: the program in a completion, values on the wire, comparison, the kernel's layers.
"""
