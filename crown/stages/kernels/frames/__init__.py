"""Window functions that read frames: each frame is a difference of sums of the first rows, or slides."""
