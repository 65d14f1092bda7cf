"""``python -m crown``: the ``crown`` command, also where its folder is not on the PATH."""

import sys

from crown.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
