"""What tests of several packages share. Nothing here is installed."""
