"""Scalar expressions: typed trees that are built with SQL's type checks and evaluated on whole Arrow columns."""
