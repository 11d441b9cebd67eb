{#
    The pairs of two inputs that both change, kept whole for exactly the rows that a change touches.
    The other joins are this join with a condition on times.

        left                    right                     the join, kind left
        order  user             coupon  used_order        order  coupon
        1      77               901     1                 1      901
        2      78               902     1                 1      902
                                                          2      null

        then 903 comes for order 2, and 902 goes:
                                                          1      901      as it was, not written
                                                          1      902      -D
                                                          2      null     -D
                                                          2      903      +I

    For a model that is config(materialized='folded'): while dbt parses it, the join writes the rest
    of its config, the unique_key (the left key, the right key) and the fold by commit_number and
    row_kind. What the config has already stays, and has to fit. Columns of a key that aren't
    listed are among the join's columns; of the right side they are right_<name> where the left side
    has the name. Its rows are pairs; of kind left a left row without a partner is one with nulls.
    `commit_number` grows with each of its commits, so that a later run's row of a pair wins. A full
    refresh numbers all pairs again, and readers of the model's changes receive them again.

    A run looks up the left rows that changed and those that match a right row that changed, old or
    new; joins these again with what both sides are now, and writes what differs from the pairs that
    they had. Late rows, deletes and changed keys are changes like any other.

    Of kind semi its rows are the left rows that have a partner, of kind anti those that have none,
    each once: the right side has no `columns`, and the model's unique_key is the left key. A left
    row comes or goes with its first or last partner; in between nothing is written.

    Of kind full its rows are also the right rows without a partner, whose left columns are null. A
    column found_in states whether a row was found on both sides, left or right; the model has to
    select it. Such a run also reads the left rows that may match the right rows it touches.

    Equal values match by `=`: null matches nothing, unless `on` names the right column as
    {'column': 'coupon', 'null_safe': true}: then nulls match each other. A side's key has to be
    unique: of rows that share one the greatest is taken. `condition` is further SQL over left_row
    and right_row, every column with that name before it.

    A side may be a stream of retract rows that names its `sequence`, the columns that order the
    changes of a key, in total: its rows are the last of each key, late rows and repeats count
    nothing. Such a side has no state of its own but all its rows: a run reads the old rows of the
    keys that it touches, by ranges of the key. Where a key's changes are many, or spread over the
    whole log, keep its rows in a folded model and join that.

    Cost: the new rows of both sides; the left rows that they touch and those rows' right partners,
    by ranges of their keys (columns of `on`, numbers and times) that let Iceberg leave files out.
    Where a right row changes, its left rows are looked for by the columns of `on` and the times: in
    a folded left side whose key doesn't hold them, first for keys in the runs as they lie, whose
    files are left out by the times' ranges if they follow the key, then for the rows of these keys.
    A right row that begins far back meets left rows of all times since: it finds them in the index
    that the left side names, see join_index, where that opens less.
#}
{% macro repaired_join(left, right, on, kind='inner', condition=none) -%}
    {{- _joined({
        'form': 'repaired_join',
        'left': left,
        'right': right,
        'on': on,
        'kind': kind,
        'condition': condition,
    }) -}}
{%- endmacro %}

{% macro _joined(declared) -%}
    {%- if not execute -%}
        {%- do config(adapter.joins.derived_config(model, config, declared)) -%}
    {%- else -%}
        {%- set join = adapter.joins.declared_join(model, declared, context) -%}
        {{- adapter.default_reads.given_by(model, declared.form, _rows_of_join(join)) -}}
    {%- endif -%}
{%- endmacro %}

{% macro _rows_of_join(join) -%}
    {#- in a unit test, whose inputs are CTEs, there is no model that it adds to -#}
    {%- set adds = not join.left.relation.is_cte and is_incremental() -%}
    {%- set number = adapter.joins.record_join(model, join, adds) -%}
    {%- if join.left.index -%}
        {#- recorded by each commit: a run in which it has nothing new either isn't made -#}
        {%- do pinned(join.left.index) -%}
    {%- endif -%}
    {%- set left = _state_of(join.left) -%}
    {%- set right = _state_of(join.right) -%}
    {%- set new_left = _changed_left(join) -%}
    {%- set new_right = new_changes(join.right.relation, by=join.right.key) -%}
    {%- if adapter.reading.plan(model).makes_all_rows(adds) -%}
        {%- do _warn_of_skew(join, left, right) -%}
        {{- _pairs(join, left, right, number) -}}
    {%- elif adapter.ranges.writes(flags) and adapter.reading.plan(model).changes_nothing
        and not join.columns | reject('in', _columns_of(this)) | list -%}
        {{- _no_pairs(join, number) -}}
    {%- else -%}
        {{- _changed_pairs(join, [left, new_left], [right, new_right], number) -}}
    {%- endif -%}
{%- endmacro %}

{#
    The left rows that changed. Only a join of kind full reads more of them than the key, see
    _unpaired_rows: where the keys are enough, no row is compared with what it was.
#}
{% macro _changed_left(join) -%}
    {%- if join.is_full or join.left.relation.is_cte -%}
        {%- do return(new_changes(join.left.relation, by=join.left.key)) -%}
    {%- endif -%}
    {%- do return(
        adapter.changes.new_changes(
            model, join.left.relation, join.left.key, is_incremental(), context, keys_only=true
        )
    ) -%}
{%- endmacro %}

{# A run whose inputs have no other rows writes nothing, but takes note of their commits. #}
{% macro _no_pairs(join, number) -%}
    select
        {%- for name in join.columns %}
        {{ name }},
        {%- endfor %}
        '+I' as row_kind,
        {{ number }}L as commit_number
    from {{ this }}
    where false
{%- endmacro %}

{% macro _columns_of(relation) -%}
    {%- do return(adapter.get_columns_in_relation(relation) | map(attribute='name') | list) -%}
{%- endmacro %}

{# The query of all pairs; with a number they carry it as their commit_number. #}
{% macro _pairs(join, left, right, number=none) -%}
    {%- if join.asof -%}
    {{- _asof_pairs(join, left, right, number) -}}
    {%- else -%}
    select
        {{- _pair_columns(join, number) }}
    from {{ _there(join, left) }} as left_row
    {{ join.keyword }} join {{ _there(join, right) }} as right_row
        on
            {{ join.conditions | join('\n            and ') }}
    {%- endif -%}
{%- endmacro %}

{# The rows of a side; of kind full each states that it is there. #}
{% macro _there(join, rows) -%}
    {%- if join.is_full -%}
        (select *, true as join__is_there from {{ rows }} as rows_of_side)
    {%- else -%}
        {{- rows -}}
    {%- endif -%}
{%- endmacro %}

{# The columns of a pair, of left_row and right_row. #}
{% macro _pair_columns(join, number) -%}
        {%- for image in join.images %}
        {{ image }}{{ ',' if number or not loop.last }}
        {%- endfor %}
        {%- if number %}
        '+I' as row_kind,
        {{ number }}L as commit_number
        {%- endif %}
{%- endmacro %}

{#
    What a run has to write. What it touches is asked for at once and kept, because the ranges that
    it lies in are to stand in the query.
#}
{% macro _changed_pairs(join, left, right, number) -%}
    {%- set keeps = (
        adapter.ranges.writes(flags) and not adapter.reading.nothing_new(model, graph)
    ) -%}
    {%- set changed = _rows_of_changed_keys(join.right, right[1], join.wanted_right_keys, keeps) -%}
    {%- set new_right -%}
        (
            {{ _asof_touching_rows(join, right[0], changed, keeps) if join.asof
                else _touching_rows(join, changed) }}
        )
    {%- endset -%}
    {%- set new_right = _kept(keeps, 'new_right', new_right) -%}
    {%- set lookup = _lookup_in_index(join, new_right) if keeps and join.left.index else none -%}
    {%- if lookup -%}
        {%- set far_right = '(select * from ' ~ new_right ~ ' where ' ~ lookup.far ~ ')' -%}
        {%- set far_right = _kept(keeps, 'far_right', far_right) -%}
        {%- set found = _kept(keeps, 'found', _keys_in_index(join, lookup, far_right)) -%}
        {%- set new_right = '(select * from ' ~ new_right ~ ' where ' ~ lookup.near ~ ')' -%}
        {%- set new_right = _kept(keeps, 'near_right', new_right) -%}
    {%- endif -%}
    {%- set near = _near_left(join, new_right, keeps, 'candidates') -%}
    {%- set touched = _kept(keeps, 'touched', _touched(join, left, new_right, near)) -%}
    {%- set near_keys = _near(keeps, touched, join.wanted_keys) -%}
    {%- set near_pairs = near_keys -%}
    {%- if keeps and join.left.key != join.left.key_names -%}
        {%- set near_pairs = _near(keeps, touched, join.wanted_pairs) -%}
    {%- endif -%}
    {%- if lookup -%}
        {#- keys of any time beside those of the day: each part has its own ranges -#}
        {%- set near_keys = _or_found(near_keys, found, join.wanted_keys, lookup) -%}
        {%- set near_pairs = _or_found(near_pairs, found, join.wanted_pairs, lookup) -%}
        {%- set touched = '(select * from ' ~ touched ~ ' union select * from ' ~ found ~ ')' -%}
        {%- set touched = _kept(keeps, 'touched_or_found', touched) -%}
    {%- endif -%}
    {%- set stored = _columns_of(this) -%}
    {%- set left_rows -%}
        (
            select held.*
            from (
                select {{ join.left.uses | join(', ') }}
                from {{ left[0] }} as pinned_left
                where {{ near_keys.condition }}
            ) as held
            left semi join {{ touched }} as touched on {{ _same_key(join.left.key, join.left.key) }}
        )
    {%- endset -%}
    {%- set left_rows = _kept(keeps, 'left_rows', left_rows) -%}
    {%- set near = _near(keeps, left_rows, join.wanted_right).condition -%}
    {%- set right_rows -%}
        (
            select right_row.*
            from {{ _right_rows_near(join, right[0], near, keeps, 'right_keys') }} as right_row
            left semi join
                {{ _asof_times(join, left_rows) if join.asof else left_rows }} as left_row
                on {{ join.reached if join.asof else join.matches }}
        )
    {%- endset -%}
    {%- set right_rows = _kept(keeps, 'right_rows', right_rows) -%}
    {%- set unpaired = none -%}
    {%- if join.is_full -%}
        {%- set unpaired = _unpaired_rows(join, left, right, stored, keeps) -%}
    {%- endif -%}
    {%- if keeps -%}
        {%- do adapter.joins.expect_rows(model, near_keys.row_count) -%}
        {%- do _warn_of_skew(join, left_rows, right_rows) -%}
    {%- endif -%}
    with

    pairs_before as (
        select held.*
        from {{ _stored_pairs(join, stored, near_pairs.condition) }} as held
        left semi join {{ touched }} as touched
            on {{ _same_key(join.left.key_names, join.left.key) }}
        {%- if unpaired %}
        where held.found_in <> 'right'
        union all
        {{ unpaired.before }}
        {%- endif %}
    ),

    pairs_after as (
        {{ _pairs(join, left_rows, right_rows) }}
        {%- if unpaired %}
        union all
        {{ unpaired.after }}
        {%- endif %}
    ),

    changed_pairs as (
        {{ adapter.joins.changed_pairs('pairs_before', 'pairs_after', join) }}
    )

    select
        {%- for name in join.columns %}
        {{ name }},
        {%- endfor %}
        row_kind,
        {{ number }}L as commit_number
    -- a -U counts where the model leaves its +U out: of one run the +U comes first
    from changed_pairs
{%- endmacro %}

{# The model's own rows; a column that they don't have yet is null. #}
{% macro _stored_pairs(join, stored, condition) -%}
    (
            select
                {%- for name in join.columns %}
                {{ name if name in stored else 'null as ' ~ name }}{{ ',' if not loop.last }}
                {%- endfor %}
            from {{ this }}
            where {{ condition }}
        )
{%- endmacro %}

{# Which left rows may be partners of right rows: the condition on what is read of them. #}
{% macro _near_left(join, right_rows, keeps, name) -%}
    {%- set near = _near(keeps, right_rows, join.wanted_left).condition -%}
    {%- set candidates = none -%}
    {%- if join.left.sequence -%}
        {%- set candidates = _keys_in_stream(join.left, near) -%}
    {%- elif keeps -%}
        {%- set candidates = adapter.joins.candidate_keys(model, join, near, graph) -%}
    {%- endif -%}
    {%- if candidates -%}
        {%- set candidates = _kept(keeps, name, candidates) -%}
        {%- set near = near ~ ' and ' ~ _near(keeps, candidates, join.wanted_keys).condition -%}
    {%- endif -%}
    {%- do return(near) -%}
{%- endmacro %}

{#
    Of kind full: the right rows without a partner that a run touches, as they are stored (before)
    and as they are (after), as queries. It touches the keys of the right rows that changed, and of
    those that match a left row that did, old or new. found_in distinguishes such a row from a pair
    whose left row has a key of nulls.
#}
{% macro _unpaired_rows(join, left, right, stored, keeps) -%}
    {%- if 'found_in' not in stored -%}
        {%- do exceptions.raise_compiler_error(
            model.name ~ ': rows of a join of kind full must have its column found_in; select it '
            ~ 'and run the model with --full-refresh'
        ) -%}
    {%- endif -%}
    {%- set side = join.right -%}
    {%- set changed = _rows_of_changed_keys(join.left, left[1], join.wanted_keys, keeps) -%}
    {%- set changed -%}
        (select distinct {{ join.left.matched_by | join(', ') }} from {{ changed }} as changed)
    {%- endset -%}
    {%- set changed = _kept(keeps, 'changed_left', changed) -%}
    {%- set near = _near(keeps, changed, join.wanted_right).condition -%}
    {%- set touched -%}
        (
            select {{ side.key | join(', ') }}
            from {{ right[1] }} as changed
            union
            select {{ side.key | join(', ') }}
            from {{ _right_rows_near(join, right[0], near, keeps, 'keys_near_changed') }}
                as right_row
            left semi join {{ changed }} as left_row
                on {{ join.matches }}
        )
    {%- endset -%}
    {%- set touched = _kept(keeps, 'touched_right', touched) -%}
    {%- set near = _near(keeps, touched, join.wanted_right_keys).condition -%}
    {%- set rows -%}
        (
            select held.*
            from (
                select {{ side.uses | join(', ') }}
                from {{ right[0] }} as pinned_right
                where {{ near }}
            ) as held
            left semi join {{ touched }} as touched on {{ _same_key(side.key, side.key) }}
        )
    {%- endset -%}
    {%- set rows = _kept(keeps, 'touched_right_rows', rows) -%}
    {%- set near -%}
        found_in = 'right' and {{ _near(keeps, touched, join.wanted_right_pairs).condition }}
    {%- endset -%}
    {%- set before -%}
        select held.*
        from {{ _stored_pairs(join, stored, near) }} as held
        left semi join {{ touched }} as touched on {{ _same_key(side.key_names, side.key) }}
    {%- endset -%}
    {%- set after -%}
        select {{ join.images_of_right | join(', ') }}
        from {{ rows }} as right_row
        left anti join (
            select {{ join.left.uses | join(', ') }}
            from {{ left[0] }} as pinned_left
            where {{ _near_left(join, rows, keeps, 'candidates_of_right') }}
        ) as left_row
            on {{ join.matches }}
    {%- endset -%}
    {%- do return({'before': before, 'after': after}) -%}
{%- endmacro %}

{#
    The rows of a side as they are now. Of a stream of retract rows the last of each key, unless it
    takes the row away; the key stands outside of the aggregate, so that its ranges reach the scan.
#}
{% macro _state_of(side) -%}
    {%- set rows = pinned(side.relation) -%}
    {%- if not side.sequence -%}
        {%- do return(rows) -%}
    {%- endif -%}
    {%- set state -%}
        (
            select
                {%- for name in side.uses %}
                {{ name if name in side.key else 'last_change.' ~ name ~ ' as ' ~ name }}
                {{- ',' if not loop.last }}
                {%- endfor %}
            from (
                select
                    {{ side.key | join(', ') }},
                    max_by(
                        struct({{ side.uses | join(', ') }}, row_kind in ('+I', '+U') as is_there),
                        struct(
                            struct({{ side.sequence | join(', ') }}) as place,
                            row_kind in ('+I', '+U') as is_there,
                            struct({{ side.uses | join(', ') }}) as image
                        )
                    ) as last_change
                from {{ rows }} as stream
                group by {{ side.key | join(', ') }}
            ) as last_changes
            where last_change.is_there
        )
    {%- endset -%}
    {%- do return(state) -%}
{%- endmacro %}

{# Keys of a stream of which some row fulfils a condition, the last one perhaps. #}
{% macro _keys_in_stream(side, condition) -%}
    (
        select distinct {{ side.key | join(', ') }}
        from {{ pinned(side.relation) }} as stream
        where {{ condition }}
    )
{%- endmacro %}

{# The right rows as they are now, those that a condition lets near. #}
{% macro _right_rows_near(join, right, near, keeps, name) -%}
    {%- if join.right.sequence -%}
        {%- set keys = _kept(keeps, name, _keys_in_stream(join.right, near)) -%}
        {%- set near = near ~ ' and ' ~ _near(keeps, keys, join.wanted_right_keys).condition -%}
    {%- endif -%}
    (
                select {{ join.right.uses | join(', ') }}
                from {{ right }} as pinned_right
                where {{ near }}
            )
{%- endmacro %}

{#
    The rows of a side that changed, old and new. The -U of a stream is the row before it in the
    source, not the last that was read: all rows of its key are taken, and the last is among them.
#}
{% macro _rows_of_changed_keys(side, changes, wanted, keeps) -%}
    {%- if not side.sequence -%}
        {%- do return(changes) -%}
    {%- endif -%}
    {%- set keys -%}
        (select distinct {{ side.key | join(', ') }} from {{ changes }} as stream)
    {%- endset -%}
    {%- set keys = _kept(keeps, 'changed_' ~ side.name ~ '_keys', keys) -%}
    {%- set rows -%}
        (
            select held.*
            from (
                select {{ side.uses | join(', ') }}
                from {{ pinned(side.relation) }} as stream
                where {{ _near(keeps, keys, wanted).condition }}
            ) as held
            left semi join {{ keys }} as touched on {{ _same_key(side.key, side.key) }}
        )
    {%- endset -%}
    {%- do return(rows) -%}
{%- endmacro %}

{# The keys of the left rows that changed, or that match a right row that did. #}
{% macro _touched(join, left, new_right, near) -%}
    (
        select distinct {{ join.left.key | join(', ') }}
        from (
            select {{ join.left.key | join(', ') }}
            from {{ left[1] }} as changed
            union all
            select
                {%- for column in join.left.key %}
                left_row.{{ column }}{{ ',' if not loop.last }}
                {%- endfor %}
            from (
                select {{ (join.left.key + join.left.matched_by) | unique | join(', ') }}
                from {{ left[0] }} as pinned_left
                where {{ near }}
            ) as left_row
            left semi join {{ new_right }} as right_row
                on {{ join.touches }}
        )
    )
{%- endmacro %}

{# `held` has a touched key: nulls are keys too. #}
{% macro _same_key(held, touched) -%}
    {%- for held_column, touched_column in zip(held, touched) -%}
        held.{{ held_column }} <=> touched.{{ touched_column }}{{ ' and ' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}

{# The rows of a query for a `from`: kept until the model is built, or the query itself. #}
{% macro _kept(keeps, name, sql) -%}
    {%- do return(
        adapter.ranges.materialize_once(model, name, 'select * from ' ~ sql) if keeps else sql
    ) -%}
{%- endmacro %}

{# Which rows of the other side may match the rows that are kept, see pruning_condition. #}
{% macro _near(keeps, rows, wanted) -%}
    {%- set anywhere = {'condition': 'true', 'row_count': none} -%}
    {%- do return(adapter.ranges.pruning_condition(rows, wanted) if keeps else anywhere) -%}
{%- endmacro %}
