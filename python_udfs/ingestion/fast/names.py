"""Names of a fixed set, found among the bytes of many texts at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PADDING = 256  # bytes behind the texts that may be looked at; a MySQL name has at most these
_TABLE_BITS = 12
_LOWER = np.uint64(0x2020202020202020)  # makes one of the upper and lower case of a letter
# of a word of 8 bytes those that belong to a name that ends within it
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)


class Names:
    """A set of names, numbered in their order.

    Names are compared as words of 8 bytes, whole: a number means that very name.

    Args:
        names: in UTF-8, distinct.
        ignore_case: two names are the same, too, if they differ in bit 5 of some bytes alone.
            For ASCII letters this is their case. Other characters may be taken for one another.
    """

    def __init__(self, names: Sequence[bytes], ignore_case: bool = False) -> None:
        self._ignore_case = ignore_case
        self._words = max(-(-max(map(len, names)) // 8), 1)
        text = np.frombuffer(b"".join(names) + bytes(PADDING), np.uint8)
        length = np.array([len(name) for name in names], np.int64)
        begin = np.concatenate(([0], np.cumsum(length)[:-1]))
        words = self._words_at(text, begin, length)
        # names that are the same in this sense have the number of the first of them
        same = np.unique(np.stack([length.astype(np.uint64), *words]), axis=1, return_index=True)[1]
        self._numbers, self._length = np.sort(same), length[np.sort(same)]
        self._named = [word[self._numbers] for word in words]
        self._factor, self._table = self._without_collision()

    def _without_collision(self) -> tuple[np.uint64, np.ndarray]:
        random = np.random.default_rng(1)
        while True:
            self._factor = np.uint64(2 * int(random.integers(1, 2**63)) + 1)
            places = self._places(self._named, self._length)
            if len(np.unique(places)) == len(places):
                table = np.zeros(1 << _TABLE_BITS, np.int64)
                table[places] = np.arange(len(places))
                return self._factor, table

    def _places(self, words: Sequence[np.ndarray], length: np.ndarray) -> np.ndarray:
        found = length.astype(np.uint64) * self._factor
        for word in words:
            found = (found ^ word) * self._factor
            found ^= found >> np.uint64(29)
        return (found * self._factor) >> np.uint64(64 - _TABLE_BITS)

    def _words_at(
        self, text: np.ndarray, begin: np.ndarray, length: np.ndarray
    ) -> list[np.ndarray]:
        at = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))
        words = []
        for number in range(self._words):
            size = length - 8 * number
            if number:
                np.clip(size, 0, 8, out=size)
            else:
                np.minimum(size, 8, out=size)
            word = at[begin + 8 * number]
            if self._ignore_case:
                word = word | _LOWER
            words.append(word & _MASKS[size])
        return words

    def numbers(self, text: np.ndarray, begin: np.ndarray, length: np.ndarray) -> np.ndarray:
        """The number of each text's name, -1 where it is none of the set.

        Args:
            text: bytes, with PADDING behind what counts.
            begin, length: int64 place of each name in `text`, and its bytes.
        """
        words = self._words_at(text, begin, length)
        place = self._table[self._places(words, length)]
        same = self._length[place] == length
        for word, named in zip(words, self._named, strict=True):
            same &= named[place] == word
        return np.where(same, self._numbers[place], -1)
