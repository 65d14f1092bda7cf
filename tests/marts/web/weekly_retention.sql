with active as (
    select distinct user_id, cast(date_trunc('week', happened_at) as date) as week from events where user_id is not null and happened_at is not null
), labelled as (
    select user_id, week,
        lag(week) over (partition by user_id order by week) as previous_week,
        min(week) over (partition by user_id) as first_week
    from active
)
select week,
    count(*) filter (where week = first_week) as new_users,
    count(*) filter (where date_diff('day', previous_week, week) = 7) as retained_users,
    count(*) filter (where date_diff('day', previous_week, week) > 7) as returning_users,
    count(*) as active_users
from labelled group by week
