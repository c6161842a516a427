"""What only processes with verl can load is not looked at for doctests."""

collect_ignore = ["cpu.py", "train.py"]
