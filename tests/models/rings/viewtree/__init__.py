"""The laboratory: F-IVM's own model (Nikolic and Olteanu, SIGMOD 2018) in readable Python.

Relations map tuples to payloads of a ring. A variable order says which variable is joined and summed away when; the
view tree over it keeps one view per variable; an update climbs from its relation to the root. The engine of `crown`
does this for tuples and numbers, compiled; here every ring works, every view can be looked at, and costs are counted.
"""

from tests.models.rings.viewtree.chain import balanced, chain
from tests.models.rings.viewtree.indicators import Indicator
from tests.models.rings.viewtree.order import Variable, greedy_order, variable
from tests.models.rings.viewtree.relation import Factors, Relation
from tests.models.rings.viewtree.tree import ViewTree
from tests.models.rings.viewtree.views import View, view_tree

__all__ = [
    "Factors",
    "Indicator",
    "Relation",
    "Variable",
    "View",
    "ViewTree",
    "balanced",
    "chain",
    "greedy_order",
    "variable",
    "view_tree",
]
