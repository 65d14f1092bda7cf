select 'meta' as platform, campaign_id from meta where campaign_id not in (select id from campaigns where platform = 'meta')
union
select 'google' as platform, campaign_id from google
where not exists (select 1 from campaigns where campaigns.id = google.campaign_id and campaigns.platform = 'google')
except
select platform, id from campaigns
