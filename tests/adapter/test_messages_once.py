"""Each message of the log once, though a refused one that was read again is kept twice."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.dbt_project import REPO, DbtProject

MACRO = "macros/quality/messages_once.sql"
COLUMNS = "['message_offset', 'payload', 'reject_reason']"
# batch, partition and offset of a message, its text, why it was refused, why it was cut
LOG = """
    select batch_id, 'a' as topic, partition_number, message_offset, payload,
        reject_reason, cut_reason
    from values
        ('b1', 0, 1, 'good', null, null),
        ('b1', 0, 2, 'refused', 'is no JSON', null),
        ('b1', 0, 2, 'taken when it was read again', null, null),
        ('b1', 0, 3, 'still refused', 'is no JSON', null),
        ('b1', 0, 4, 'cut', 'is too old', 'before the first day'),
        ('b1', 1, 2, 'of another partition', 'is no JSON', null),
        ('b2', 0, 1, 'good', null, null),
        ('b2', 0, 2, 'of another batch', 'is no JSON', null)
    as log(batch_id, partition_number, message_offset, payload, reject_reason, cut_reason)
"""


def test_a_refused_message_that_was_taken_later_is_there_once(
    make_project: Callable[..., DbtProject],
) -> None:
    project = make_project(
        {
            MACRO: (REPO / MACRO).read_text(encoding="utf-8"),
            "models/log_rows.sql": "{{ config(materialized='table') }}" + LOG,
            "models/once.sql": "{{ config(materialized='table') }}"
            f"{{{{ messages_once(ref('log_rows'), {COLUMNS}) }}}}",
        }
    )
    project.run("run")
    assert project.column("select payload from dw.once order by payload") == [
        "cut",
        "good",
        "good",
        "of another batch",
        "of another partition",
        "still refused",
        "taken when it was read again",
    ]
