"""Run the benchmarks: `python -m tools.bench.run [--runs 5] [--scale 1] [word…]` writes `.bench/cases.json`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.bench import peers
from tools.bench.cases import CASES, Case, Contender

OUTPUT = peers.HOME / "cases.json"
SLOW_S = 30.0
"""Seconds of an answer from which on a contender is asked once only."""


def measure(
    case: Case, workers: dict[tuple[str, int], peers.Worker], data: Path, runs: int
) -> dict[str, list[dict[str, Any]]]:
    """Answers of every contender, interleaved, after one warm-up each; the order turns round every run.

    One that takes more than `SLOW_S` gives one answer: more would take long and not change the picture.
    """
    contenders = [case.ours, *(c for c, _ in case.others)]
    answers: dict[str, list[dict[str, Any]]] = {c.label: [] for c in contenders}
    for run in range(runs + 1):
        for c in contenders if run % 2 else reversed(contenders):
            if any(a.get("seconds", 0) > SLOW_S for a in answers[c.label]):
                continue
            answer = ask(c, workers, data)
            if run or answer.get("seconds", 0) > SLOW_S:
                answers[c.label].append(answer)
    return answers


def ask(c: Contender, workers: dict[tuple[str, int], peers.Worker], data: Path) -> dict[str, Any]:
    """The answer of a contender; of several processes at once the longest time, and what they found together."""
    request = {key: value for key, value in c.request.items() if key != "table"}
    request["path"] = str(data / c.request["table"])
    processes = [(c.worker, number) for number in range(c.processes)]
    for process in processes:
        if process not in workers:
            try:
                workers[process] = peers.start(c.worker)
            except RuntimeError as e:
                return {"error": str(e)}
    if c.processes == 1:
        return workers[processes[0]].ask(request)
    for process in processes:
        workers[process].send({**request, "part": [process[1], c.processes]})
    answers = [workers[process].answer() for process in processes]
    for answer in answers:
        if "error" in answer:
            return answer
    return {
        "seconds": max(a["seconds"] for a in answers),
        "rows": sum(a["rows"] for a in answers),
        "checksum": sum(a["checksum"] for a in answers) % 2**64,
    }


def report(case: Case, answers: dict[str, list[dict[str, Any]]]) -> tuple[list[str], bool]:
    """Markdown rows of a case, and whether every bar is met and all answers agree."""
    errors = {label: a["error"] for label, all_ in answers.items() for a in all_ if "error" in a}
    if case.ours.label in errors:
        return [f"| {case.name} | | | **failed**: {errors[case.ours.label]} | |"], False
    mine, rows, good = statistics.median(a["seconds"] for a in answers[case.ours.label]), list[str](), True
    if case.rate is not None:
        reached = answers[case.ours.label][0]["rows"] / mine
        good = reached >= case.rate
        text = f"{reached / 1e6:.0f}M rows/s (bar {case.rate / 1e6:.0f}M)"
        rows.append(f"| {case.name} | {mine:.3f} s | | {text} | {'met' if good else 'MISSED'} |")
    for other, bar in case.others:
        if other.label in errors:
            rows.append(f"| {case.name} | {mine:.3f} s | {other.label} not measured | {errors[other.label][:120]} | |")
            continue
        theirs = statistics.median(a["seconds"] for a in answers[other.label])
        allowed = case.extra_ms if case.extra_ms is not None and bar is None else None
        text, met = verdict(mine, theirs, bar, allowed)
        same = not case.agree or agreed(answers[case.ours.label][0], answers[other.label][0])
        good &= met and same
        mark = "" if bar is None and allowed is None else "met" if met else "MISSED"
        rows.append(
            f"| {case.name} | {mine:.3f} s | {other.label} {theirs:.3f} s | {text} | "
            f"{'' if same else 'ANSWERS DIFFER '}{mark} |"
        )
    return rows, good


def figures(case: Case, answers: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The medians of a case, for the page of figures; those that could not be measured are left out."""
    medians = {
        label: statistics.median(a["seconds"] for a in all_)
        for label, all_ in answers.items()
        if all_ and all("seconds" in a for a in all_)
    }
    return {"name": case.name, "ours": case.ours.label, "seconds": medians}


def keep(title: str, measured: dict[str, Any]) -> None:
    """Put the figures of a case in `cases.json`, in place of those that are there; in the order of `CASES`."""
    found = {c["name"]: c for c in json.loads(OUTPUT.read_text())["cases"]} if OUTPUT.exists() else {}
    found[measured["name"]] = measured
    ordered = [found[case.name] for case in CASES if case.name in found]
    OUTPUT.write_text(json.dumps({"title": title, "cases": ordered}, indent=1))


def verdict(mine: float, theirs: float, bar: float | None, extra_ms: float | None) -> tuple[str, bool]:
    if extra_ms is not None:
        extra = (mine - theirs) * 1000
        return f"+{extra:.0f} ms (bar +{extra_ms:.0f} ms)", extra <= extra_ms
    ratio = mine / theirs
    shown = f"{ratio:.2f}" if ratio >= 0.1 else f"1/{1 / ratio:.0f}"
    if bar is None:
        return f"{shown}x", True
    return f"{shown}x (bar {f'{bar:.2f}' if bar >= 0.1 else f'1/{1 / bar:.0f}'}x)", ratio <= bar


def agreed(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return (a["rows"], a["checksum"]) == (b["rows"], b["checksum"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument(
        "--without", nargs="+", default=(), metavar="PEER", help="peers to leave out, such as pypaimon, which is slow"
    )
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    data = peers.build_datasets(arguments.scale)
    workers: dict[tuple[str, int], peers.Worker] = {}
    title = (
        f"Medians of {arguments.runs} runs, scale {arguments.scale:g}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}"
    )
    lines = [title, "", "| case | ours | peer | ratio | bar |", "|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    all_good = True
    for case in CASES:
        if arguments.words and not any(w in case.name for w in arguments.words):
            continue
        others = tuple(o for o in case.others if o[0].worker not in arguments.without)
        case = replace(case, others=others)
        answers = measure(case, workers, data, arguments.runs)
        keep(title, figures(case, answers))
        rows, good = report(case, answers)
        all_good &= good
        print("\n".join(rows), flush=True)
        lines += rows
    for worker in workers.values():
        worker.close()
    peers.HOME.joinpath("results.md").write_text("\n".join(lines) + "\n")
    sys.exit(0 if all_good else 1)


if __name__ == "__main__":
    main()
