"""Sessions with attached catalogs, and the statements that run in them.

attach.py         attaches catalogs to sessions, and detaches them
statements.py     queries of catalog.sql, which need no attached catalog
sessions.py       the sessions of an application, those that Spark makes too, and their catalogs
cached_tables.py  cached rows of tables, which writes make Spark read again
path_settings.py  settings of the session for tables that are given by path
parser.py         Spark's parser, which makes commands of statements that Spark does not plan
commands.py       plans of such statements, which Spark executes
parse_errors.py   errors of such statements → what a parser may raise
"""
