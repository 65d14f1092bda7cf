//! The circuits: the same joins as differential dataflow's in `bench/peers/src/dataflows.rs`, in the same order.

use anyhow::{Result, anyhow, bail};
use dbsp::circuit::Runtime;
use dbsp::typed_batch::{IndexedZSetReader, SpineSnapshot};
use dbsp::utils::{Tup2, Tup3, Tup4, Tup5};
use dbsp::{DBSPHandle, OrdZSet, OutputHandle, RootCircuit, Stream as Flow, ZSetHandle, ZWeight};

use crate::drive::{Engine, Spec, drive};
use crate::stream::{Stream, Update};
use crate::tally;

type Edge = Tup2<u32, u32>;
type Edges = Flow<RootCircuit, OrdZSet<Edge>>;

struct Circuit {
    handle: DBSPHandle,
    edges: ZSetHandle<Edge>,
    nodes: [ZSetHandle<u32>; 2],
    output: Output,
}

/// The output of a circuit, by its width.
#[derive(Clone)]
enum Output {
    Three(OutputHandle<SpineSnapshot<OrdZSet<Tup3<u32, u32, u32>>>>),
    Four(OutputHandle<SpineSnapshot<OrdZSet<Tup4<u32, u32, u32, u32>>>>),
    Five(OutputHandle<SpineSnapshot<OrdZSet<Tup5<u32, u32, u32, u32, u32>>>>),
    Count(OutputHandle<SpineSnapshot<OrdZSet<ZWeight>>>),
    Counts(OutputHandle<SpineSnapshot<OrdZSet<Tup2<u32, ZWeight>>>>),
}

impl Output {
    fn take(&self) {
        match self {
            Output::Three(rows) => rows
                .concat()
                .iter()
                .for_each(|(Tup3(a, b, c), (), w)| tally::row(&[a as u64, b as u64, c as u64], w)),
            Output::Four(rows) => rows
                .concat()
                .iter()
                .for_each(|(Tup4(a, b, c, d), (), w)| tally::row(&[a as u64, b as u64, c as u64, d as u64], w)),
            Output::Five(rows) => rows.concat().iter().for_each(|(Tup5(a, b, c, d, e), (), w)| {
                tally::row(&[a as u64, b as u64, c as u64, d as u64, e as u64], w)
            }),
            Output::Count(rows) => rows.concat().iter().for_each(|(n, (), w)| tally::row(&[n as u64], w)),
            Output::Counts(rows) => rows
                .concat()
                .iter()
                .for_each(|(Tup2(s, n), (), w)| tally::row(&[s as u64, n as u64], w)),
        }
    }
}

impl Engine for Circuit {
    fn apply(&mut self, batch: &[Update]) -> Result<()> {
        let mut edges = Vec::with_capacity(batch.len());
        let mut nodes = [Vec::new(), Vec::new()];
        for u in batch {
            match u.relation {
                0 => edges.push(Tup2(Tup2(u.a, u.b), u.weight as ZWeight)),
                i => nodes[i as usize - 1].push(Tup2(u.a, u.weight as ZWeight)),
            }
        }
        self.edges.append(&mut edges);
        for (handle, rows) in self.nodes.iter().zip(&mut nodes) {
            handle.append(rows);
        }
        self.handle.transaction()?;
        self.output.take();
        Ok(())
    }
}

/// Runs a workload in one worker thread.
pub fn run(spec: Spec, stream: Stream) -> Result<()> {
    let (workload, n) = (spec.workload.clone(), spec.threshold);
    let (handle, (edges, nodes, output)) = Runtime::init_circuit(1, move |circuit| {
        let (edges, edges_in) = circuit.add_input_zset::<Edge>();
        let (first, first_in) = circuit.add_input_zset::<u32>();
        let (second, second_in) = circuit.add_input_zset::<u32>();
        let output = build(&workload, n, edges, first, second)?;
        Ok((edges_in, [first_in, second_in], output))
    })
    .map_err(|e| anyhow!("{e}"))?;
    let mut engine = Circuit { handle, edges, nodes, output };
    drive(&mut engine, &stream, &spec)?;
    engine.handle.kill().map_err(|_| anyhow!("the circuit did not stop"))
}

fn build(
    workload: &str,
    n: u32,
    edges: Edges,
    first: Flow<RootCircuit, OrdZSet<u32>>,
    second: Flow<RootCircuit, OrdZSet<u32>>,
) -> Result<Output> {
    let by_source = edges.map_index(|Tup2(s, d)| (*s, *d));
    let by_target = edges.map_index(|Tup2(s, d)| (*d, *s));
    let last = edges.filter(move |Tup2(_, d)| *d > n).map_index(|Tup2(s, d)| (*s, *d));
    Ok(match workload {
        "3-hop" => Output::Four(
            by_target
                .join_index(&last, |c, b, d| Some((*b, Tup2(*c, *d))))
                .join(&by_target, |b, Tup2(c, d), a| Tup4(*a, *b, *c, *d))
                .accumulate_output(),
        ),
        "4-hop" => Output::Five(
            by_target
                .join_index(&last, |d, c, e| Some((*c, Tup2(*d, *e))))
                .join_index(&by_target, |c, Tup2(d, e), b| Some((*b, Tup3(*c, *d, *e))))
                .join(&by_target, |b, Tup3(c, d, e), a| Tup5(*a, *b, *c, *d, *e))
                .accumulate_output(),
        ),
        "4-hop-jp" => {
            let ends = last.map(|(d, _)| *d).distinct().map_index(|d| (*d, ()));
            let starts = edges.map(|Tup2(_, b)| *b).distinct().map_index(|b| (*b, ()));
            let right = by_target.join_index(&ends, |d, c, ()| Some((*c, *d)));
            let left = by_source.join_index(&starts, |b, c, ()| Some((*c, *b)));
            Output::Three(left.join(&right, |c, b, d| Tup3(*b, *c, *d)).accumulate_output())
        }
        "2-comb" => {
            let heads = by_source.join_index(&first.map_index(|v| (*v, ())), |a, b, ()| Some((*b, *a)));
            let tails = by_target.join_index(&second.map_index(|v| (*v, ())), |d, c, ()| Some((*c, *d)));
            Output::Four(
                by_target
                    .join_index(&tails, |c, b, d| Some((*b, Tup2(*c, *d))))
                    .join(&heads, |b, Tup2(c, d), a| Tup4(*a, *b, *c, *d))
                    .accumulate_output(),
            )
        }
        "triangle" => {
            let closing = edges.map_index(|Tup2(c, a)| (Tup2(*a, *c), ()));
            Output::Three(
                by_target
                    .join_index(&by_source, |b, a, c| Some((Tup2(*a, *c), *b)))
                    .join(&closing, |Tup2(a, c), b, ()| Tup3(*a, *b, *c))
                    .accumulate_output(),
            )
        }
        "4-cycle" => {
            let kept = edges.filter(move |Tup2(_, d)| *d > n).map_index(|Tup2(c, d)| (*d, *c));
            let back = edges.filter(move |Tup2(d, _)| *d > n).map_index(|Tup2(d, a)| (*d, *a));
            let closing = edges.map_index(|Tup2(a, b)| (Tup2(*a, *b), ()));
            Output::Four(
                kept.join_index(&back, |d, c, a| Some((*c, Tup2(*d, *a))))
                    .join_index(&by_target, |c, Tup2(d, a), b| Some((Tup2(*a, *b), Tup2(*c, *d))))
                    .join(&closing, |Tup2(a, b), Tup2(c, d), ()| Tup4(*a, *b, *c, *d))
                    .accumulate_output(),
            )
        }
        "agg-star" => Output::Counts(
            edges
                .map(|Tup2(s, _)| *s)
                .weighted_count()
                .map(|(s, n)| Tup2(*s, n.pow(4)))
                .accumulate_output(),
        ),
        // Weights do the counting: a relation without its last column holds, per key, how many rows there were.
        "agg-3-hop" | "agg-3-hop-by" => {
            let tails = edges.map(|Tup2(c, _)| *c).map_index(|c| (*c, ()));
            let paths = by_target.join_index(&tails, |_, b, ()| Some((*b, ())));
            if workload == "agg-3-hop" {
                let targets = edges.map(|Tup2(_, b)| *b).map_index(|b| (*b, ()));
                let all = paths.join(&targets, |_, (), ()| ());
                Output::Count(all.weighted_count().map(|((), n)| *n).accumulate_output())
            } else {
                let found = paths.join(&by_target, |_, (), a| *a);
                Output::Counts(found.weighted_count().map(|(a, n)| Tup2(*a, *n)).accumulate_output())
            }
        }
        other => bail!("no circuit is written for {other}"),
    })
}
