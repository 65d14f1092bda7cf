with spends as (
    select 'meta' as platform, day, spend from meta union all select 'linkedin', day, cost from linkedin
)
select * from (select platform, day, spend from spends where spend is not null)
pivot (sum(spend) for platform in ('meta' as meta, 'linkedin' as linkedin))
