"""Run statements on the tables of a catalog."""
