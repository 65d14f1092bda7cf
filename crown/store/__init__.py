"""Storage of state: memory and files, budgets, codes of values, stored relations."""
