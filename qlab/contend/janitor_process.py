"""Remove folders once whoever started this process is gone, however it ended.

Run by its path and never imported, so that it needs nothing but the standard library:

    python -I -S janitor_process.py

Each line of standard input names a folder, as hexadecimal digits of its path; where the input ends, all are removed.
"""

import os
import shutil
import sys
from threading import Event

_TRIES, _BETWEEN = 50, 0.1  # seconds: workers that are about to end may still make a file


def main() -> None:
    """Hear of folders, and remove them at the end."""
    folders = [os.fsdecode(bytes.fromhex(line.strip())) for line in sys.stdin]
    for _ in range(_TRIES):
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        if not any(map(os.path.lexists, folders)):
            return
        Event().wait(_BETWEEN)


if __name__ == "__main__":
    main()
