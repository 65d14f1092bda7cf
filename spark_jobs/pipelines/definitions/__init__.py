"""Definitions of a pipeline: projects of Declarative Pipelines and dbt, and what Spark says of them."""
