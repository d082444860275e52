"""python -m foregather: the command line."""

import sys

from foregather.cli.main import main

sys.exit(main())
