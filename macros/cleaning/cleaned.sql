{#
    Query of the rows of a CTE, cleaned by the rules in the model's YAML, which stand with the
    columns:

        columns:
          - name: city_name
            config:
              meta:
                cleaning:
                  trim: true
                  case: lower                 # or upper
                  null_like: ['', n/a]        # these values are null
                  dictionary:                 # what the value means, by a seed
                    {seed: city, from: city_name, to: city_code, otherwise: refuse}
          - name: amount
            config:
              meta:
                cleaning:
                  null_like: [-1]
                  range: {min: 0, max: 1000000}

    The rules of a column apply in this order, whatever order they are written in: trim, case,
    null_like, range, dictionary; each to what the rule before it left. What lies outside of the
    range, or isn't in a dictionary with `otherwise: refuse` (the default), becomes null; with
    `otherwise: keep` it stays. Null stays null. `trim` takes away all that Unicode calls white
    space. `trim`, `case` and `dictionary` are for texts, `range` is for numbers and for dates and
    times, which are written as texts.

    The column `cleaning` comes last: for each rule that did something the column, the rule, its
    outcome (`changed` or `refused`) and the value as it came. So nothing goes without a word.

    Each row is cleaned by itself: rows read all at once, day by day, or again are cleaned the
    same, and a view of it is row-wise. The seed of a dictionary must be a CTE of the model, by its
    name; a value that it has twice means the lesser, so that no row is doubled.
#}
{% macro cleaned(model, from_cte, columns) -%}
    {%- if execute -%}
        {%- set tested = adapter.declarations.tested_model(model) -%}
        {%- set rules = {} -%}
        {%- for name, column in tested.columns.items() if 'cleaning' in column.meta -%}
            {%- do rules.update({name: column.meta.cleaning}) -%}
        {%- endfor -%}
        {# of seeds alone a view's readers know that they are to be read whole #}
        {%- set seeds = [] -%}
        {%- for unique_id in tested.depends_on.nodes if unique_id.startswith('seed.') -%}
            {%- do seeds.append(unique_id.split('.')[-1]) -%}
        {%- endfor -%}
        {%- do adapter.declarations.check_cleaning(
            tested.name, rules, from_cte, columns, seeds
        ) -%}
        {{- _cleaned(from_cte, columns, rules) -}}
    {%- else -%}
        select * from {{ from_cte }}
    {%- endif -%}
{%- endmacro %}

{#
    The innermost query has what each rule leaves as a column <column>__<rule>, of which the next
    rule's is made; then the dictionaries are joined; then the columns get their names.
#}
{% macro _cleaned(from_cte, columns, rules) -%}
    {%- set plan = {} -%}
    {%- set lookups = [] -%}
    {%- set hinted = [] -%}
    {%- for column in columns -%}
        {%- do plan.update({column: _cleaning_steps(column, rules.get(column) or {})}) -%}
        {%- for step in plan[column] if step.rule == 'dictionary' -%}
            {%- do lookups.append(step) -%}
            {%- do hinted.append(column ~ '__found') -%}
        {%- endfor -%}
    {%- endfor -%}
    select
        {%- for column, steps in plan.items() %}
        stepped.{{ steps[-1].name ~ ' as ' ~ column if steps else column }},
        {%- endfor %}
        array_compact(
            array(
                {%- for steps in plan.values() if steps %}
                {{- ',' if not loop.first }}
                {%- for step in steps %}
                {{ _cleaning_outcome(step) }}{{ ',' if not loop.last }}
                {%- endfor %}
                {%- endfor %}
            )
        ) as cleaning
    from (
        select{{ ' /*+ broadcast(' ~ hinted | join(', ') ~ ') */' if hinted }}
            ruled.*
            {%- for step in lookups %}
            {%- set found = step.column ~ '__found.meaning' %},
            {{
                'coalesce(' ~ found ~ ', ruled.' ~ step.before ~ ')' if step.keeps else found
            }} as {{ step.name }}
            {%- endfor %}
        from (
            select
                {%- for column, steps in plan.items() %}
                {{- ',' if not loop.first }}
                {{ from_cte }}.{{ column }}
                {%- for step in steps if step.sql %},
                {{ step.sql }} as {{ step.name }}
                {%- endfor %}
                {%- endfor %}
            from {{ from_cte }}
        ) as ruled
        {%- for step in lookups %}
        left join (
            select
                cast({{ step.dictionary['from'] }} as string) as word,
                cast(min({{ step.dictionary['to'] }}) as string) as meaning
            from {{ step.dictionary['seed'] }}
            group by {{ step.dictionary['from'] }}
        ) as {{ step.column }}__found
            on ruled.{{ step.before }} = {{ step.column }}__found.word
        {%- endfor %}
    ) as stepped
{%- endmacro %}

{#
    What the rules of a column do, in their order: column, rule, the names of the columns before and
    after it, and its SQL; a dictionary is joined instead.
#}
{% macro _cleaning_steps(column, of_column) -%}
    {%- set steps = [] -%}
    {%- for rule in _cleaning_rules() if of_column.get(rule) -%}
        {%- set given = of_column[rule] -%}
        {%- set before = steps[-1].name if steps else column -%}
        {%- set step = {
            'column': column, 'rule': rule, 'before': before, 'name': column ~ '__' ~ rule,
        } -%}
        {%- if rule == 'trim' -%}
            {%- do step.update(sql='btrim(' ~ before ~ ", '" ~ _white_space() ~ "')") -%}
        {%- elif rule == 'case' -%}
            {%- do step.update(sql=given ~ '(' ~ before ~ ')') -%}
        {%- elif rule == 'null_like' -%}
            {%- set values = [] -%}
            {%- for value in given -%}
                {%- do values.append(_cleaning_literal(value, is_text=true)) -%}
            {%- endfor -%}
            {%- do step.update(
                sql='if(' ~ before ~ ' in (' ~ values | join(', ') ~ '), null, ' ~ before ~ ')'
            ) -%}
        {%- elif rule == 'range' -%}
            {%- set conditions = [] -%}
            {%- for bound, operator in [('min', '>='), ('max', '<=')] if bound in given -%}
                {%- do conditions.append(
                    before ~ ' ' ~ operator ~ ' ' ~ _cleaning_literal(given[bound])
                ) -%}
            {%- endfor -%}
            {%- do step.update(
                sql='if(' ~ conditions | join(' and ') ~ ', ' ~ before ~ ', null)'
            ) -%}
        {%- else -%}
            {%- do step.update(dictionary=given, keeps=given.get('otherwise') == 'keep') -%}
        {%- endif -%}
        {%- do steps.append(step) -%}
    {%- endfor -%}
    {%- do return(steps) -%}
{%- endmacro %}

{# Entry of `cleaning` for what a rule did; null where it did nothing. #}
{% macro _cleaning_outcome(step) -%}
    {%- set outcome = "'refused'" if step.rule == 'range' else "'changed'" -%}
    {%- if step.rule == 'dictionary' and not step.keeps -%}
        {%- set outcome = 'if(stepped.' ~ step.name ~ " is null, 'refused', 'changed')" -%}
    {%- endif -%}
    if(
                    stepped.{{ step.name }} <=> stepped.{{ step.before }},
                    null,
                    named_struct(
                        'column_name', '{{ step.column }}',
                        'rule', '{{ step.rule }}',
                        'outcome', {{ outcome }},
                        'raw_value', cast(stepped.{{ step.column }} as string)
                    )
                )
{%- endmacro %}

{% macro _cleaning_literal(value, is_text=false) -%}
    {%- if value is number -%}
        {%- do return(value | string) -%}
    {%- elif is_text -%}
        {%- do return(_sql_text(value)) -%}
    {%- endif -%}
    {%- do return(('date ' if value | length == 10 else 'timestamp ') ~ _sql_text(value)) -%}
{%- endmacro %}

{# The rules in the order in which they apply. #}
{% macro _cleaning_rules() -%}
    {%- do return(['trim', 'case', 'null_like', 'range', 'dictionary']) -%}
{%- endmacro %}

{# All that Unicode calls white space, as it stands between the quotes of a SQL literal. #}
{% macro _white_space() -%}
    {%- do return(
        ' \\t\\n\\u000B\\u000C\\r\\u0085\\u00A0\\u1680\\u2000\\u2001\\u2002\\u2003\\u2004\\u2005'
        ~ '\\u2006\\u2007\\u2008\\u2009\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000'
    ) -%}
{%- endmacro %}
