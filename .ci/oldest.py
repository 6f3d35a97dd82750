"""Print the oldest versions of the dependencies that pyproject.toml admits, as pip's constraints.

With ``--python``, the oldest Python instead. Every requirement has to be of the form name>=version.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
if "--python" in sys.argv:
    print(project["requires-python"].removeprefix(">="))
    sys.exit()
extras = project["optional-dependencies"]
for requirement in [*project["dependencies"], *extras["tests"]]:
    name, version = re.fullmatch(r"([\w.-]+)>=([\w.]+)", requirement).groups()
    print(f"{name}=={version}")
