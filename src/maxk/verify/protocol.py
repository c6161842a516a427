"""What the judge and the zygote say to each other; loaded on both sides of the jail.

Packets of one MESSAGE each. RUN carries LIMITS and three descriptors besides.
"""

import struct

RUN, KILL, CPU, EXIT = 1, 2, 3, 4
MESSAGE = struct.Struct("=BQqq")  # kind, job, two numbers
LIMITS = struct.Struct("=QQQ")  # CPU seconds in all, bytes of memory, bytes of output
