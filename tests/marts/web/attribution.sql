with touches as (
    select user_id, happened_at, source from events where source is not null and happened_at is not null
), purchases as (
    select user_id, happened_at, sum(value) as value from events where name = 'purchase' and happened_at is not null group by user_id, happened_at
), matched as (
    select purchases.user_id, purchases.happened_at, purchases.value, touches.source,
        row_number() over (partition by purchases.user_id, purchases.happened_at order by touches.happened_at, touches.source) as first_touch,
        row_number() over (partition by purchases.user_id, purchases.happened_at order by touches.happened_at desc, touches.source desc) as last_touch,
        count(*) over (partition by purchases.user_id, purchases.happened_at) as touches
    from purchases join touches on touches.user_id = purchases.user_id and touches.happened_at <= purchases.happened_at
)
select source,
    sum(case when first_touch = 1 then value else 0 end) as first_touch_value,
    sum(case when last_touch = 1 then value else 0 end) as last_touch_value,
    sum(cast(value as double) / touches) as linear_value,
    count(*) as touches
from matched group by source
