{#
    The messages that the newest run brought carry no column that their table's model doesn't take.
    Fails with such columns. They stay in the log: declare them, and a --full-refresh of the typed
    model reads them from the first message on.
#}
{% test takes_all_columns(model) %}

with

undeclared as (
    {{
        undeclared_columns(
            adapter.commits.rows_of_last_append(ref('ods_binlog'))
            if execute and flags.WHICH in ('build', 'test') else model
        )
    }}
)

select * from undeclared

{% endtest %}
