"""Join-free change propagation: keep the result of a multi-way join up to date while its tables change."""

__version__ = "0.1.0"
