"""All sections by their names, in the order in which they run."""

from __future__ import annotations

from bench.harness.sections import around, compared, growth, triangles

SECTIONS = {
    "targets": compared.targets,
    "engines": compared.engines,
    "workloads": compared.workloads,
    "aggregates": compared.aggregates,
    "motifs": compared.motifs,
    "ordered": compared.ordered,
    "nexmark": compared.nexmark,
    "tpcds": compared.tpcds,
    "job": compared.job,
    "native": compared.native,
    "recursion": compared.recursion,
    "size": growth.size,
    "lambda": growth.enclosed,
    "selectivity": growth.selectivity,
    "batches": growth.batches,
    "memory": growth.memory,
    "state": growth.state,
    "cores": growth.cores,
    "spark": around.operator,
    "sinks": around.sinks,
    "pipelines": around.pipelines,
    "load": around.loads,
    "startup": around.startup,
    "triangle-speed": triangles.triangle_speed,
    "triangle-slopes": triangles.triangle_slopes,
    "kernels": around.kernels,
}
