"""``Reading``: reads and analyzes a changed project in a thread, while its pipeline continues with the old
definitions."""

from __future__ import annotations

from threading import Thread

from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.pipeline import Pipeline


class Reading:
    """Reads a project, and starts Spark if it is needed for that."""

    def __init__(self, session: Session, project: Project, refresh: str) -> None:
        self._found: Pipeline | Exception | None = None
        self._given = session, project, refresh
        self._thread = Thread(target=self._read, name="crown-reading", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Returns True when the project has been read, or reading it has failed."""
        return not self._thread.is_alive()

    def result(self) -> Pipeline:
        """Returns the pipeline of the project, which is analyzed. Raises the error if reading the project has
        failed."""
        self._thread.join()
        if not isinstance(self._found, Pipeline):
            raise self._found or RuntimeError("the thread has ended")
        return self._found

    def _read(self) -> None:
        try:
            found = Pipeline.of(*self._given)
            found.analyze()
            self._found = found
        except Exception as error:
            self._found = error
