"""``Reading``: a project that has changed is read and analyzed in a thread, while its pipeline goes on with what it
was."""

from __future__ import annotations

from threading import Thread

from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.pipeline import Pipeline


class Reading:
    """Reads a project, and starts Spark if that has to be asked."""

    def __init__(self, session: Session, project: Project, refresh: str) -> None:
        self._found: Pipeline | Exception | None = None
        self._given = session, project, refresh
        self._thread = Thread(target=self._read, name="crown-reading", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Returns True when the project has been read, or cannot be."""
        return not self._thread.is_alive()

    def result(self) -> Pipeline:
        """Returns the pipeline of the project, which is analyzed. Raises what has kept it from being read."""
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
