with versions as (
    select deal_id, stage, happened_at as valid_from, lead(happened_at) over (partition by deal_id order by happened_at, stage) as valid_to from stages
), days as (
    select distinct cast(happened_at as date) as day from activities
)
select days.day, versions.stage, count(*) as deals, sum(coalesce(deals.amount, 0)) as amount
from days
join versions on cast(versions.valid_from as date) <= days.day
    and (versions.valid_to is null or cast(versions.valid_to as date) > days.day)
left join deals on deals.id = versions.deal_id
group by days.day, versions.stage
