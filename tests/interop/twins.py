"""Twin tables: a script carried out twice, once all by Java and once with this package's hand for what it does.

After every step Java reads both twins and this package reads its own: all three must be the same rows.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from paimon_spark.errors import UnsupportedFeatureError
from tests.harness.rows import difference
from tests.interop import our_hand
from tests.interop.comparing import disagreement
from tests.interop.java_paimon import JavaPaimon
from tests.interop.table_script import TableScript

_OLD_FRACTION = re.compile(r"^((?:1[0-8]|19[0-6]|0)\d+-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+(Z?)$")


class Refused(Exception):  # noqa: N818 - no error: the package said that it does not do this
    """This package refuses a step; `feature` is its word for why."""

    def __init__(self, feature: str, message: str) -> None:
        super().__init__(message)
        self.feature = feature


class Twins:
    """The twins of one script, step by step."""

    def __init__(self, script: TableScript, java: JavaPaimon, root: Path) -> None:
        self.script, self.java = script, java
        self.ours, self.theirs = str(root / "ours" / script.name), str(root / "java" / script.name)
        self.problems: list[str] = []
        self.done_by_us = 0

    def run(self) -> None:
        """All steps. Raises Refused, and PaimonError where this package fails at what Java does."""
        for number, call in enumerate(self.script.calls(Path("."))):
            call.pop("path"), call.pop("group")
            if "rows" in call and self._is_orc():
                call["rows"] = _whole_old_seconds(call["rows"])
            if call["op"] == "write" and self._forgets_deletes():
                call["options"] = {"write-only": "true", **call.get("options", {})}
            [reply] = self.java.run([{**call, "path": self.theirs}])
            failed = reply.get("error")
            if failed and not call.get("mayFail"):
                if self.script.java_may_fail is not None:
                    raise Refused("java", f"{self.script.java_may_fail}: {failed}")
                self.problems.append(f"step {number} {call['op']}: Java fails: {failed}")
                return
            self._our_step(number, call, may_fail=bool(failed))
            self.compare(f"step {number} {call['op']}", call)

    def go_on_with_java(self) -> None:
        """Java writes the last rows again to our twin and compacts it; both readers agree on what comes of it."""
        last = [c for c in self.script.calls(Path(".")) if c["op"] == "write" and our_hand.can_do(c)][-1:]
        for call in last:
            again = {k: v for k, v in call.items() if k not in ("path", "group", "overwrite", "options")}
            if self._is_orc():
                again["rows"] = _whole_old_seconds(again["rows"])
            for step in (again, {"op": "compact", "full": True, "buckets": 1, **_branch(call)}, again):
                theirs, ours = self.java.run([{**step, "path": path} for path in (self.theirs, self.ours)])
                if "error" in theirs:
                    return  # what Java cannot do to its own table it need not do to ours
                if "error" in ours:
                    self.problems.append(f"Java cannot {step['op']} after us: {ours['error']}")
                    return
                self.compare(f"after Java's {step['op']}", call)
            our_hand.write(self._with_variants({**again, "options": {}}), self.ours)
            self.java.call(**{**again, "path": self.theirs})
            self.compare("after our last write", call)

    def compare(self, about: str, call: dict[str, Any]) -> None:
        """Java's read of both twins, and ours of our own."""
        read = {"op": "read", **_branch(call)}
        want, got = self.java.run([{**read, "path": self.theirs}, {**read, "path": self.ours}])
        if "error" in want:
            return
        if "error" in got:
            self.problems.append(f"{about}: Java cannot read ours: {got['error']}")
            return
        found = difference(want["rows"], got["rows"], self.script.unordered)
        if found is not None:
            self.problems.append(f"{about}: Java reads from ours: {found}")
        options = {"branch": call["branch"]} if call.get("branch") else {}
        found = disagreement(
            self.ours, got, options=options, unordered=self.script.unordered, may_refuse=self.script.may_refuse
        )
        if found is not None:
            self.problems.append(f"{about}: we read from ours: {found}")

    def _is_orc(self) -> bool:
        """Whether some files may be ORC, which this package refuses to write with fractions of seconds before 1970."""
        return "orc" in str(self.script.calls(Path(".")))

    def _forgets_deletes(self) -> bool:
        """Whether what a row becomes depends on whether rows before it were compacted meanwhile.

        A delete that was compacted away no longer stands against older rows; merge engines that take rows of one key
        in the order of a sequence field take them in the order of compactions, too.
        """
        options = self.script.calls(Path("."))[0]["tableOptions"]
        return "sequence.field" in options or any("remove-record-on" in key for key in options)

    def _is_pieced_together(self) -> bool:
        """Whether a row may lie in several files, which this package refuses to compact."""
        return "data-evolution.enabled" in self.script.calls(Path("."))[0]["tableOptions"]

    def _with_variants(self, call: dict[str, Any]) -> dict[str, Any]:
        """The call with variants as bytes: scripts name them by their JSON text."""
        fields = self.script.calls(Path("."))[0]["fields"]
        places = [i for i, (_, type_, *_) in enumerate(fields) if type_ == "VARIANT"]
        if call["op"] != "write" or not places:
            return call
        rows = [list(row) for row in call["rows"]]
        for row in rows:
            for i in places:
                row[i] = None if row[i] is None else self.java.call("variant", text=row[i])
        return {**call, "rows": rows}

    def _our_step(self, number: int, call: dict[str, Any], *, may_fail: bool) -> None:
        if not our_hand.can_do(call) or (call["op"] == "compact" and self._is_pieced_together()):
            [reply] = self.java.run([{**call, "path": self.ours}])
            if "error" in reply and not may_fail:
                self.problems.append(f"step {number} {call['op']}: Java fails on ours: {reply['error']}")
            return
        try:
            our_hand.do(self._with_variants(call), self.ours)
            self.done_by_us += 1
        except UnsupportedFeatureError as error:
            raise Refused(str(error.context.get("feature", "")), str(error)) from error
        except Exception:
            if not may_fail:
                raise


def _branch(call: dict[str, Any]) -> dict[str, Any]:
    return {"branch": call["branch"]} if call.get("branch") else {}


def _whole_old_seconds(value: Any) -> Any:
    """Rows with timestamps before 1970 cut to seconds."""
    if isinstance(value, str):
        return _OLD_FRACTION.sub(lambda m: f"{m[1]}.000000000{m[2]}", value)
    if isinstance(value, list):
        return [_whole_old_seconds(v) for v in value]
    if isinstance(value, dict):
        return {k: _whole_old_seconds(v) for k, v in value.items()}
    return value
