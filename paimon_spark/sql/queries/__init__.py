"""SELECT, and every other statement that Spark runs: the Paimon tables in it are put in as DataFrames."""
