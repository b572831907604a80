"""Recorded runs, replayed: do windows still hold what each recorded action used?"""
