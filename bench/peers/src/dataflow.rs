//! A dataflow in one worker thread: the tables of the stream come in, the rows of the result are counted as they change.

use anyhow::{Error, Result, anyhow, ensure};
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::operators::ThresholdTotal;
use differential_dataflow::{Data, ExchangeData, Hashable, VecCollection};
use timely::dataflow::Scope;
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

use crate::drive::{Engine, Spec, drive};
use crate::stream::{Stream, Update};
use crate::{delta_queries, graphs, recursions, snb, tally, tpch};

pub type Rows<'s, D> = VecCollection<'s, u64, D, isize>;

/// What a dataflow is made of: where it gets its tables from, and the probe that says when a batch is through.
pub struct Setup<'a, 's> {
    pub spec: &'a Spec,
    pub scope: Scope<'s, u64>,
    inputs: Vec<(usize, Box<dyn Take>)>,
    probe: Handle<u64>,
}

impl<'s> Setup<'_, 's> {
    /// Returns a table of the stream as a collection; `make` makes its rows of these columns.
    pub fn table<const N: usize, D: Data>(
        &mut self,
        name: &str,
        columns: [&str; N],
        make: impl Fn([i64; N]) -> D + 'static,
    ) -> Result<Rows<'s, D>> {
        let (number, places) = self.spec.find(name, columns)?;
        let (session, rows) = self.scope.new_collection();
        self.inputs.push((number, Box::new(Table { session, places, make })));
        Ok(rows)
    }

    /// Counts the rows of the result, which `values` turns into those of the checksum.
    pub fn deliver<D: ExchangeData>(
        &mut self,
        result: Rows<'s, D>,
        values: impl Fn(&D, &mut dyn FnMut(&[i64])) + 'static,
    ) {
        result
            .inspect(move |(row, _, weight)| values(row, &mut |v| tally::row(v, *weight as i64)))
            .probe_with(&self.probe);
    }
}

/// Returns every row once. (`distinct_total` of this version keeps rows that have gone.)
pub fn distinct<D: ExchangeData + Hashable>(rows: Rows<'_, D>) -> Rows<'_, D> {
    rows.threshold_total(|_, &n| isize::from(n != 0))
}

/// A table as an input.
trait Take {
    fn take(&mut self, row: &[i64], weight: isize);
    fn advance(&mut self, time: u64);
}

struct Table<D: Data, F, const N: usize> {
    session: InputSession<u64, D, isize>,
    places: [usize; N],
    make: F,
}

impl<D: Data, F: Fn([i64; N]) -> D, const N: usize> Take for Table<D, F, N> {
    fn take(&mut self, row: &[i64], weight: isize) {
        self.session.update((self.make)(self.places.map(|place| row[place])), weight);
    }

    fn advance(&mut self, time: u64) {
        self.session.advance_to(time);
        self.session.flush();
    }
}

struct Dataflow<'w> {
    worker: &'w mut Worker,
    inputs: Vec<Box<dyn Take>>,
    probe: Handle<u64>,
    time: u64,
}

impl Engine for Dataflow<'_> {
    fn apply(&mut self, stream: &Stream, batch: &[Update]) -> Result<()> {
        for update in batch {
            self.inputs[update.table as usize].take(stream.row(update), update.weight as isize);
        }
        self.time += 1;
        for input in &mut self.inputs {
            input.advance(self.time);
        }
        while self.probe.less_than(&self.time) {
            self.worker.step();
        }
        Ok(())
    }
}

/// Runs a workload.
pub fn run(spec: Spec, stream: Stream) -> Result<()> {
    let guards = timely::execute(timely::Config::thread(), move |worker| -> Result<(), String> {
        let (inputs, probe) = worker
            .dataflow(|scope| {
                let mut setup = Setup { spec: &spec, scope, inputs: Vec::new(), probe: Handle::new() };
                build(&mut setup)?;
                setup.inputs.sort_by_key(|(number, _)| *number);
                ensure!(setup.inputs.len() == spec.tables.len(), "the dataflow does not read every table once");
                Ok((setup.inputs.into_iter().map(|(_, input)| input).collect(), setup.probe))
            })
            .map_err(|e: Error| e.to_string())?;
        let mut engine = Dataflow { worker, inputs, probe, time: 0 };
        drive(&mut engine, &stream, &spec).map_err(|e| e.to_string())
    })
    .map_err(|e| anyhow!(e))?;
    for result in guards.join() {
        result.map_err(|e| anyhow!(e))?.map_err(|e| anyhow!(e))?;
    }
    Ok(())
}

fn build(setup: &mut Setup) -> Result<()> {
    match setup.spec.workload.as_str() {
        _ if setup.spec.engine == "dd-delta" => delta_queries::build(setup),
        name if name.starts_with("agg-tpch-") => tpch::build(setup),
        name if name.starts_with("rec-") => recursions::build(setup),
        name if name.starts_with("snb-") => snb::build(setup),
        _ => graphs::build(setup),
    }
}
