"""Definitions of a pipeline: projects of Declarative Pipelines and dbt, and their analysis by Spark."""
