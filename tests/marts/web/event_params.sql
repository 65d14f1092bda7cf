with unnested as (
    select events.user_id, events.name, events.happened_at, p.key as param, p.value as param_value
    from (select user_id, name, happened_at, unnest(params) as p from events) as events
)
select name, param, count(*) as events, count(distinct user_id) as users, max(param_value) as largest,
    string_agg(distinct param_value, '|' order by param_value) as seen
from unnested where param is not null
group by name, param
