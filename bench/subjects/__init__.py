"""Who is measured: this project, its algorithmic baselines, other systems."""
