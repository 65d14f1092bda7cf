with ordered as (
    select *, lag(happened_at) over (partition by user_id order by happened_at, name, page, source, value) as previous_at
    from events where user_id is not null and happened_at is not null
), flagged as (
    select *, case when previous_at is null or date_diff('minute', previous_at, happened_at) > 30 then 1 else 0 end as is_new from ordered
), numbered as (
    select *, sum(is_new) over (partition by user_id order by happened_at range between unbounded preceding and current row) as session_number from flagged
), sessions as (
    select user_id, session_number, min(happened_at) as started_at, max(happened_at) as ended_at, count(*) as events,
        count(*) filter (where name = 'page_view') as views, sum(value) as value,
        max(case when name = 'purchase' then 1 else 0 end) as converted
    from numbered group by user_id, session_number
)
select md5(cast(user_id as varchar) || '|' || cast(session_number as varchar)) as session_key, user_id, session_number, started_at,
    date_diff('second', started_at, ended_at) as seconds, events, views, value, converted = 1 as converted
from sessions
