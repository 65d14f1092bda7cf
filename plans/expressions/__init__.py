"""Scalar expressions: typed trees, built with SQL's checks, evaluated on whole Arrow columns."""
