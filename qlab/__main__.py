"""`python -m qlab` is the command `qlab`."""

from qlab.cli import main

main()
