"""Write a Markdown file with absolute links, for index pages outside of the repository.

    python .ci/absolute_links.py README.md https://github.com/OWNER/skcrbm [--branch v0.1.0]

Links to pages become links into the repository, and pictures become links to raw files. Links
within the page and absolute links stay. Exits with 1 if a link leads to a file that does not exist.
"""

import argparse
import re
import sys
from pathlib import Path

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"^(```).*?^\1$", re.DOTALL | re.MULTILINE)


def absolute(text, address, branch, root):
    """Return the text with absolute links, and the targets that do not exist under `root`."""
    missing = []

    def link(match):
        target = match["target"]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        if not (root / target.partition("#")[0]).exists():
            missing.append(target)
        kind = "raw" if match["image"] else "blob"
        url = f"{address.rstrip('/')}/{kind}/{branch}/{target}"
        return f"{match['image']}[{match['text']}]({url})"

    parts, start = [], 0
    for block in CODE.finditer(text):
        parts += [LINK.sub(link, text[start : block.start()]), block[0]]
        start = block.end()
    parts.append(LINK.sub(link, text[start:]))
    return "".join(parts), missing


def main():
    """Rewrite the file in place."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("address")
    parser.add_argument("--branch", default="main")
    options = parser.parse_args()
    text = options.file.read_text(encoding="utf-8")
    text, missing = absolute(text, options.address, options.branch, options.file.resolve().parent)
    if missing:
        sys.exit(f"{options.file} links to files that do not exist: {', '.join(missing)}")
    options.file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
