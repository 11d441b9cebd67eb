"""Lines of proven structure through a strict JSON parser.

pyarrow.json keeps numbers as texts until it converts them to the declared type, and refuses what
doesn't fit it, names that stand twice, half characters. It refuses a whole block for one such line:
the block is halved until the line is found.

It must not be given a decimal with a negative exponent, see exponents.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from python_udfs.ingestion.fast.exponents import negative_exponents
from python_udfs.ingestion.fast.lines import Lines

# lines of a block that may be looked for, one by one, before its rest is given up
MOST_MISFITS = 0.02


def parsed(
    lines: Lines, numbers: np.ndarray, schema: pa.Schema
) -> tuple[np.ndarray, pa.StructArray | None]:
    """The lines that the parser takes: their numbers, int64, and what it read of them.

    Args:
        lines: of proven structure.
        numbers: of the lines that are to be read, in order.
        schema: members that are read; others are passed over.
    """
    odd = _rows_with_negative_exponents(lines, schema)
    if len(odd):
        numbers = np.setdiff1d(numbers, odd)
    texts = lines.texts
    if len(numbers) < len(texts):
        texts = texts.take(pa.array(numbers))
    kept, read = parsed_texts(texts, schema)
    return numbers[kept], read


def parsed_texts(
    texts: pa.StringArray, schema: pa.Schema
) -> tuple[np.ndarray, pa.StructArray | None]:
    """The lines that the parser takes, as `parsed`; they hold an object each at least, and none
    goes on in the next line.

    Args:
        schema: without decimals.
    """
    options = _options(schema, "ignore")
    spare = max(4, int(len(texts) * MOST_MISFITS))
    kept: list[np.ndarray] = []
    read: list[pa.StructArray] = []
    waiting = [(0, len(texts))] if len(texts) else []
    while waiting:
        begin, count = waiting.pop()
        block = _read(texts.slice(begin, count), options)
        if block is not None:
            kept.append(np.arange(begin, begin + count))
            read.append(block)
        elif count == 1 or not spare:
            spare = max(spare - 1, 0)
        else:
            half = count // 2
            waiting += [(begin + half, count - half), (begin, half)]
    if not read:
        return np.arange(0), None
    whole = read[0] if len(read) == 1 else pa.concat_arrays(read)
    return np.concatenate(kept), whole


def all_members(texts: pa.StringArray, schema: pa.Schema) -> pa.StructArray | None:
    """The lines with all their members, those behind the schema's of types that the parser chose;
    None where it doesn't take all lines.

    Args:
        texts: see parsed_texts.
        schema: without decimals where a line has a number with a negative exponent.
    """
    return _read(texts, _options(schema, "infer"))


def _rows_with_negative_exponents(lines: Lines, schema: pa.Schema) -> np.ndarray:
    """Numbers of the lines, int64, that may have a decimal with a negative exponent."""
    places = negative_exponents(lines.bytes, schema)
    # behind the last name before it: at places of no number it is another name of the same line
    return lines.row[np.searchsorted(lines.begin, places, side="right") - 1]


def _options(schema: pa.Schema, of_others: str) -> pj.ParseOptions:
    return pj.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior=of_others, newlines_in_values=False
    )


def _read(texts: pa.StringArray, options: pj.ParseOptions) -> pa.StructArray | None:
    """What the parser reads of the lines; None where it doesn't read them all."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    begin, end = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    data = texts.buffers()[2].slice(begin, end - begin)
    reading = pj.ReadOptions(use_threads=False, block_size=end - begin + 1)
    try:
        table = pj.read_json(pa.BufferReader(data), reading, options)
    except pa.ArrowException:
        return None
    if table.num_rows != len(texts):
        return None
    [batch] = table.combine_chunks().to_batches(max_chunksize=len(texts))
    return batch.to_struct_array()
