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
    null_like, range, dictionary; each to what the one before it left. What lies outside of the
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
        {%- do _validate_cleaning(tested.name, rules, from_cte, columns, seeds) -%}
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

{% macro _validate_cleaning(model_name, rules, from_cte, columns, seeds) -%}
    {%- set problems = [] -%}
    {%- if from_cte is not string -%}
        {%- do problems.append('from_cte must be the name of a CTE, got ' ~ from_cte) -%}
    {%- endif -%}
    {%- if columns is string or columns is not sequence or not columns -%}
        {%- do problems.append('columns must be a list of column names, got ' ~ columns) -%}
    {%- elif 'cleaning' in columns -%}
        {%- do problems.append('columns has cleaning, which is the name of what was done') -%}
    {%- endif -%}
    {%- if not rules -%}
        {%- do problems.append('no column in the YAML has rules in meta.cleaning') -%}
    {%- endif -%}
    {%- for column, of_column in rules.items() -%}
        {%- if columns is sequence and column not in columns -%}
            {%- do problems.append(column ~ ': has rules, but is none of columns') -%}
        {%- endif -%}
        {%- for problem in _cleaning_problems(of_column, seeds) -%}
            {%- do problems.append(column ~ ': ' ~ problem) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if problems -%}
        {%- do exceptions.raise_compiler_error(
            'cleaned: rules of ' ~ model_name ~ ':\n- ' ~ problems | join('\n- ')
            ~ "\nExample: cleaning: {trim: true, case: lower, null_like: ['', n/a], dictionary: "
            ~ '{seed: city, from: city_name, to: city_code, otherwise: refuse}} of a text, '
            ~ 'cleaning: {null_like: [-1], range: {min: 0, max: 100}} of a number'
        ) -%}
    {%- endif -%}
{%- endmacro %}

{# Error texts for the rules of one column. #}
{% macro _cleaning_problems(of_column, seeds) -%}
    {%- set problems = [] -%}
    {%- set known = _cleaning_rules() -%}
    {%- if of_column is not mapping or not of_column -%}
        {%- do return([
            'rules must be a mapping of ' ~ known | join(', ') ~ ', got ' ~ of_column
        ]) -%}
    {%- endif -%}
    {%- for rule in of_column if rule not in known -%}
        {%- do problems.append(
            'unknown rule ' ~ rule ~ '; there are ' ~ known | join(', ')
        ) -%}
    {%- endfor -%}
    {%- if of_column.get('trim', true) is not boolean -%}
        {%- do problems.append('trim must be true or false, got ' ~ of_column.trim) -%}
    {%- endif -%}
    {%- if of_column.get('case', 'lower') not in ['lower', 'upper'] -%}
        {%- do problems.append('case must be lower or upper, got ' ~ of_column.case) -%}
    {%- endif -%}
    {%- set kinds = {} -%}
    {%- for rule in ['trim', 'case', 'dictionary'] if of_column.get(rule) -%}
        {%- do kinds.update({rule: 'texts'}) -%}
    {%- endfor -%}
    {%- if 'null_like' in of_column -%}
        {%- do problems.extend(_null_like_problems(of_column, kinds)) -%}
    {%- endif -%}
    {%- if 'range' in of_column -%}
        {%- do problems.extend(_range_problems(of_column.range, kinds)) -%}
    {%- endif -%}
    {%- if 'dictionary' in of_column -%}
        {%- do problems.extend(_dictionary_problems(of_column.dictionary, seeds)) -%}
    {%- endif -%}
    {%- if kinds.values() | unique | list | length > 1 -%}
        {%- set misfits = [] -%}
        {%- for rule, kind in kinds.items() -%}
            {%- do misfits.append(rule ~ ' is for ' ~ kind) -%}
        {%- endfor -%}
        {%- do problems.append(
            misfits | join(', ') ~ ': cast the column in the CTE, or split it into two'
        ) -%}
    {%- endif -%}
    {%- do return(problems) -%}
{%- endmacro %}

{% macro _null_like_problems(of_column, kinds) -%}
    {%- set values = of_column.null_like -%}
    {%- if values is string or values is not sequence or not values -%}
        {%- do return(["null_like must be a list of values, got " ~ values]) -%}
    {%- endif -%}
    {%- set problems = [] -%}
    {%- for value in values -%}
        {%- set kind = _cleaning_kind(value) -%}
        {%- if value is string -%}
            {%- do kinds.update(null_like='texts') -%}
            {%- set met = value.strip() if of_column.get('trim') else value -%}
            {%- if of_column.get('case') == 'lower' -%}
                {%- set met = met.lower() -%}
            {%- elif of_column.get('case') == 'upper' -%}
                {%- set met = met.upper() -%}
            {%- endif -%}
            {%- if met != value -%}
                {%- do problems.append(
                    "null_like '" ~ value ~ "' is never met, the rules before it make it '" ~ met
                    ~ "'"
                ) -%}
            {%- endif -%}
        {%- elif kind == 'numbers' -%}
            {%- do kinds.update({'null_like of numbers': 'numbers'}) -%}
        {%- else -%}
            {%- do problems.append(
                'null_like must have texts (in quotes) or numbers, got ' ~ value
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do return(problems) -%}
{%- endmacro %}

{% macro _range_problems(range, kinds) -%}
    {%- set bounds = range if range is mapping else {} -%}
    {%- if not bounds or bounds.keys() | reject('in', ['min', 'max']) | list -%}
        {%- do return(['range must be a mapping of min, max or both, got ' ~ range]) -%}
    {%- endif -%}
    {%- set problems = [] -%}
    {%- for bound, value in bounds.items() -%}
        {%- set kind = _cleaning_kind(value) -%}
        {%- if kind in ['numbers', 'dates', 'times'] -%}
            {%- do kinds.update({'range of ' ~ kind: kind}) -%}
        {%- else -%}
            {%- do problems.append(
                bound ~ " of range must be a number, or a date or time as '2026-03-01' or "
                ~ "'2026-03-01 00:00:00', got " ~ value
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not problems and bounds | length == 2
        and _cleaning_kind(bounds.min) == _cleaning_kind(bounds.max) and bounds.min > bounds.max
    -%}
        {%- do problems.append(
            'min of range, ' ~ bounds.min ~ ', is above its max, ' ~ bounds.max
        ) -%}
    {%- endif -%}
    {%- do return(problems) -%}
{%- endmacro %}

{% macro _dictionary_problems(dictionary, seeds) -%}
    {%- set known = ['seed', 'from', 'to', 'otherwise'] -%}
    {%- if dictionary is not mapping -%}
        {%- do return([
            'dictionary must be a mapping of ' ~ known | join(', ') ~ ', got ' ~ dictionary
        ]) -%}
    {%- endif -%}
    {%- set problems = [] -%}
    {%- for key in dictionary if key not in known -%}
        {%- do problems.append(
            'unknown key ' ~ key ~ ' of dictionary; there are ' ~ known | join(', ')
        ) -%}
    {%- endfor -%}
    {%- for key in ['seed', 'from', 'to'] -%}
        {%- set name = dictionary.get(key) -%}
        {%- if name is not string or not modules.re.fullmatch('[A-Za-z_][A-Za-z0-9_]*', name) -%}
            {%- do problems.append(
                key ~ ' of dictionary must be the name of a '
                ~ ('seed' if key == 'seed' else 'column of the seed') ~ ', got ' ~ name
            ) -%}
        {%- elif key == 'seed' and name not in seeds -%}
            {%- do problems.append(
                'the model does not read the seed ' ~ name ~ '; add a CTE ' ~ name
                ~ " as (select .. from {{ ref('" ~ name ~ "') }})"
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if dictionary.get('otherwise', 'keep') not in ['keep', 'refuse'] -%}
        {%- do problems.append(
            'otherwise of dictionary must be keep or refuse, got ' ~ dictionary.otherwise
        ) -%}
    {%- endif -%}
    {%- do return(problems) -%}
{%- endmacro %}

{# numbers, dates, times, texts; none of these: other. #}
{% macro _cleaning_kind(value) -%}
    {%- set date = '\\d{4}-\\d\\d-\\d\\d' -%}
    {%- if value is number and value is not boolean -%}
        {%- do return('numbers' if value - value == 0 else 'other') -%}
    {%- elif value is not string -%}
        {%- do return('other') -%}
    {%- elif modules.re.fullmatch(date, value) -%}
        {%- do return('dates') -%}
    {%- elif modules.re.fullmatch(date ~ '[ T]\\d\\d:\\d\\d(:\\d\\d(\\.\\d+)?)?', value) -%}
        {%- do return('times') -%}
    {%- endif -%}
    {%- do return('texts') -%}
{%- endmacro %}
