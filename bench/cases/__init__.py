"""The measured cases: data sets, streams, queries."""
