"""``python -m popdist.poprun``."""

from popdist.poprun.main import main

main()
