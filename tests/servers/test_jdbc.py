"""Rows of a select as Java's WebRowSet writes them."""

from __future__ import annotations

import pytest

from python_udfs.servers.jdbc import _rows_of

# head and data of what Java 17 wrote for a select of two columns of MySQL 5.6
TEXT = """<?xml version="1.0"?>
<webRowSet xmlns="http://java.sun.com/xml/ns/jdbc"
           xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <properties>
    <command><null/></command>
  </properties>
  <data>
    <currentRow>
      <columnValue>a&lt;b&gt;&amp;&apos;&quot;</columnValue>
      <columnValue><null/></columnValue>
    </currentRow>
    <currentRow>
      <columnValue></columnValue>
      <columnValue> ☃ </columnValue>
    </currentRow>
  </data>
</webRowSet>
"""


def test_values_are_texts_and_null_is_no_empty_text() -> None:
    assert list(_rows_of(TEXT)) == [["a<b>&'\"", None], ["", " ☃ "]]


@pytest.mark.parametrize("text", [TEXT[: TEXT.index("<currentRow>")] + "</data></webRowSet>"])
def test_no_row_is_no_row(text: str) -> None:
    assert list(_rows_of(text)) == []
