with replies as (
    select comments.ticket_id, comments.created_at as replied_at, comments.author_id,
        row_number() over (partition by comments.ticket_id order by comments.created_at, comments.id) as reply_number
    from comments join tickets on tickets.id = comments.ticket_id
    where comments.public and comments.author_id <> tickets.requester_id and comments.created_at >= tickets.created_at
), first_replies as (
    select ticket_id, replied_at, author_id from replies where reply_number = 1
)
select tickets.id as ticket_id, tickets.status, coalesce(tickets.priority, 'none') as priority, first_replies.author_id,
    date_diff('minute', tickets.created_at, first_replies.replied_at) as minutes,
    case when first_replies.replied_at is null then null
        else date_diff('minute', tickets.created_at, first_replies.replied_at) <= policies.target_minutes end as within_target
from tickets
left join first_replies on first_replies.ticket_id = tickets.id
left join (select priority, min(target_minutes) as target_minutes from policies group by priority) policies
    on policies.priority = tickets.priority
