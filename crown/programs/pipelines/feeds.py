"""Operators of a program whose batch is one native call that keep no state: feeds, nets and unions of blocks."""

from __future__ import annotations

from collections.abc import Sequence

from crown.expressions.kernels.evaluate import PAIRS, WORDS
from crown.programs.kernels import feeds as kernels
from crown.programs.kernels import nets, unions
from crown.programs.kernels import pipeline as run
from crown.programs.pipelines.blocks import Block
from crown.programs.pipelines.plan import Plan
from crown.results.columns import Fed


class BlockFeed:
    """A feed that reads block ``read``, and makes ``made``, as ``fed`` says; ``root``: see ``Block``.

    ``head``: it makes the rows of the join before it.
    """

    kind = run.FEED

    def __init__(self, read: Block, made: Block, fed: Fed, head: bool = False) -> None:
        self.block, self.made, self.root, self.fed = read.number, made, read.root, fed
        self._weighs, self._head = read.weighs, head

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
        chooses = (len(fed.columns) + len(fed.wide), self._weighs) if fed.chooses else (0, 0)
        return int(kernels.words_of_chosen(outputs, *chooses))

    def words(self, plan: Plan) -> list[int]:
        """Returns its words in a plan, to which it adds what they point to."""
        fed = self.fed
        forms = [PAIRS if i in fed.wide else WORDS for i in range(len(fed.columns))]
        found = [0] * kernels.FEED
        found[kernels.F_BLOCK], found[kernels.F_MADE], found[kernels.F_WIDTH] = (
            self.block,
            self.made.number,
            len(fed.columns),
        )
        found[kernels.F_COLUMNS] = plan.add([word for pair in zip(fed.columns, forms, strict=True) for word in pair])
        found[kernels.F_WEIGHS], found[kernels.F_HEAD] = self._weighs, self._head
        if fed.program is not None:
            found[kernels.F_PROGRAM], found[kernels.F_READS] = plan.add(fed.program.plan), plan.add(fed.reads)
            found[kernels.F_WORDS], found[kernels.F_CHOOSES] = fed.program.words, fed.chooses
            found[kernels.F_TEXT0] = plan.name_texts(fed.program.named)
        return found


class BlockNet:
    """Nets block ``read`` of ``width`` columns, and makes ``made``; ``root``: see ``Block``."""

    kind = run.NET
    registers = 0

    def __init__(self, read: Block, made: Block, width: int) -> None:
        self._block, self._made, self.root, self._width = read.number, made.number, read.root, width

    @property
    def fixed(self) -> int:
        """Returns how many words of the memory of a run it takes for any number of tuples."""
        return int(nets.words_of_net(self._width))

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run it takes for each tuple."""
        return int(nets.words_of_netted(self._width))

    def words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan."""
        found = [0] * nets.NET
        found[nets.N_BLOCK], found[nets.N_MADE], found[nets.N_WIDTH] = self._block, self._made, self._width
        return found


class BlockUnion:
    """Adds blocks of columns with these ``forms``, each with a factor of its weights, and makes ``made``."""

    kind = run.UNION
    registers = 0
    room = 0  # words of the memory that a batch takes, besides those of its block

    def __init__(self, terms: Sequence[tuple[Block, int]], made: Block, forms: Sequence[int]) -> None:
        self._terms, self.made, self._forms, self.root = terms, made, forms, made.root

    @property
    def fixed(self) -> int:
        """Returns how many words of the memory of a run it takes for any number of tuples."""
        return int(unions.words_of_union(len(self._forms)))

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run it takes for each tuple."""
        return int(unions.words_of_tuple(len(self._forms)))

    def begin(self, rows: list[int], words: memoryview) -> int:
        """Notes how many rows of a batch its block has at most, in which roots have so many ``rows``. Returns how many
        rows are netted."""
        rows[self.made.root] = sum([rows[block.root] for block, _ in self._terms])
        return 0

    def words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan, to which it adds what they point to."""
        found = [0] * unions.UNION
        found[unions.U_TERMS] = len(self._terms)
        found[unions.U_TERM0] = plan.add([word for block, factor in self._terms for word in (block.number, factor)])
        found[unions.U_MADE], found[unions.U_WIDTH] = self.made.number, len(self._forms)
        found[unions.U_FORMS] = plan.add(self._forms)
        return found
