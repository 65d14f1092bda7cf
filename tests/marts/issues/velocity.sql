with sprint_points as (
    select sprints.id, sprints.started, sum(coalesce(issues.points, 0)) as points
    from sprints left join issues on issues.sprint_id = sprints.id
    group by sprints.id, sprints.started
)
select id, points,
    avg(points) over (order by started, id rows between 2 preceding and current row) as rolling,
    first_value(points) over (order by started, id) as first_points,
    points - lag(points, 1, 0) over (order by started, id) as gained,
    ntile(2) over (order by points, started, id) as half
from sprint_points
