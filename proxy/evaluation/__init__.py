"""Does a policy help? Tasks, the matrix that runs them under policies and budgets, and what it says."""
