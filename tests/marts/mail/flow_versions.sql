with latest as (
    select * from flows qualify row_number() over (partition by name order by version desc, updated_at desc nulls last) = 1
)
select latest.name, latest.version, count(events.id) as events, count(distinct events.person_id) as people,
    count(*) filter (where events.kind = 'click') as clicks,
    coalesce(sum(events.value) filter (where events.kind = 'order'), 0) as revenue
from latest left join events on events.flow = latest.name and events.happened_at >= latest.updated_at
group by latest.name, latest.version
