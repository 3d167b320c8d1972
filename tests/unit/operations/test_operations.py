"""Operations can be reached, and none hides another."""

from __future__ import annotations

import pytest

from paimon_spark.operations import OPERATIONS, PROCEDURES, REFUSED_ACTIONS
from paimon_spark.operations.operation import Argument, Operation, Style, Subject, Type


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.command or o.procedure)
def test_every_operation_is_a_procedure_or_a_command(operation: Operation) -> None:
    assert operation.procedure or operation.command
    assert not operation.procedure or operation in PROCEDURES[operation.procedure]
    styles = {a.style for a in operation.arguments}
    assert operation.procedure or Style.CALL not in styles
    assert operation.command or Style.COMMAND not in styles


def test_no_two_operations_have_the_same_name() -> None:
    procedures = [o.procedure for o in OPERATIONS if o.procedure]
    commands = [o.command for o in OPERATIONS if o.command]
    assert len(procedures) == len(set(procedures))
    assert len(commands) == len(set(commands))
    assert not {*commands, *(a for o in OPERATIONS if o.command for a in o.aliases)} & {*REFUSED_ACTIONS}


def test_the_name_of_the_procedure_is_another_name_of_the_command() -> None:
    def made(procedure: str, command: str) -> tuple[str, ...]:
        operation = Operation("x", lambda a: None, procedure=procedure, command=command, actions=("other",))
        return operation.aliases

    assert made("create_tag", "tag create") == ("create-tag", "other")
    assert made("compact", "compact") == ("other",)
    assert made("", "tag list") == ("other",)


def test_arguments_that_are_not_given_have_their_defaults() -> None:
    arguments = (
        Argument("a", "a", default=1),
        Argument("b", "b", repeated=True),
        Argument("c", "c", Type.BOOLEAN, default=True, style=Style.CALL),
    )
    operation = Operation("x", lambda a: None, arguments, subject=Subject.NOTHING, procedure="p", command="c")
    assert {name: operation.defaults[name] for name in "abc"} == {"a": 1, "b": [], "c": True}
    assert operation.signature("p") == "sys.p([a STRING], [b STRING], [c BOOLEAN])"
