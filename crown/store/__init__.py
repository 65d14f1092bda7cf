"""Where state lies: memory and files, budgets, codes of values, stored relations."""
