"""What Spark's parser takes and sqlglot doesn't, in words that sqlglot knows: for a query that is
looked at, not for one that is run."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import TokenType, tokenize
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token

DIALECT = "spark"
PIPE = TokenType.PIPE_GT
DISTINCT_PIPE = [PIPE, TokenType.SELECT, TokenType.DISTINCT]
SETS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
SHIFT = [TokenType.GT] * 3  # `>>>`, which the tokenizer doesn't know
NESTED = (TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT)  # types that hold others
OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)

# from, to (without it) and what stands there instead
Replacement = tuple[int, int, str]


def with_distinct_pipes(sql: str) -> str:
    """A statement with `|> select a |> distinct` in place of `|> select distinct a`, of which the
    parser forgets the `distinct`."""
    if "|>" not in sql:
        return sql
    tokens = tokenize(sql, read=DIALECT)
    for place in reversed(range(2, len(tokens))):
        if _kinds(tokens, place - 2, 3) == DISTINCT_PIPE:
            word, end = tokens[place], _end_of_pipe(tokens, place, sql)
            listed = sql[word.end + 1 : end]
            # a comment may stand last
            sql = f"{sql[: word.start]}{listed}\n|> distinct {sql[end:]}"
    return sql


def in_known_words(sql: str) -> str:
    """A statement that can't be parsed, with what stands for `group by window(..)`, `a >>> b`,
    `a?::int`, and the pipes `set`, `drop`, `union all select ..` and `union all table ..`.

    >>> in_known_words("from x |> set v = v + 1, w = 2 |> drop a, b |> union all table y")
    'from x |> select * replace ((v + 1) as v, (2) as w) |> select * except (a, b) \
|> union all (select * from y)'
    >>> in_known_words("select count(*), a >>> 2 from x group by window(at, '1 hour')")
    "select count(*), a >> 2 from x group by `window`(at, '1 hour')"
    """
    try:
        tokens = tokenize(sql, read=DIALECT)
    except SqlglotError:
        return sql
    for start, end, text in sorted(_replacements(tokens, sql), reverse=True):
        sql = f"{sql[:start]}{text}{sql[end:]}"
    return sql


def _replacements(tokens: list[Token], sql: str) -> Iterator[Replacement]:
    types = 0  # whose `>` comes yet
    for place, token in enumerate(tokens):
        kind, following = token.token_type, _kinds(tokens, place + 1, 1)
        if kind in NESTED and following == [TokenType.LT]:
            types += 1
        elif kind is TokenType.GT and types:
            types -= 1
        elif kind is TokenType.WINDOW and following == [TokenType.L_PAREN]:
            yield token.start, token.end + 1, f"`{_text(token, sql)}`"
        elif kind is TokenType.QDCOLON:
            yield token.start, token.end + 1, "::"
        elif _kinds(tokens, place, 3) == SHIFT and token.end + 2 == tokens[place + 2].start:
            yield tokens[place + 2].start, tokens[place + 2].end + 1, ""
        elif kind is PIPE and place + 2 < len(tokens):
            yield from _of_pipe(tokens, place + 1, sql)


def _of_pipe(tokens: list[Token], place: int, sql: str) -> Iterator[Replacement]:
    """What stands for a pipe's operator, whose word is at the place."""
    word, kind, listed = tokens[place], tokens[place].token_type, _listed(tokens, place + 1)
    if not all(listed):
        return
    end = listed[-1][-1].end + 1
    if kind is TokenType.DROP:
        yield word.start, listed[0][0].start, "select * except ("
        yield end, end, ")"
    elif kind is TokenType.SET and all(map(_is_assignment, listed)):
        for part in listed:
            is_first, is_last = part is listed[0], part is listed[-1]
            begin = word.start if is_first else part[0].start
            yield begin, part[2].start, "select * replace ((" if is_first else "("
            last = part[-1].end + 1
            yield last, last, f") as {_text(part[0], sql)}" + ")" * is_last
    elif kind in SETS:
        while _kinds(tokens, place + 1, 1) in ([TokenType.ALL], [TokenType.DISTINCT]):
            place += 1
        first = tokens[place + 1]
        if first.token_type in (TokenType.TABLE, TokenType.SELECT, TokenType.FROM):
            is_table = first.token_type is TokenType.TABLE
            opened = "(select * from" if is_table else f"({_text(first, sql)}"
            yield first.start, first.end + 1, opened
            yield end, end, ")"


def _is_assignment(tokens: list[Token]) -> bool:
    return _kinds(tokens, 1, 1) == [TokenType.EQ] and len(tokens) > 2


def _kinds(tokens: list[Token], place: int, count: int) -> list[TokenType]:
    return [token.token_type for token in tokens[place : place + count]]


def _text(token: Token, sql: str) -> str:
    return sql[token.start : token.end + 1]


def _end_of_pipe(tokens: list[Token], place: int, sql: str) -> int:
    """Where in the statement the operator of a pipe ends that has a token at the place."""
    depth = 0
    for token in tokens[place:]:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth < 0 or (depth == 0 and token.token_type is PIPE):
            return token.start
    return len(sql)


def _listed(tokens: list[Token], place: int) -> list[list[Token]]:
    """The tokens from a place on to the end of their pipe, cut at their outer commas."""
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[place:]:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth < 0 or (depth == 0 and token.token_type is PIPE):
            break
        if depth == 0 and token.token_type is TokenType.COMMA:
            found.append([])
        else:
            found[-1].append(token)
    return found
