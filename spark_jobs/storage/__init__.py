"""Folders of files that outlive a job, on any storage: the local file system, or an object store."""
