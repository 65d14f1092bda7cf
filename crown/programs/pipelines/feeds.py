"""Operators of a native call that keep no state: feeds, nets and unions of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from crown.expressions.kernels.evaluate import PAIRS, WORDS
from crown.expressions.program import native
from crown.ingest.batch import StoredInput
from crown.programs.kernels import feeds as kernels
from crown.programs.kernels import pipeline, unions
from crown.programs.pipelines.plan import Block, Plan
from crown.results.columns import NativeFeed
from plans.expressions.expr import Expr

Form = TypeVar("Form")


class FeedOperator:
    """A feed: makes block ``output`` from block ``read``, as ``native_feed`` describes.

    ``codes``: the number of computed wide decimals that become codes. ``after_join``: True if it makes the rows of the
    join that is the operator before it.
    """

    kind = pipeline.FEED

    def __init__(
        self, read: Block, output: Block, native_feed: NativeFeed, codes: int = 0, after_join: bool = False
    ) -> None:
        self.input, self.output, self.root, self.native_feed = read.number, output, read.root, native_feed
        self._weight_words, self._codes, self._after_join = read.weight_words, codes, after_join

    @property
    def register_words(self) -> int:
        """Returns how many words its expressions need for their registers."""
        return 0 if self.native_feed.program is None else self.native_feed.program.register_words

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of tuples."""
        return int(kernels.fixed_words(len(self.native_feed.columns), len(self.native_feed.program_columns)))

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory it takes for each tuple of its root."""
        feed = self.native_feed
        outputs = 0 if feed.program is None else feed.program.output_words
        filtered = (len(feed.columns) + len(feed.wide), self._weight_words) if feed.filters else (0, 0)
        return int(kernels.words_per_tuple(outputs, *filtered, self._codes))

    def plan_words(self, plan: Plan) -> list[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        feed = self.native_feed
        forms = [PAIRS if i in feed.wide else WORDS for i in range(len(feed.columns))]
        words = [0] * kernels.FEED_WORDS
        words[kernels.F_INPUT], words[kernels.F_OUTPUT] = self.input, self.output.number
        words[kernels.F_WIDTH] = len(feed.columns)
        words[kernels.F_COLUMNS_AT] = plan.add(
            [word for pair in zip(feed.columns, forms, strict=True) for word in pair]
        )
        words[kernels.F_STORES_CODES] = int(self._codes > 0)
        words[kernels.F_WEIGHT_WORDS], words[kernels.F_AFTER_JOIN] = self._weight_words, self._after_join
        if feed.program is not None:
            words[kernels.F_PROGRAM_AT] = plan.add(feed.program.plan)
            words[kernels.F_PROGRAM_COLUMNS_AT] = plan.add(feed.program_columns)
            words[kernels.F_PROGRAM_WORDS], words[kernels.F_FILTERS] = feed.program.output_words, feed.filters
            words[kernels.F_FIRST_TEXT] = plan.add_texts(feed.program.texts)
        return words


class NetOperator:
    """A net: makes block ``output`` from block ``read``, which has ``width`` columns."""

    kind = pipeline.NET
    register_words = 0

    def __init__(self, read: Block, output: Block, width: int) -> None:
        self._input, self._output, self.root, self._width = read.number, output.number, read.root, width

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of tuples."""
        return int(unions.fixed_words_of_net(self._width))

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory it takes for each tuple of its root."""
        return int(unions.words_per_tuple_of_net(self._width))

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan."""
        words = [0] * unions.NET_WORDS
        words[unions.N_INPUT], words[unions.N_OUTPUT], words[unions.N_WIDTH] = self._input, self._output, self._width
        return words


class UnionOperator:
    """A union: makes block ``output`` from the blocks of ``terms``, multiplies the weights of each by its factor.

    ``forms``: those of the columns of all blocks.
    """

    kind = pipeline.UNION
    register_words = 0
    batch_words = 0

    def __init__(self, terms: Sequence[tuple[Block, int]], output: Block, forms: Sequence[int]) -> None:
        self._terms, self.output, self._forms, self.root = terms, output, forms, output.root

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of tuples."""
        return int(unions.fixed_words(len(self._forms)))

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory it takes for each tuple of its root."""
        return int(unions.words_per_tuple(len(self._forms)))

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``.

        Sets the maximum number of rows of its own root. Returns how many rows are netted.
        """
        rows[self.output.root] = sum([rows[block.root] for block, _ in self._terms])
        return 0

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        words = [0] * unions.UNION_WORDS
        words[unions.U_TERM_COUNT] = len(self._terms)
        words[unions.U_TERMS_AT] = plan.add([word for block, factor in self._terms for word in (block.number, factor)])
        words[unions.U_OUTPUT], words[unions.U_WIDTH] = self.output.number, len(self._forms)
        words[unions.U_FORMS_AT] = plan.add(self._forms)
        return words


class NotNative(Exception):
    """Tells why a stage of a program, or every stage, cannot be part of a native call."""


def known_form(form: Form | str) -> Form:
    """Returns ``form``. Raises NotNative if it is a text: the reason why there is no native form."""
    if isinstance(form, str):
        raise NotNative(form)
    return form


def stored_feed(stored: StoredInput) -> NativeFeed:
    """Returns the feed that makes the tuples of a stored relation of a join."""
    columns = (*stored.words, *([] if stored.mask is None else [stored.mask]))
    if stored.predicate is None:
        return NativeFeed(columns)
    places = {name.lower(): place for name, (place, _) in stored.tested.items()}
    return filter_feed(stored.predicate, places, columns, f"what the join stores of {stored.stored.name}")


def filter_feed(condition: Expr, places: Mapping[str, int], columns: tuple[int, ...], what: str) -> NativeFeed:
    """Returns the feed that chooses rows by a condition, and projects them on some columns.

    ``places``: the positions of the columns of the condition. ``what``: describes the rows in messages.
    """
    program = native((condition,))
    if program is None:
        raise NotNative(f"{condition}, a condition on {what}, has no native form")
    return NativeFeed(columns, program, tuple(places[name.lower()] for name, _ in program.reads), True)
