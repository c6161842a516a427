"""`python -m maxk`, for launchers such as `accelerate launch -m maxk train run.toml`."""

from maxk.cli import main

main()
