with touched as (
    select id, person_id, kind, happened_at, value, flow,
        sum(case when kind in ('open', 'click') then 1 else 0 end) over (partition by person_id order by happened_at, id rows unbounded preceding) as touch_session
    from events where happened_at is not null
), attributed as (
    select *,
        first_value(flow) over (partition by person_id, touch_session order by happened_at, id) as session_flow,
        first_value(happened_at) over (partition by person_id, touch_session order by happened_at, id) as touched_at
    from touched
)
select id, person_id, kind, happened_at,
    case when date_diff('hour', touched_at, happened_at) <= 120 and touch_session > 0 then session_flow end as attributed_flow,
    case when kind = 'order' then coalesce(value, 0) else 0 end as revenue
from attributed
