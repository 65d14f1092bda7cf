with daily as (
    select campaign_id, day, sum(spend) as spend from meta where day is not null group by 1, 2
), running as (
    select campaign_id, day, spend,
        sum(spend) over (partition by campaign_id, date_trunc('month', day) order by day) as month_to_date,
        avg(cast(spend as double)) over (partition by campaign_id order by day range between interval '7' day preceding and current row) as mean_7_days,
        lead(day) over (partition by campaign_id order by day) as next_day
    from daily
)
select campaign_id, day, spend, month_to_date, mean_7_days,
    next_day is null as is_latest, coalesce(date_diff('day', day, next_day), 0) as gap
from running
