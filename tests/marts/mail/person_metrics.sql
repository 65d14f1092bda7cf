with counts as (
    select person_id, kind, count(*) as n, max(happened_at) as latest, sum(value) as value from events group by 1, 2
), wide as (
    select person_id,
        coalesce(max(n) filter (where kind = 'sent'), 0) as sent,
        coalesce(max(n) filter (where kind = 'open'), 0) as opened,
        coalesce(max(n) filter (where kind = 'click'), 0) as clicked,
        max(latest) as latest, sum(value) as value
    from counts group by 1
)
select people.id, upper(substring(people.email, 1, 1)) || '***' as masked, wide.sent, wide.opened, wide.clicked,
    round(100.0 * wide.opened / nullif(wide.sent, 0), 1) > 50 as engaged, wide.latest, wide.value,
    extract(year from people.born) as born_in, list_contains(people.tags, 'vip') as is_vip,
    percent_rank() over (order by wide.value nulls first) as value_rank
from people left join wide on wide.person_id = people.id
