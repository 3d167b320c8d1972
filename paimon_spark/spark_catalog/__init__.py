"""Attached catalogs: Python objects with the Java interfaces that Spark plans with.

Read: SQL or DataFrame → Spark's analyzer → CatalogProxy → TableProxy → ScanBuilderProxy (columns, conditions) →
TableScanProxy → partitions for Spark's own readers, or for those of the data source (spark).
Write: DataFrame → WriteBuilderProxy → Table.write. Statements that Spark does not plan → ParserProxy → command → `sql`.

attach.py           attaches catalogs to sessions, and detaches them
sessions.py         the sessions of an application, those that Spark makes too, and their catalogs
catalog.py          databases, tables and procedures by name
definitions.py      CREATE and ALTER TABLE in Spark's objects → definitions and changes
parser.py           Spark's parser, which makes commands of statements that Spark does not plan
commands.py         plans of such statements, which Spark executes
parse_errors.py     errors of such statements → what a parser may raise
procedures.py       CALL sys.…
table_functions.py  paimon_incremental_query and its kin
table.py            a table, branch or system table: columns, capabilities, reads, writes
write.py            writes of DataFrames and streams, CREATE and REPLACE TABLE AS SELECT
scan_builder.py     one read: columns, conditions, LIMIT and count(*) of a query
scan.py             a planned read: partitions, readers
statistics.py       estimates of a read for the optimizer
write_sources.py    what written rows are made of, for lineage
readable_files.py   which files Spark's own readers can read as they lie
footers.py          what Parquet footers say about that
file_scan.py        partitions and readers of such files
python_scan.py      partitions and readers of the data source, planned in the driver
hadoop.py           stores → Hadoop's URLs and configuration
predicates.py       conditions of Spark → predicates
row_conditions.py   predicates → conditions of Spark
dataframes.py       scans as DataFrames that Spark plans in the same way
statements.py       queries of catalog.sql, which need no attached catalog
cached_tables.py    cached rows of tables, which writes make Spark read again
rules.py            rules of Spark's analyzer and optimizer
results.py          rows of the driver as scans
columns.py          columns as Spark's catalogs have them
names.py            Spark's identifiers → names of tables
connect/            sessions of Spark Connect, whose clients have no JVM
proxies.py          Python objects that Spark calls, and their errors
gateway.py          classes, collections and private fields of the JVM
java_objects.py     Python's objects as Spark holds them
java/               Java that is compiled in the driver
classic.py          classic PySpark in processes that use Spark Connect
weak_session.py     sessions that Python refers to without keeping them alive
"""
