with solved as (
    select assignee_id, date_diff('minute', created_at, solved_at) as minutes from tickets where status = 'solved' and solved_at >= created_at
), scores as (
    select assignee_id, count(*) as solved, median(minutes) as median_minutes, quantile_cont(minutes, 0.9) as p90_minutes from solved group by 1
)
select agents.name, agents.team, coalesce(scores.solved, 0) as solved, scores.median_minutes, scores.p90_minutes,
    dense_rank() over (partition by agents.team order by coalesce(scores.solved, 0) desc) as place,
    (select count(*) from comments where comments.author_id = agents.id and comments.public) as public_comments
from agents left join scores on scores.assignee_id = agents.id
where agents.active
