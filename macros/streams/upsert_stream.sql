{#
    What changed in a relation, for a consumer that upserts by key: the row that a key has now, or a
    tombstone (row_kind -D, all but the key null) once it has none. The +U that follows a
    -U stands for both; a row that changed its key leaves a tombstone of the old key.

        changes    +I 1 a   -U 1 a   +U 1 b   -U 2 c   +U 3 c   -D 4 d
        stream                       +U 1 b   -D 2     +I 3 c   -D 4

    Two lines are a model:

        {{ config(materialized='incremental', incremental_strategy='append') }}
        {{ upsert_stream(rows=ref('x'), key='user_id', columns=['order_count']) }}

    The relation is a state, each key once (a table, a folded model): each run adds what its keys
    came to since the last run, each once, and nothing where no named column changed. change_number
    grows with every commit. So the rows of the highest change_number of each key are the relation,
    in any order and if they come twice.

    Or it is a stream of retract rows, of which `sequence` names the columns that order the changes
    of a key: the last change counts, one that comes late behind it or again is left out. Then the
    rows of the highest sequence are the state. A change that was read and has other values since,
    or is gone, is refused: its place is taken.

    Where the changes can't be read any more, since a snapshot is gone, the relation is compared
    with the stream's last rows. A full refresh begins a new stream, without tombstones of keys
    that are gone.

    Cost of a run: what changed; of a stream of retract rows also the model's own rows of these
    keys, by ranges of the key.
#}
{% macro upsert_stream(rows, key, columns, sequence=none) -%}
    {{- _streamed({
        'form': 'upsert_stream',
        'rows': rows,
        'key': key,
        'columns': columns,
        'sequence': sequence,
    }) -}}
{%- endmacro %}

{% macro _streamed(given) -%}
    {%- if execute -%}
        {%- set stream = adapter.streams.declared_stream(model, given, graph) -%}
        {%- set rows = _rows_of_stream(stream, given.rows) -%}
        {#- a change that is left out would leave what the key was -#}
        {%- set by = stream.key | list if stream.keeps_removed else none -%}
        {{- adapter.default_reads.given_by(model, given.form, rows, by) -}}
    {%- endif -%}
{%- endmacro %}

{% macro _rows_of_stream(stream, relation) -%}
    {%- set adds = not relation.is_cte and is_incremental() -%}
    {%- set number = adapter.streams.record_change_number(model) -%}
    {%- set all_rows = pinned(relation) -%}
    {%- set changes = new_changes(relation, by=stream.key | list) -%}
    {%- if stream.sequence -%}
        {%- if (
            adds
            and adapter.reading.plan(model).news.reads_whole
            and adapter.ranges.writes(flags)
        ) -%}
            {%- do adapter.streams.check_kept(model, stream, all_rows) -%}
        {%- endif -%}
        {{- _ordered_changes(stream, changes, number, adds) -}}
    {%- else -%}
        {%- if adds and adapter.reading.plan(model).news.reads_whole -%}
            {%- set changes = _changes_since_last(stream, all_rows) -%}
        {%- endif -%}
        {{- _net_changes_of_keys(stream, changes, number) -}}
    {%- endif -%}
{%- endmacro %}

{# Of each key what it was before its changes and what it is after them, where these differ. #}
{% macro _net_changes_of_keys(stream, changes, number) -%}
    {%- set image = 'struct(' ~ stream.all_columns | join(', ') ~ ')' -%}
    {%- set not_unique = (
        model.name ~ ': the rows of a stream without a sequence are a state, each key once, but '
        ~ 'the key (' ~ stream.key | join(', ') ~ ') has several rows; name the columns that are '
        ~ 'unique, or give the columns that order the changes of a key as sequence.'
    ) -%}
    select
        {%- for name in stream.all_columns %}
        {{ name if name in stream.key else 'new_row.' ~ name ~ ' as ' ~ name }},
        {%- endfor %}
        case
            when new_row is null then '-D'
            when old_row is null then '+I'
            else '+U'
        end as row_kind,
        {{ number }}L as change_number
    from (
        select
            {{ stream.key | join(', ') }},
            max({{ image }}) filter (where row_kind in ('-U', '-D')) as old_row,
            max({{ image }}) filter (where row_kind in ('+I', '+U')) as new_row,
            count_if(row_kind in ('+I', '+U')) as rows_of_key
        from {{ changes }} as changes
        group by {{ stream.key | join(', ') }}
    ) as changed_keys
    where
        if(rows_of_key > 1, raise_error({{ _sql_text(not_unique) }}), not (old_row <=> new_row))
        {%- if not stream.keeps_removed %}
        and new_row is not null
        {%- endif %}
{%- endmacro %}

{# All rows as they are, compared with the stream's last row of each key. #}
{% macro _changes_since_last(stream, all_rows) -%}
    (
        select {{ stream.all_columns | join(', ') }}, '+I' as row_kind
        from {{ all_rows }}
        union all
        select last_row.*
        from (
            select
                max_by(
                    struct({{ stream.all_columns | join(', ') }}, '-U' as row_kind), change_number
                ) as last_row,
                max_by(row_kind, change_number) as last_kind
            from {{ this }}
            group by {{ stream.key | join(', ') }}
        ) as last_of_key
        where last_kind <> '-D'
    )
{%- endmacro %}

{# The retract rows of the stream that the model hasn't emitted yet. #}
{% macro _ordered_changes(stream, changes, number, adds) -%}
    {%- set keeps = (
        adds
        and adapter.ranges.writes(flags)
        and not adapter.reading.nothing_new(model, graph)
    ) -%}
    {%- set by = stream.key | join(', ') -%}
    {%- if not stream.keeps_removed -%}
        {%- set by = (stream.key + stream.sequence) | unique | join(', ') -%}
    {%- endif -%}
    {%- set place = 'struct(' ~ stream.sequence | join(', ') ~ ')' -%}
    {%- set last -%}
        (
            select last_change.*
            from (
                select
                    max_by(
                        struct({{ stream.all_columns | join(', ') }}, row_kind),
                        struct(
                            {{ place }} as place,
                            row_kind in ('+I', '+U') as is_kept,
                            struct({{ stream.all_columns | join(', ') }}, row_kind) as image
                        )
                    ) as last_change
                from {{ changes }} as changes
                {%- if not stream.keeps_removed %}
                where row_kind in ('+I', '+U')
                {%- endif %}
                group by {{ by }}
            ) as last_changes
        )
    {%- endset -%}
    {%- set near = 'true' -%}
    {%- if keeps -%}
        {%- set last = (
            adapter.ranges.materialize_once(model, 'last_changes', 'select * from ' ~ last)
        ) -%}
        {%- set near = (
            adapter.ranges.pruning_condition(last, stream.near_keys).condition
        ) -%}
    {%- endif -%}
    select
        {%- for name in stream.all_columns %}
        {% if name in stream.values and stream.keeps_removed -%}
            if(latest.row_kind in ('+I', '+U'), latest.{{ name }}, null) as {{ name }},
        {%- else -%}
            latest.{{ name }},
        {%- endif -%}
        {%- endfor %}
        if(latest.row_kind in ('+I', '+U'), latest.row_kind, '-D') as row_kind,
        {{ number }}L as change_number
    from {{ last }} as latest
    {%- if adds %}
    left anti join (
        select {{ (stream.key + stream.sequence) | unique | join(', ') }}
        from {{ this }}
        where {{ near }}
    ) as held
        on
            {%- for name in stream.key %}
            {{ 'and ' if not loop.first }}held.{{ name }} <=> latest.{{ name }}
            {%- endfor %}
            {%- if stream.keeps_removed %}
            and {{ _place_of('held', stream) }} >= {{ _place_of('latest', stream) }}
            {%- else %}
            and {{ _place_of('held', stream) }} <=> {{ _place_of('latest', stream) }}
            {%- endif %}
    {%- endif %}
{%- endmacro %}

{% macro _place_of(rows, stream) -%}
    struct(
        {%- for name in stream.sequence -%}
            {{ rows }}.{{ name }}{{ ', ' if not loop.last }}
        {%- endfor -%}
    )
{%- endmacro %}
