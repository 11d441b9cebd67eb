{#
    Of beliefs: at no time was more than one version of a key held to be valid at one time. Fails
    with the pairs of beliefs of a key that share a known time and a valid time.

    key: names of the columns of the key, without valid_from.
#}
{% test no_overlapping_beliefs(model, key) %}
{{ config(meta={'fails_within': key}) }}

with

beliefs as (
    select
        {{ key | join(',\n        ') }},
        valid_from,
        valid_to,
        known_from,
        known_to
    from {{ model }}
),

overlapping as (
    select
        earlier.{{ key | join(',\n        earlier.') }},
        earlier.valid_from,
        earlier.known_from,
        later.valid_from as other_valid_from,
        later.known_from as other_known_from
    from beliefs as earlier
    inner join beliefs as later
        on
            struct(earlier.{{ key | join(', earlier.') }})
            <=> struct(later.{{ key | join(', later.') }})
            and (earlier.valid_from, earlier.known_from)
            < (later.valid_from, later.known_from)
            and (earlier.valid_to is null or later.valid_from < earlier.valid_to)
            and (later.valid_to is null or earlier.valid_from < later.valid_to)
            and (earlier.known_to is null or later.known_from < earlier.known_to)
            and (later.known_to is null or earlier.known_from < later.known_to)
)

select * from overlapping

{% endtest %}
