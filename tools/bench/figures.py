"""The page of figures, `docs/figures.md`, and its charts, of what `run.py` and `growth.py` measured last.

`python -m tools.bench.figures` reads `.bench/cases.json` and `.bench/growth.json`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tools.bench import growth, peers, run
from tools.bench.cases import CASES, FLOORS

DOCS = peers.HERE.parent.parent / "docs"
PAGE = DOCS / "figures.md"
CHARTS = DOCS / "figures"
GROUPS = {
    "rows": "Rows",
    "files": "Files",
    "files: versions": "Files: commits, tags and branches",
    "snapshots": "Snapshots",
    "tags": "Tags",
    "branches": "Branches",
    "runs": "Sorted runs in a bucket",
    "columns": "Columns",
}
"""Charts of growth, in order, with their headings."""
BEHIND = 1.05
"""The ratio from which on others are called faster."""
NOTES = {
    "rows": "The time of a read is linear in the rows, and its memory does not grow.",
    "files": "Planning is linear in the files that are kept. Other partitions cost a line of the manifest list.",
    "files: versions": "What a commit, a tag, a branch and a merge take does not depend on the number of data files.",
    "snapshots": "A commit, a tag and a branch do not depend on the number of snapshots. A merge does: it writes the "
    "history of main anew, a small file for each snapshot that has not expired.",
    "tags": "Expiry reads the manifest lists of tags that are near the snapshots that expire.",
    "branches": "Expiry looks at every branch, about 2 ms for each.",
    "runs": "A million rows in all: more sorted runs are more files to merge at a time.",
    "columns": "A read takes what its columns take; the definition of the others is read along.",
}


INTRODUCTION = (
    "What reads, writes, plans and maintenance take beside other implementations, and how costs grow with a table. "
    "`make bench` measures and writes this page; the charts are drawn from the same figures."
)


RATIOS = (
    "Ratios are ours to theirs, of the same files and the same rows in turns; smaller is better. A floor does only a "
    f"part of the work. A contender that takes more than {run.SLOW_S:g} s is asked once."
)


def cases() -> tuple[str, list[dict[str, Any]]]:
    found = json.loads(run.OUTPUT.read_text())
    return found["title"], [c for c in found["cases"] if len(c["seconds"]) > 1]


def ours_first(case: dict[str, Any]) -> dict[str, float]:
    seconds: dict[str, float] = case["seconds"]
    return {case["ours"]: seconds[case["ours"]], **seconds}


def behind(found: list[dict[str, Any]]) -> list[str]:
    """What stands in the way where others are faster."""
    notes, slower = {c.name: c.note for c in CASES}, dict[str, list[str]]()
    for case in found:
        (_, mine), *others = ours_first(case).items()
        note = notes.get(case["name"])
        if note and any(mine / seconds > BEHIND for label, seconds in others if label not in FLOORS):
            slower.setdefault(note, []).append(case["name"])
    return [f"- {'; '.join(names)}: {note}" for note, names in slower.items()]


def table_of_cases(found: list[dict[str, Any]]) -> list[str]:
    lines = ["| case | paimon_spark | other | ratio |", "|---|---|---|---|"]
    for case in found:
        (_, mine), *others = ours_first(case).items()
        for label, seconds in others:
            ratio = mine / seconds
            shown = f"{ratio:.2f}" if ratio >= 0.1 else f"1/{1 / ratio:.0f}"
            mark = " (floor)" if label in FLOORS else " **behind**" if ratio > BEHIND else ""
            lines.append(f"| {case['name']} | {mine:.3f} s | {label}: {seconds:.3f} s | {shown}{mark} |")
    return lines


def series() -> dict[str, dict[str, Any]]:
    """The lines of each chart of growth."""
    charts: dict[str, dict[str, Any]] = {}
    for point in json.loads(growth.OUTPUT.read_text()):
        chart = charts.setdefault(point["group"], {"axis": point["axis"], "lines": {}})
        line = chart["lines"].setdefault(point["name"], {"sizes": [], "seconds": []})
        line["sizes"].append(point["size"])
        line["seconds"].append(point["seconds"])
    return charts


def section_of(group: str, chart: dict[str, Any]) -> list[str]:
    sizes = next(iter(chart["lines"].values()))["sizes"]
    out = [f"### {GROUPS[group]}", "", NOTES[group], "", f"![{GROUPS[group]}](figures/{file_of(group)}.svg)", ""]
    out.append(f"| {chart['axis']} | " + " | ".join(f"{s:,}" for s in sizes) + " |")
    out.append("|---" * (len(sizes) + 1) + "|")
    for name, line in chart["lines"].items():
        out.append(f"| {name} | " + " | ".join(duration(s) for s in line["seconds"]) + " |")
    return [*out, ""]


def duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def file_of(group: str) -> str:
    return "growth-" + "-".join(group.replace(":", "").split())


def draw(charts: list[dict[str, Any]]) -> None:
    python = peers.environment("charts", peers.pins()["MATPLOTLIB"])
    script = Path(peers.HERE) / "charts.py"
    subprocess.run([python, str(script), str(CHARTS)], input=json.dumps(charts), text=True, check=True)


def main() -> None:
    title, found = cases()
    grown = series()
    comparisons = [{"name": c["name"], "seconds": ours_first(c)} for c in found]
    charts = [{"kind": "bars", "file": "beside-others", "bars": comparisons}]
    for group, chart in grown.items():
        lines = [{"name": name, **line} for name, line in chart["lines"].items()]
        charts.append({"kind": "lines", "file": file_of(group), "axis": chart["axis"], "lines": lines})
    draw(charts)
    out = [
        "# Figures",
        "",
        INTRODUCTION,
        "",
        f"{title}. {RATIOS}",
        "",
        "## Beside other implementations",
        "",
        "![Beside other implementations](figures/beside-others.svg)",
        "",
        *table_of_cases(found),
        "",
        "Where others are faster:",
        "",
        *behind(found),
        "",
        "## How costs grow",
        "",
        "One process on local disk, without what it has cached of the table. Axes of the charts are logarithmic.",
        "",
    ]
    for group in GROUPS:
        if group in grown:
            out += section_of(group, grown[group])
    PAGE.write_text("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    main()
