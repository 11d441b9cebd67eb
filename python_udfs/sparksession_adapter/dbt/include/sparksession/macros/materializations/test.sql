{#
    As dbt's own, but not every test reads all rows of its table (`dbt build` of a project that
    publishes):
    - a test that by the newest version passed, or warned, on the very rows, by the very query,
      isn't run;
    - a `not_null` that the metrics of the table's files answer isn't either: each file holds no
      null in the column;
    - a test that by the newest version passed on the rows of then reads the rows that may fail
      since: those that came, and those that share with a row which came or went the columns that
      the test names by `meta={'fails_within': [..]}`;
    - tests of one small view, or keyed table, share its rows, which are computed once;
    - tests of one relation that state when a row or a group of rows fails, by
      `meta={'fails_where': ..}` or `'fails_having'`, are asked in one query. A test of which that
      query finds a failure is run by itself.
    `--vars 'test_again: true'` runs them all over all rows.
#}
{% materialization test, adapter='sparksession' %}

    {%- set is_plain = not should_store_failures() and model.resource_type == 'test' -%}
    {%- if not is_plain -%}
        {{ return(dbt.materialization_test_default()) }}
    {%- endif -%}
    {%- set proof = none -%}
    {%- if flags.WHICH == 'build' -%}
        {%- set proof = adapter.data_tests.proof(model, sql, context) -%}
    {%- endif -%}
    {%- set known, query = none, sql -%}
    {%- if not var('test_again', false) -%}
        {%- set known = adapter.data_tests.known_result(model, proof) -%}
        {%- if known is none -%}
            {%- set known = adapter.file_metrics.known_result(model, sql) -%}
        {%- endif -%}
        {%- if known is none -%}
            {%- set known = adapter.data_tests.combined_result(model, sql, proof, context) -%}
        {%- endif -%}
        {%- if known is none and not config.get('sql_header') -%}
            {%- set query = adapter.data_tests.narrowed(model, sql, proof, context) -%}
            {%- if query == sql -%}
                {%- set query = adapter.data_tests.over_kept_rows(model, sql, proof, context) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endif -%}
    {%- if known is not none -%}
        {%- do adapter.data_tests.end_test(model) -%}
        {%- do store_raw_result(
            'main',
            message='OK',
            code='',
            rows_affected=0,
            agate_table=known,
        ) -%}
        {{ return({'relations': []}) }}
    {%- elif query == sql -%}
        {%- set found = dbt.materialization_test_default() -%}
        {%- do adapter.data_tests.end_test(model) -%}
        {{ return(found) }}
    {%- endif -%}
    {%- call statement('main', fetch_result=True) -%}
        {{ get_test_sql(
            query,
            config.get('fail_calc'),
            config.get('warn_if'),
            config.get('error_if'),
            config.get('limit'),
        ) }}
    {%- endcall -%}
    {%- do adapter.data_tests.end_test(model) -%}
    {{ return({'relations': []}) }}

{% endmaterialization %}
