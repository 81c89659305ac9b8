"""``python -m popart``: what ``popart-info`` prints; with a command, ``popart COMMAND``."""

import sys

from popart.tools import front, info

if sys.argv[1:2] and not sys.argv[1].startswith("-"):
    front.main()
info.main()
