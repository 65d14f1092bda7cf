"""IVM^eps for triangle queries: R(A, B), S(B, C), T(C, A) kept up to date in worst-case optimal time per update."""
