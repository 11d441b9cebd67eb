{#
    The rows of a table of beliefs that were held to be so at a moment, for a `from`:

        select price
        from {{ as_known_at(ref('dim_product_price_bizip'), '2026-03-02 16:00:00') }} as prices
        where
            product_id = 7
            and valid_from <= '2026-03-01'
            and (valid_to is null or '2026-03-01' < valid_to)

    at: '2026-03-02 16:00:00', UTC where it has no offset; a day is its first moment. Of a moment
    before the table's first run there are no rows.

    Cost: the table's beliefs; a condition on the key reaches its files.
#}
{% macro as_known_at(rows, at) -%}
    {%- if execute -%}
    {%- set moment = adapter.beliefs.moment(at) -%}
    (
        select *
        from {{ rows }}
        where known_from <= {{ moment }} and (known_to is null or {{ moment }} < known_to)
    )
    {%- endif -%}
{%- endmacro %}
