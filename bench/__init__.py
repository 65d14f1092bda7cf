"""Benchmarks: workloads x modes x engines, measured in processes of their own, checked before their time counts.

``crown bench run`` writes JSON, ``crown bench report`` draws one HTML page and markdown tables from it. What is
measured and what the fields mean: ``bench.harness.measure``; the JSON format: ``bench.harness.results``.
"""
