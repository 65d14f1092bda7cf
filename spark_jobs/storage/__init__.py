"""Folders of files that outlive a job, on whatever storage: the local file system, or an object store."""
