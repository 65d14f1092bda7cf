with done as (
    select issue_id, min(cast(happened_at as date)) as done_on from history where field = 'status' and value = 'done' group by 1
), points as (
    select issues.sprint_id, done.done_on, sum(coalesce(issues.points, 1)) as points
    from issues left join done on done.issue_id = issues.id
    where issues.sprint_id is not null
    group by 1, 2
), totals as (
    select sprint_id, sum(points) as total from points group by 1
)
select sprints.name, points.done_on, points.points, totals.total,
    totals.total - sum(points.points) over (partition by points.sprint_id order by points.done_on) as remaining
from points
join totals on totals.sprint_id = points.sprint_id
join sprints on sprints.id = points.sprint_id
where points.done_on is not null and points.done_on >= coalesce(sprints.started, date '2024-01-01') and points.done_on <= coalesce(sprints.ended, date '2099-01-01')
