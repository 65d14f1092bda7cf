with google as (
    select 'google' as platform, campaign_id, ad_group as ad_group, day, clicks, impressions, cost_micros / 1000000.0 as spend_raw,
        cast(cost_micros as decimal(18, 2)) as spend
    from google
), meta as (
    select 'meta' as platform, campaign_id, ad_set as ad_group, day, coalesce(clicks, 0) as clicks, impressions, 0.0 as spend_raw,
        cast(spend as decimal(18, 2)) as spend
    from meta
), linkedin as (
    select 'linkedin' as platform, campaign_id, cast(null as varchar) as ad_group, day, clicks, impressions, 0.0 as spend_raw,
        cast(cost as decimal(18, 2)) as spend
    from linkedin
), unioned as (
    select platform, campaign_id, ad_group, day, clicks, impressions, spend from google
    union all
    select platform, campaign_id, ad_group, day, clicks, impressions, spend from meta
    union all
    select platform, campaign_id, ad_group, day, clicks, impressions, spend from linkedin
), latest as (
    select id, platform, name, utm from (
        select *, row_number() over (partition by id order by updated_at desc nulls last, name) as recency from campaigns
    ) as ranked where recency = 1
)
select unioned.platform, unioned.day, coalesce(latest.name, '(unknown)') as campaign, unioned.ad_group,
    sum(unioned.clicks) as clicks, sum(unioned.impressions) as impressions, sum(unioned.spend) as spend,
    cast(sum(unioned.clicks) as double) / nullif(sum(unioned.impressions), 0) as ctr
from unioned
left join latest on latest.id = unioned.campaign_id and latest.platform = unioned.platform
group by 1, 2, 3, 4
