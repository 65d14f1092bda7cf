"""Numbers wider than a word: limbs, doubles in fixed point, and their far parts."""
