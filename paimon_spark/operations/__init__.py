"""Operations on tables, each declared once: name, arguments, help, the API call it makes, and how its result is shown.

`CALL sys.<procedure>(…)`, the command line, its help and shell completion, and the reference pages come from here.
Declarations import nothing heavy, so that help is printed at once; what an operation needs is imported when it runs.
"""
