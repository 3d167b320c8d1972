"""Table functions: paimon_incremental_query and its kin."""
