"""How it is measured: cells in processes of their own, checked before their time counts."""
