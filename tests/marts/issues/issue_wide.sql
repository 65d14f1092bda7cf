with latest as (
    select issue_id, field, value,
        row_number() over (partition by issue_id, field order by happened_at desc nulls last, value nulls last, author) as recency
    from history
), pivoted as (
    select issue_id,
        max(case when field = 'status' then value end) as status,
        min(case when field = 'status' then issue_id end) as status_of,
        max(case when field = 'points' then value end) as points
    from latest where recency = 1 group by issue_id
), epics as (
    select id, kind from issues where kind = 'epic'
)
select issues.id, issues.kind, pivoted.status, pivoted.status_of,
    coalesce(try_cast(pivoted.points as bigint), issues.points, 0) as points,
    epics.id as epic_id,
    (select count(*) from issues as child where child.parent_id = issues.id) as children,
    exists (select 1 from worklogs where worklogs.issue_id = issues.id and worklogs.minutes > 30) as worked_on
from issues
left join pivoted on pivoted.issue_id = issues.id
left join epics on epics.id = issues.parent_id
