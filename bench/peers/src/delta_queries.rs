//! Differential dataflow, delta queries: one rule per input, joined with the other inputs' arrangements by
//! `half_join`, so that no intermediate result is kept.
//!
//! Rule i sees the changes of an input j < i that come at the same time, and not those of j > i.

use anyhow::{Result, bail};
use differential_dataflow::AsCollection;
use differential_dataflow::VecCollection;
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::implementations::ValSpine;
use differential_dogs3::operators::half_join;
use timely::dataflow::operators::probe::Handle;
use timely::dataflow::operators::vec::Map;
use timely::progress::Antichain;

use crate::dataflows::{Edges, deliver};
use crate::drive::Spec;

type Changes<'s, V> = VecCollection<'s, u64, (u32, V, u64), isize>;
type Index<'s> = Arranged<'s, TraceAgent<ValSpine<u32, u32, u64, isize>>>;

/// Returns the changes of an input: key, what goes along, and when it happened.
fn changes<'s>(edges: Edges<'s>, reverse: bool) -> Changes<'s, u32> {
    edges
        .inner
        .map(move |((s, d), t, r)| (if reverse { (d, s, t) } else { (s, d, t) }, t, r))
        .as_collection()
}

/// Joins with another input: `seen` says whether its changes of the same time count.
fn look<'s, V, O, F>(rows: Changes<'s, V>, index: Index<'s>, seen: bool, f: F) -> Changes<'s, O>
where
    V: differential_dataflow::ExchangeData,
    O: differential_dataflow::ExchangeData,
    F: Fn(u32, &V, u32) -> (u32, O) + 'static,
{
    let before = |time: &u64, found: &mut Antichain<u64>| {
        found.insert(time.saturating_sub(1));
    };
    half_join(
        rows,
        index,
        before,
        move |found, now| if seen { found <= now } else { found < now },
        move |k: &u32, v: &V, w: &u32| f(*k, v, *w),
    )
    .inner
    .map(|(((k, v), t), initial, r)| ((k, v, t), initial, r))
    .as_collection()
}

pub fn build(spec: &Spec, edges: Edges<'_>, probe: &mut Handle<u64>) -> Result<()> {
    let n = spec.threshold;
    let filtered = edges.clone().filter(move |&(_, d)| d > n);
    let out: Index<'_> = edges.clone().arrange_by_key();
    let into: Index<'_> = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
    let last: Index<'_> = filtered.clone().arrange_by_key();
    match spec.workload.as_str() {
        "3-hop" => {
            let first = changes(edges.clone(), true); // (b, a)
            let first = look(first, out, false, |b, &a, c| (c, (a, b)));
            let first = look(first, last.clone(), false, |c, &(a, b), d| (a, (b, c, d)));
            let second = changes(edges, false); // (b, c)
            let second = look(second, into.clone(), true, |b, &c, a| (c, (a, b)));
            let second = look(second, last, false, |c, &(a, b), d| (a, (b, c, d)));
            let third = changes(filtered, false); // (c, d)
            let third = look(third, into.clone(), true, |c, &d, b| (b, (c, d)));
            let third = look(third, into, true, |b, &(c, d), a| (a, (b, c, d)));
            let rows = first.concat(second).concat(third);
            deliver(rows, probe, |&(a, (b, c, d), _), f| f(&[a as u64, b as u64, c as u64, d as u64]));
        }
        "4-hop" => {
            let first = changes(edges.clone(), true); // (b, a)
            let first = look(first, out.clone(), false, |b, &a, c| (c, (a, b)));
            let first = look(first, out.clone(), false, |c, &(a, b), d| (d, (a, b, c)));
            let first = look(first, last.clone(), false, |d, &(a, b, c), e| (a, (b, c, d, e)));
            let second = changes(edges.clone(), true); // (c, b)
            let second = look(second, out, false, |c, &b, d| (d, (b, c)));
            let second = look(second, last.clone(), false, |d, &(b, c), e| (b, (c, d, e)));
            let second = look(second, into.clone(), true, |b, &(c, d, e), a| (a, (b, c, d, e)));
            let third = changes(edges, true); // (d, c)
            let third = look(third, last, false, |d, &c, e| (c, (d, e)));
            let third = look(third, into.clone(), true, |c, &(d, e), b| (b, (c, d, e)));
            let third = look(third, into.clone(), true, |b, &(c, d, e), a| (a, (b, c, d, e)));
            let fourth = changes(filtered, false); // (d, e)
            let fourth = look(fourth, into.clone(), true, |d, &e, c| (c, (d, e)));
            let fourth = look(fourth, into.clone(), true, |c, &(d, e), b| (b, (c, d, e)));
            let fourth = look(fourth, into, true, |b, &(c, d, e), a| (a, (b, c, d, e)));
            let rows = first.concat(second).concat(third).concat(fourth);
            deliver(rows, probe, |&(a, (b, c, d, e), _), f| {
                f(&[a as u64, b as u64, c as u64, d as u64, e as u64])
            });
        }
        other => bail!("no delta queries are written for {other}"),
    }
    Ok(())
}
