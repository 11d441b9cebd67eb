"""Errors of servers, in words for the user."""

from __future__ import annotations

from dbt.adapters.sparksession.secrets import redacted


class ServerError(Exception):
    """A server can't be reached or refuses; the message is for the user."""


def server_error(exc: Exception, what: str) -> ServerError:
    """The error with the server's own message, without the connection's settings.

    Args:
        exc: of py4j or Spark; the message of its innermost cause is taken.
        what: how the text begins.
    """
    java = getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)
    message = str(exc) if java is None else "no reason given"
    while java is not None:  # the innermost cause with a message
        message, java = java.getMessage() or message, java.getCause()
    return ServerError(redacted(f"{what}: {message}"))
