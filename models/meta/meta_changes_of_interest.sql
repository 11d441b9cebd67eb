{%- set tables = [
    ('ods_app__user_profile', ref('ods_app__user_profile')),
    ('ods_shop__coupon', ref('ods_shop__coupon')),
    ('ods_shop__order_info', ref('ods_shop__order_info')),
] -%}

with

updates as (
    {% for name, table in tables -%}
        select
            '{{ name }}' as table_name,
            cut_date,
            {{ is_of_interest(name) }} as is_of_interest
        from {{ table }}
        where
            op_type = 'update'
            and reject_reason is null
        {% if not loop.last -%}
            union all
        {% endif -%}
    {% endfor -%}
),

counted as (
    select
        table_name,
        cut_date,
        count(*) as update_count,
        count_if(not is_of_interest) as filtered_count
    from updates
    group by
        table_name,
        cut_date
)

select * from counted
