"""CREATE, REPLACE, ALTER, DROP of tables and databases."""
