"""From sources to checked change rows, in Spark's JVM."""
