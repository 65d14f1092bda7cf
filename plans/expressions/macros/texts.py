"""Names for functions of texts whose arguments stand in another order."""

from __future__ import annotations

from plans.expressions.build import call, lit
from plans.expressions.functions.function import Macro, macro


def _signs_first(name: str) -> Macro:
    return macro(name, "string string", lambda signs, text: call(name, text, signs), note="The characters come first.")


TABLE = (
    macro("instr", "string string", lambda text, wanted: call("locate", wanted, text), also=("strpos",)),
    macro("space", "=int32", lambda count: call("repeat", lit(" "), count)),
    *map(_signs_first, ("trim", "ltrim", "rtrim")),
)
