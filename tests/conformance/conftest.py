"""The same small Spark as for the tests of deserialization."""

from tests.deserialize.conftest import spark

__all__ = ["spark"]
