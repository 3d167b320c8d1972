"""Write docs/reference anew from the code.

python -m tools.docs            # write
python -m tools.docs --check    # say which pages are not what the code says; 1 if any is not
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.reference.command_line import command_line_page
from tools.reference.errors import errors_page
from tools.reference.options import options_page
from tools.reference.procedures import procedures_page
from tools.reference.python_api import python_api_page
from tools.reference.system_tables import system_tables_page

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "command-line.md": command_line_page,
    "errors.md": errors_page,
    "options.md": options_page,
    "procedures.md": procedures_page,
    "python-api.md": python_api_page,
    "system-tables.md": system_tables_page,
}


def stale() -> list[str]:
    """Pages that are not what the code says, missing ones and ones that nothing makes among them."""
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    made = {name: make() for name, make in PAGES.items()}
    return sorted(name for name in {*there, *made} if there.get(name) != made.get(name))


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    if parser.parse_args().check:
        found = stale()
        sys.stderr.write("".join(f"{name} is not what the code says: run `make docs`\n" for name in found))
        return 1 if found else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
