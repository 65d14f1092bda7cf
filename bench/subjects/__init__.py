"""The measured engines: this project, its algorithmic baselines, other systems."""
