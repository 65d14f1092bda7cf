with steps as (
    select person_id, string_agg(kind, ' > ' order by happened_at, id) as journey, count(*) as steps, min(happened_at) as started
    from events where happened_at is not null group by person_id
)
select journey, count(*) as people, min(started) as first_started, sum(steps) as steps
from steps group by journey
