{#
    The versions of customers, from one row per order of a user: from_cte has user_id, order_id,
    create_time and paid_time, null while the order isn't paid.

    A user is a new customer from the first order on, an old customer from the first payment on,
    and of high value while at least `orders` of his orders were paid within the `days` before. So
    an order that is corrected, comes late or is taken back changes exactly the user's own versions.
#}
{% macro customer_versions(from_cte, orders, days) -%}
    {%- do adapter.declarations.check_whole_numbers(
        'customer_versions', 1, {'orders': orders, 'days': days},
        'vars: {high_value_orders: 2, high_value_days: 3}',
    ) -%}
    {#- no window clause: in a view Spark doesn't find the windows that it names -#}
    {%- set since_first -%}
        partition by user_id
                order by happened_at
                rows between unbounded preceding and current row
    {%- endset -%}
    with

    -- events of the same time count as one change
    steps_of_users as (
        select
            user_id,
            step.happened_at as happened_at,
            sum(step.paid_orders) as paid_orders,
            sum(step.orders_within) as orders_within
        from {{ from_cte }}
        lateral view
            explode(
                array(
                    {{ _customer_step('create_time', 0, 0) }},
                    {{ _customer_step('paid_time', 1, 1) }},
                    {{ _customer_step('paid_time + interval ' ~ days ~ ' days', 0, -1) }}
                )
            ) steps as step
        where step.happened_at is not null
        group by user_id, step.happened_at
    ),

    states as (
        select
            user_id,
            happened_at as valid_from,
            if(
                sum(paid_orders) over ({{ since_first }}) > 0, 'old', 'new'
            ) as customer_kind,
            sum(orders_within) over (
                {{ since_first }}
            ) >= {{ orders }} as is_high_value
        from steps_of_users
    ),

    compared_states as (
        select
            *,
            lag(struct(customer_kind, is_high_value)) over (
                partition by user_id order by valid_from
            ) as version_before
        from states
    ),

    ended_states as (
        select
            *,
            lead(valid_from) over (partition by user_id order by valid_from) as valid_to
        from compared_states
        where
            version_before is null
            or not version_before <=> struct(customer_kind, is_high_value)
    )

    select
        user_id,
        customer_kind,
        is_high_value,
        valid_from,
        valid_to,
        valid_to is null as is_current
    from ended_states
{%- endmacro %}

{% macro _customer_step(happened_at, paid_orders, orders_within) -%}
    named_struct(
        'happened_at', {{ happened_at }},
        'paid_orders', {{ paid_orders }},
        'orders_within', {{ orders_within }}
    )
{%- endmacro %}
