"""Summaries of history segments by something other than rules: who writes them, whether they are good, what is kept."""
