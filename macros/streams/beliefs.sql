{#
    What the rows of a relation were held to be, and since when: of each row that changed since the
    model's last commit what it is now, with the time of the run. As a zipper of that time the
    model keeps each belief from known_from to known_to, for good.

        the zipper of a price          beliefs
        run 1   1.10 from 10:00        1.10  from 10:00            known from run 1 to run 2
        run 2   1.10 from 10:00        1.10  from 10:00 to 10:30   known from run 2
                1.20 from 10:30        1.20  from 10:30            known from run 2

    A few lines are a model:

        {{ config(
            materialized='folded',
            unique_key=['product_id', 'valid_from'],
            zipper={'sequence': 'known_time', 'row_kind': 'row_kind', 'period': 'known'},
            full_refresh=false,
            on_definition_change='accept',
        ) }}
        {{ beliefs(
            rows=ref('dim_product_price_zip'),
            key=['product_id', 'valid_from'],
            columns=['price', 'valid_to'],
        ) }}

    The relation is a zipper, or any other table or keyed table, each key once. A change of columns
    that aren't named is no other belief. A late or corrected row ends the beliefs that it
    contradicts and begins others; a row that is gone ends its belief.

    known_from is when the command began that brought the belief, one time for all models of a run.
    Each commit's time lies above those of the commits before it, so that runs keep their order
    where a clock steps back.

    Where the changes can't be read, since a snapshot is gone or the relation was rewritten, and
    where the model is defined otherwise than before, the relation is compared with what is
    believed. So no belief is lost by that, and none begins or ends where nothing differs.

    Cost of a run: what changed, as of upsert_stream.
#}
{% macro beliefs(rows, key, columns) -%}
    {%- if execute -%}
        {%- set given = {'rows': rows, 'key': key, 'columns': columns} -%}
        {%- set declared = adapter.beliefs.declared_beliefs(model, given, graph) -%}
        {%- set adds = not rows.is_cte and is_incremental() -%}
        {%- set known = adapter.beliefs.record_known_time(model, declared, adds) -%}
        {%- set all_rows = pinned(rows) -%}
        {%- set changes = new_changes(rows, by=declared.key | list) -%}
        {%- if rows.is_cte -%}
            {%- set changes = _as_inserted(declared, all_rows) -%}
        {%- elif adds and (
            adapter.reading.plan(model).news.reads_whole or not known.is_declared
        ) -%}
            {%- set changes = _changes_since_believed(declared, all_rows) -%}
        {%- endif -%}
        {%- set changed = _changed_beliefs(declared, changes, known.time) -%}
        {{- adapter.default_reads.given_by(model, 'beliefs', changed, declared.key | list) -}}
    {%- endif -%}
{%- endmacro %}

{# Of each key what it is after its changes, where that is something else than before them. After
   them there is one row at most, so that each maximum is the value of that row. #}
{% macro _changed_beliefs(declared, changes, known_time) -%}
    {%- set image = 'struct(' ~ declared.all_columns | join(', ') ~ ')' -%}
    {%- set not_unique = (
        model.name ~ ': each row that is believed has a key of its own, but the key ('
        ~ declared.key | join(', ') ~ ') has several rows; name the columns that are unique.'
    ) -%}
    select
        {%- for name in declared.all_columns %}
        {{ name }},
        {%- endfor %}
        case
            when new_row is null then '-D'
            when old_row is null then '+I'
            else '+U'
        end as row_kind,
        {{ known_time }} as known_time
    from (
        select
            {{ declared.key | join(', ') }},
            {%- for name in declared.all_columns if name not in declared.key %}
            max({{ name }}) filter (where row_kind in ('+I', '+U')) as {{ name }},
            {%- endfor %}
            max({{ image }}) filter (where row_kind in ('-U', '-D')) as old_row,
            max({{ image }}) filter (where row_kind in ('+I', '+U')) as new_row,
            count_if(row_kind in ('+I', '+U')) as rows_of_key
        from {{ changes }} as changes
        group by {{ declared.key | join(', ') }}
    ) as changed_keys
    where
        if(rows_of_key > 1, raise_error({{ _sql_text(not_unique) }}), not (old_row <=> new_row))
{%- endmacro %}

{# All rows as they are, compared with what is believed. #}
{% macro _changes_since_believed(declared, all_rows) -%}
    {%- set stored = adapter.get_columns_in_relation(this) | map(attribute='name') | list -%}
    (
        select {{ declared.all_columns | join(', ') }}, '+I' as row_kind
        from {{ all_rows }}
        union all
        select
            {%- for name in declared.all_columns %}
            {{ name if name in stored else 'null as ' ~ name }},
            {%- endfor %}
            '-U' as row_kind
        from {{ this }}
        where known_to is null
    )
{%- endmacro %}

{# The rows of a unit test's input. #}
{% macro _as_inserted(declared, rows) -%}
    (select {{ declared.all_columns | join(', ') }}, '+I' as row_kind from {{ rows }})
{%- endmacro %}
