"""The paper's own curves, to lay beside ours.

"Change Propagation Without Joins", PVLDB 16(5), 2023, and its full version; read off the vector graphics of the
figures, so within about 3 %. Their machine: Xeon 2.1 GHz, Scala on Flink, one core. Compare shapes, not heights.
"""

from __future__ import annotations

TITLE = "CROWN in the paper (Flink, 2.1 GHz)"

# Full version, Figure 9: seconds for λ = 1, 2, 4, 10, 20 (3-Hop, no output).
LAMBDA = (1, 2, 4, 10, 20)
SECONDS_BY_LAMBDA = {
    "Epinions": (45.7, 50.4, 61.6, 88.9, 128.0),
    "Google": (488.0, 506.0, 631.0, 898.0, 1410.0),
    "Bitcoin": (3.78, 4.11, 4.78, 6.31, 8.5),
    "BerkStan": (644.0, 740.0, 917.0, 1310.0, 2170.0),
}

# Full version, Figure 12: seconds against the share of edges the filter keeps (Epinions, full enumeration).
SHARES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 0.75, 1.0)
SECONDS_BY_SHARE = {
    "3-hop": {
        "CROWN": (10.0, 12.4, 16.8, 15.9, 19.4, 26.6, 62.5, 104.0, 204.0),
        "Flink": (64.0, 64.0, 66.0, 68.0, 72.0, 101.0, 179.0, 262.0, 486.0),
    },
    "4-hop-jp": {
        "CROWN": (12.6, 13.8, 16.8, 17.7, 19.4, 20.3, 24.3, 24.4, 28.1),
    },
}

# Full version, Figure 10: seconds on 1, 2, 4, 8, 16, 32 cores (4-Hop).
CORES = (1, 2, 4, 8, 16, 32)
SECONDS_BY_CORES = (602.0, 341.0, 177.0, 95.5, 61.3, 49.5)

# Full version, Figure 7: seconds for 1,017,674 graph updates of Epinions with delta enumeration.
DELTA_SECONDS = {"3-hop": 27.0, "4-hop": 1075.0, "2-comb": 294.0, "3-hop-jp": 15.0, "4-hop-jp": 39.0}
UPDATES = 1_017_674
