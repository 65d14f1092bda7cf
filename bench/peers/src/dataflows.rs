//! Differential dataflow, binary joins: filters and semi-joins first, arrangements shared, the order that keeps
//! intermediate results smallest. Written by hand for each workload, as its users do.

use anyhow::{Result, anyhow, bail};
use differential_dataflow::VecCollection;
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::operators::CountTotal;
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::implementations::KeySpine;
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

use crate::drive::{Engine, Spec, drive};
use crate::stream::{Stream, Update};
use crate::{delta_queries, tally};

pub type Edges<'s> = VecCollection<'s, u64, (u32, u32), isize>;
pub type Nodes<'s> = VecCollection<'s, u64, u32, isize>;

struct Dataflow<'w> {
    worker: &'w mut Worker,
    edges: InputSession<u64, (u32, u32), isize>,
    nodes: [InputSession<u64, u32, isize>; 2],
    probe: Handle<u64>,
    time: u64,
}

impl Engine for Dataflow<'_> {
    fn apply(&mut self, batch: &[Update]) -> Result<()> {
        for u in batch {
            match u.relation {
                0 => self.edges.update((u.a, u.b), u.weight as isize),
                i => self.nodes[i as usize - 1].update(u.a, u.weight as isize),
            }
        }
        self.time += 1;
        self.edges.advance_to(self.time);
        self.edges.flush();
        for input in &mut self.nodes {
            input.advance_to(self.time);
            input.flush();
        }
        while self.probe.less_than(&self.time) {
            self.worker.step();
        }
        Ok(())
    }
}

/// Runs a workload in one worker thread.
pub fn run(spec: Spec, stream: Stream) -> Result<()> {
    let guards = timely::execute(timely::Config::thread(), move |worker| -> Result<(), String> {
        let mut probe = Handle::new();
        let (edges, nodes, found) = worker.dataflow(|scope| {
            let (edges_in, edges) = scope.new_collection();
            let (first_in, first) = scope.new_collection();
            let (second_in, second) = scope.new_collection();
            let found = build(&spec, edges, first, second, &mut probe);
            (edges_in, [first_in, second_in], found)
        });
        found.map_err(|e| e.to_string())?;
        let mut engine = Dataflow { worker, edges, nodes, probe, time: 0 };
        drive(&mut engine, &stream, &spec).map_err(|e| e.to_string())
    })
    .map_err(|e| anyhow!(e))?;
    for result in guards.join() {
        result.map_err(|e| anyhow!(e))?.map_err(|e| anyhow!(e))?;
    }
    Ok(())
}

/// Counts the rows of a collection, and probes it.
pub fn deliver<'s, D, F>(result: VecCollection<'s, u64, D, isize>, probe: &mut Handle<u64>, values: F)
where
    D: differential_dataflow::ExchangeData,
    F: Fn(&D, &mut dyn FnMut(&[u64])) + 'static,
{
    result
        .inspect(move |(row, _, weight)| values(row, &mut |v| tally::row(v, *weight as i64)))
        .probe_with(probe);
}

type Counted<'s> = Arranged<'s, TraceAgent<KeySpine<u32, u64, isize>>>;

/// Returns the targets of edges, as often as there are edges to them.
fn targets(edges: Edges<'_>) -> Counted<'_> {
    edges.map(|(_, b)| b).arrange_by_self()
}

/// Returns every b as often as there are paths (b, c, d).
fn two_hops<'s>(edges: &Edges<'s>) -> Counted<'s> {
    let tails = edges.clone().map(|(c, _)| c).arrange_by_self();
    let by_target = edges.clone().map(|(b, c)| (c, b)).arrange_by_key();
    by_target.join_core(tails, |_, &b, ()| Some(b)).arrange_by_self()
}

fn build(spec: &Spec, edges: Edges<'_>, first: Nodes<'_>, second: Nodes<'_>, probe: &mut Handle<u64>) -> Result<()> {
    if spec.engine == "dd-delta" {
        return delta_queries::build(spec, edges, probe);
    }
    let n = spec.threshold;
    match spec.workload.as_str() {
        "3-hop" => {
            let last = edges.clone().filter(move |&(_, d)| d > n).arrange_by_key();
            let by_target = edges.map(|(s, d)| (d, s)).arrange_by_key();
            let rows = by_target
                .clone()
                .join_core(last, |&c, &b, &d| Some((b, (c, d))))
                .arrange_by_key()
                .join_core(by_target, |&b, &(c, d), &a| Some((a, b, c, d)));
            deliver(rows, probe, |&(a, b, c, d), f| f(&[a as u64, b as u64, c as u64, d as u64]));
        }
        "4-hop" => {
            let last = edges.clone().filter(move |&(_, e)| e > n).arrange_by_key();
            let by_target = edges.map(|(s, d)| (d, s)).arrange_by_key();
            let rows = by_target
                .clone()
                .join_core(last, |&d, &c, &e| Some((c, (d, e))))
                .arrange_by_key()
                .join_core(by_target.clone(), |&c, &(d, e), &b| Some((b, (c, d, e))))
                .arrange_by_key()
                .join_core(by_target, |&b, &(c, d, e), &a| Some((a, b, c, d, e)));
            deliver(rows, probe, |&(a, b, c, d, e), f| {
                f(&[a as u64, b as u64, c as u64, d as u64, e as u64])
            });
        }
        "4-hop-jp" => {
            let ends = edges.clone().filter(move |&(_, e)| e > n).map(|(d, _)| d).distinct().arrange_by_self();
            let starts = edges.clone().map(|(_, b)| b).distinct().arrange_by_self();
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let last = by_target.clone().join_core(ends, |&d, &c, ()| Some((c, d))).arrange_by_key();
            let middle = edges.arrange_by_key().join_core(starts, |&b, &c, ()| Some((c, b))).arrange_by_key();
            let rows = middle.join_core(last, |&c, &b, &d| Some((b, c, d)));
            deliver(rows, probe, |&(b, c, d), f| f(&[b as u64, c as u64, d as u64]));
        }
        "2-comb" => {
            let by_source = edges.clone().arrange_by_key();
            let by_target = edges.map(|(s, d)| (d, s)).arrange_by_key();
            let heads = by_source
                .join_core(first.arrange_by_self(), |&a, &b, ()| Some((b, a)))
                .arrange_by_key();
            let tails = by_target
                .clone()
                .join_core(second.arrange_by_self(), |&d, &c, ()| Some((c, d)))
                .arrange_by_key();
            let rows = by_target
                .join_core(tails, |&c, &b, &d| Some((b, (c, d))))
                .arrange_by_key()
                .join_core(heads, |&b, &(c, d), &a| Some((a, b, c, d)));
            deliver(rows, probe, |&(a, b, c, d), f| f(&[a as u64, b as u64, c as u64, d as u64]));
        }
        "triangle" => {
            let by_source = edges.clone().arrange_by_key();
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let closing = edges.map(|(c, a)| (a, c)).arrange_by_self();
            let rows = by_target
                .join_core(by_source, |&b, &a, &c| Some(((a, c), b)))
                .arrange_by_key()
                .join_core(closing, |&(a, c), &b, ()| Some((a, b, c)));
            deliver(rows, probe, |&(a, b, c), f| f(&[a as u64, b as u64, c as u64]));
        }
        "4-cycle" => {
            let last = edges.clone().filter(move |&(_, d)| d > n).map(|(c, d)| (d, c)).arrange_by_key();
            let back = edges.clone().filter(move |&(d, _)| d > n).arrange_by_key();
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let rows = last
                .join_core(back, |&d, &c, &a| Some((c, (d, a))))
                .arrange_by_key()
                .join_core(by_target, |&c, &(d, a), &b| Some(((a, b), (c, d))))
                .arrange_by_key()
                .join_core(edges.arrange_by_self(), |&(a, b), &(c, d), ()| Some((a, b, c, d)));
            deliver(rows, probe, |&(a, b, c, d), f| f(&[a as u64, b as u64, c as u64, d as u64]));
        }
        "agg-star" => {
            let rows = edges.map(|(s, _)| s).count_total();
            deliver(rows, probe, |&(s, n), f| f(&[s as u64, (n as u64).pow(4)]));
        }
        // Multiplicities do the counting: a relation without its last column holds, per key, how many rows there were.
        "agg-3-hop" => {
            let rows = two_hops(&edges).join_core(targets(edges), |_, (), ()| Some(())).count_total();
            deliver(rows, probe, |&((), n), f| f(&[n as u64]));
        }
        "agg-3-hop-by" => {
            let by_target = edges.clone().map(|(s, d)| (d, s)).arrange_by_key();
            let rows = two_hops(&edges).join_core(by_target, |_, (), &a| Some(a)).count_total();
            deliver(rows, probe, |&(a, n), f| f(&[a as u64, n as u64]));
        }
        other => bail!("no dataflow is written for {other}"),
    }
    Ok(())
}
