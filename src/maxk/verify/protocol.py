"""What the judge and the zygote say to each other; loaded on both sides of the jail.

Packets of one MESSAGE each. RUN carries CPU seconds and, beside it, three descriptors; EXIT answers
KILL with the exit status and the nanoseconds of CPU. The zygote's first packet is a RUN: ready.
"""

import struct

RUN, KILL, EXIT = 1, 2, 3
MESSAGE = struct.Struct("=BQqq")  # kind, job, two numbers
