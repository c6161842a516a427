"""What the judge, the zygote and its children say to each other; loaded on both sides of the jail.

Judge and zygote: packets of one MESSAGE each. RUN carries CPU seconds and, beside it, four
descriptors; EXIT answers KILL with the exit status and the nanoseconds of CPU. The zygote's first
packet is a RUN: ready.

Judge and child: frames of a HEADER, which is the length of what follows, a number of NUMBER_BYTES,
and the text. The number of a request cannot be guessed, and its reply repeats it. The child's first
frame has the number 0 and says that it is locked in.
"""

import struct

RUN, KILL, EXIT = 1, 2, 3
MESSAGE = struct.Struct("=BQqq")  # kind, job, two numbers
HEADER = struct.Struct(">I")
NUMBER_BYTES = 8
