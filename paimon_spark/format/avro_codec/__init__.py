"""Avro: object containers, and their records as Arrow columns."""
