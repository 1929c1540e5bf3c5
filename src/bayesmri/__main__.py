"""python -m bayesmri: the same as the command `bayesmri`."""

import sys

from bayesmri.cli import main

if __name__ == "__main__":
    sys.exit(main())
