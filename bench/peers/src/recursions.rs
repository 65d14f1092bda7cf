//! Recursions in differential dataflow: a variable that is empty at first and gets what one step derives from it, as in
//! `algorithms::graphs::propagate` of the crate. Rows are distinct in the loop, and consolidated when they leave it: a
//! row that goes in one round and comes back in a later one is no delta.

use anyhow::{Result, bail};
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::operators::iterate::Variable;
use differential_dataflow::trace::implementations::{KeyBuilder, KeySpine, ValSpine};
use timely::order::Product;

use crate::dataflow::{Rows, Setup};
use crate::drive::small;
use crate::graphs;

type BySource<'s> = Arranged<'s, TraceAgent<ValSpine<u32, u32, u64, isize>>>;

pub fn build(setup: &mut Setup) -> Result<()> {
    match setup.spec.workload.as_str() {
        "rec-reach" => {
            let sources = setup.table("S", ["v"], |[v]| small(v))?;
            let edges = graphs::edges(setup)?.arrange_by_key();
            setup.deliver(reachable(sources, edges), |&x, f| f(&[x as i64]));
        }
        "rec-reach-100" => {
            let sources = setup.table("S", ["v"], |[v]| (small(v), small(v)))?;
            let edges = graphs::edges(setup)?.arrange_by_key();
            setup.deliver(paths(sources, edges), |&(x, s), f| f(&[s as i64, x as i64]));
        }
        "rec-closure" => {
            let edges = graphs::edges(setup)?;
            let first = edges.clone().map(|(a, b)| (b, a));
            setup.deliver(paths(first, edges.arrange_by_key()), |&(b, a), f| f(&[a as i64, b as i64]));
        }
        "rec-folders" => {
            let tree = setup.table("T", ["parent", "id"], |[p, i]| (small(p), small(i)))?;
            let first = tree.clone().map(|(p, i)| (i, p));
            setup.deliver(paths(first, tree.arrange_by_key()), |&(i, folder), f| f(&[folder as i64, i as i64]));
        }
        other => bail!("no dataflow is written for {other}"),
    }
    Ok(())
}

/// Returns the nodes that can be reached. What makes them distinct arranges them, and the join reads that.
fn reachable<'s>(sources: Rows<'s, u32>, edges: BySource<'s>) -> Rows<'s, u32> {
    let outer = sources.scope();
    outer
        .scoped::<Product<u64, u64>, _, _>("Reachable", |scope| {
            let edges = edges.enter(scope);
            let (variable, derived) = Variable::new(scope, Product::new(Default::default(), 1));
            let reached = derived
                .concat(sources.enter(scope))
                .arrange_by_self()
                .reduce_abelian::<_, KeyBuilder<u32, _, isize>, KeySpine<u32, _, isize>, _, _>(
                    "Distinct",
                    |_, _, out| out.push(((), 1)),
                    |out, &x, updates| {
                        out.clear();
                        out.extend(updates.drain(..).map(|((), time, weight)| ((x, ()), time, weight)));
                    },
                );
            variable.set(reached.clone().join_core(edges, |_, (), &x| Some(x)));
            reached.as_collection(|&x, ()| x).leave(outer)
        })
        .consolidate()
}

/// Returns the ends of paths with their starts: (end, start).
fn paths<'s>(first: Rows<'s, (u32, u32)>, edges: BySource<'s>) -> Rows<'s, (u32, u32)> {
    let outer = first.scope();
    outer
        .scoped::<Product<u64, u64>, _, _>("Paths", |scope| {
            let edges = edges.enter(scope);
            let (variable, derived) = Variable::new(scope, Product::new(Default::default(), 1));
            let found = derived.concat(first.enter(scope)).distinct();
            variable.set(found.clone().arrange_by_key().join_core(edges, |_, &s, &x| Some((x, s))));
            found.leave(outer)
        })
        .consolidate()
}
