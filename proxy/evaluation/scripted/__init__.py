"""Tasks of our own: stories told by a specification, played closed-loop through the real proxy."""
