"""The page at /ctx/: for an administrator, or whoever sits at a machine that serves nobody else. Changes nothing."""
