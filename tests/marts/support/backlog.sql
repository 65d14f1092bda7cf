with days as (
    select distinct cast(created_at as date) as day from tickets where created_at is not null
)
select days.day, coalesce(agents.team, 'none') as team, count(tickets.id) as open_tickets,
    count(*) filter (where tickets.priority = 'high') as high,
    min(tickets.created_at) as oldest
from days
join tickets on cast(tickets.created_at as date) <= days.day
    and (tickets.solved_at is null or cast(tickets.solved_at as date) > days.day)
left join agents on agents.id = tickets.assignee_id
group by 1, 2
