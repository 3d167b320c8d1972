"""Versioned Apache Paimon tables for PySpark, with no JAR."""

from __future__ import annotations

__version__ = "0.1.0"
