with changes as (
    select customer_id, plan, started, lag(plan) over w as from_plan, lead(started) over w as next_started
    from subscriptions window w as (partition by customer_id order by started, id)
)
select coalesce(from_plan, '(none)') || ' > ' || plan as path, count(*) as customers,
    min(started) as earliest, count(next_started) as moved_on,
    list(customer_id order by customer_id) as customer_ids
from changes where from_plan is distinct from plan
group by from_plan, plan
