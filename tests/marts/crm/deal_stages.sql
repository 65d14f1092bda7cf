with ordered as (
    select deal_id, stage, happened_at,
        lag(stage) over (partition by deal_id order by happened_at, stage) as previous_stage,
        lead(happened_at) over (partition by deal_id order by happened_at, stage) as left_at,
        row_number() over (partition by deal_id order by happened_at desc, stage desc) as recency,
        case stage when 'lead' then 1 when 'demo' then 2 when 'won' then 3 else 0 end as place
    from stages where happened_at is not null
)
select md5(concat_ws('-', cast(deal_id as varchar), stage, cast(happened_at as varchar))) as stage_key, deal_id, stage, previous_stage,
    happened_at as entered_at, left_at, recency = 1 as is_current, max(place) over (partition by deal_id order by happened_at, stage rows unbounded preceding) as furthest
from ordered
