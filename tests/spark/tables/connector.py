"""Delta's own connector for Spark, from the local Maven repository. There is none where its jars are not there."""

from __future__ import annotations

from pathlib import Path

from pyspark import __version__ as SPARK

VERSION = "4.4.0"
_REPOSITORY = Path.home() / ".m2" / "repository" / "io" / "delta"
_PARTS = ("delta-storage", "delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")


def jars() -> list[str]:
    """Returns the connector's jars for this version of Spark; none if they are not there."""
    names = [f"delta-spark_{'.'.join(SPARK.split('.')[:2])}_2.13", *_PARTS]
    found = [_REPOSITORY / name / VERSION / f"{name}-{VERSION}.jar" for name in names]
    return [str(jar) for jar in found] if all(jar.exists() for jar in found) else []


def how_to() -> str:
    """Returns what makes the jars be there, or why nothing does."""
    short = ".".join(SPARK.split(".")[:2])
    wanted = f"io.delta:delta-spark_{short}_2.13:{VERSION}"
    return f"needs Delta's connector for Spark {short}, if there is one: mvn dependency:get -Dartifact={wanted}"


def settings(cores: int = 2) -> dict[str, str]:
    """Returns the settings of a session with the connector."""
    return {
        "spark.master": f"local[{cores}]",
        "spark.jars": ",".join(jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    }
