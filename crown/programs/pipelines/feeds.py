"""Feeds of a program whose batch is one native call: the blocks of tuples that expressions make of others."""

from __future__ import annotations

from crown.expressions.kernels.evaluate import PAIRS, WORDS
from crown.programs.kernels import feeds as kernels
from crown.programs.pipelines.plan import Plan
from crown.stages.feeds import Fed


class BlockFeed:
    """A feed that reads block number ``block``, and makes number ``made``, as ``fed`` says; ``source``: the number of
    the relation out of whose tuples it makes its own, None for the rows of a join."""

    def __init__(self, block: int, made: int, source: int | None, fed: Fed) -> None:
        self.block, self.made, self.source, self.fed = block, made, source, fed

    @property
    def registers(self) -> int:
        """Returns how many words its expressions need for their registers."""
        return 0 if self.fed.program is None else self.fed.program.register_words

    @property
    def fixed(self) -> int:
        """Returns how many words of the memory of a run it takes for any number of tuples."""
        return int(kernels.words_of_feed(len(self.fed.columns), len(self.fed.reads)))

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run it takes for each tuple."""
        fed = self.fed
        outputs = 0 if fed.program is None else fed.program.words
        return int(kernels.words_of_chosen(outputs, (len(fed.columns) + len(fed.wide)) if fed.chooses else 0))

    def words(self, plan: Plan) -> list[int]:
        """Returns its words in a plan, to which it adds what they point to."""
        fed = self.fed
        forms = [PAIRS if i in fed.wide else WORDS for i in range(len(fed.columns))]
        found = [0] * kernels.FEED
        found[kernels.F_BLOCK], found[kernels.F_MADE], found[kernels.F_WIDTH] = self.block, self.made, len(fed.columns)
        found[kernels.F_COLUMNS] = plan.add([word for pair in zip(fed.columns, forms, strict=True) for word in pair])
        if fed.program is not None:
            found[kernels.F_PROGRAM], found[kernels.F_READS] = plan.add(fed.program.plan), plan.add(fed.reads)
            found[kernels.F_WORDS], found[kernels.F_CHOOSES] = fed.program.words, fed.chooses
            found[kernels.F_TEXT0] = plan.name_texts(fed.program.named)
        return found
