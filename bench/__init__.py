"""Benchmarks: workloads x modes x engines, each measured in a process of its own, and checked before its time counts.

``crown bench run`` writes JSON, ``crown bench report`` draws one HTML page and markdown tables from it.
``bench.harness.measure`` explains the measurements, ``bench.harness.results`` the JSON format.
"""
