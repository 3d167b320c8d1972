"""The commands, a module for each noun."""
