//! A circuit in one worker thread: the tables of the stream come in, the rows of the result are read after every step.

use anyhow::{Result, anyhow, ensure};
use dbsp::circuit::Runtime;
use dbsp::typed_batch::IndexedZSetReader;
use dbsp::utils::Tup2;
use dbsp::{DBData, DBSPHandle, OrdZSet, RootCircuit, Stream as Flow, ZSetHandle, ZWeight};

use crate::drive::{Engine, Spec, drive};
use crate::stream::{Stream, Update};
use crate::{graphs, ordered, recursions, snb, tally, tpch};

pub type Rows<T> = Flow<RootCircuit, OrdZSet<T>>;
/// Counts what a step has changed in the result.
pub type Output = Box<dyn Fn() + Send>;

/// What a circuit is made of: where it gets its tables from.
pub struct Setup<'a> {
    pub spec: &'a Spec,
    pub circuit: &'a mut RootCircuit,
    inputs: Vec<(usize, Box<dyn Take + Send>)>,
}

impl Setup<'_> {
    /// Returns a table of the stream; `make` makes its rows of these columns.
    pub fn table<const N: usize, T: DBData>(
        &mut self,
        name: &str,
        columns: [&str; N],
        make: impl Fn([i64; N]) -> T + Send + 'static,
    ) -> Result<Rows<T>> {
        let (number, places) = self.spec.find(name, columns)?;
        let (rows, handle) = self.circuit.add_input_zset::<T>();
        self.inputs.push((number, Box::new(Table { handle, places, make, rows: Vec::new() })));
        Ok(rows)
    }
}

/// Returns what counts the rows of the result, which `values` turns into those of the checksum.
pub fn deliver<T: DBData>(result: &Rows<T>, values: impl Fn(&T, &mut dyn FnMut(&[i64])) + Send + 'static) -> Output {
    let output = result.accumulate_output();
    Box::new(move || {
        output.concat().iter().for_each(|(row, (), weight)| values(&row, &mut |v| tally::row(v, weight)));
    })
}

/// A table as an input.
trait Take {
    fn take(&mut self, row: &[i64], weight: ZWeight);
    fn flush(&mut self);
}

struct Table<T: DBData, F, const N: usize> {
    handle: ZSetHandle<T>,
    places: [usize; N],
    make: F,
    rows: Vec<Tup2<T, ZWeight>>,
}

impl<T: DBData, F: Fn([i64; N]) -> T, const N: usize> Take for Table<T, F, N> {
    fn take(&mut self, row: &[i64], weight: ZWeight) {
        self.rows.push(Tup2((self.make)(self.places.map(|place| row[place])), weight));
    }

    fn flush(&mut self) {
        self.handle.append(&mut self.rows);
    }
}

struct Circuit {
    handle: DBSPHandle,
    inputs: Vec<Box<dyn Take + Send>>,
    output: Output,
}

impl Engine for Circuit {
    fn apply(&mut self, stream: &Stream, batch: &[Update]) -> Result<()> {
        for update in batch {
            self.inputs[update.table as usize].take(stream.row(update), update.weight as ZWeight);
        }
        for input in &mut self.inputs {
            input.flush();
        }
        self.handle.transaction()?;
        (self.output)();
        Ok(())
    }
}

/// Runs a workload.
pub fn run(spec: Spec, stream: Stream) -> Result<()> {
    let asked = spec.clone();
    let (handle, (inputs, output)) = Runtime::init_circuit(1, move |circuit| {
        let mut setup = Setup { spec: &asked, circuit, inputs: Vec::new() };
        let output = build(&mut setup)?;
        setup.inputs.sort_by_key(|(number, _)| *number);
        ensure!(setup.inputs.len() == asked.tables.len(), "the circuit does not read every table once");
        Ok((setup.inputs.into_iter().map(|(_, input)| input).collect(), output))
    })
    .map_err(|e| anyhow!("{e}"))?;
    let mut engine = Circuit { handle, inputs, output };
    drive(&mut engine, &stream, &spec)?;
    engine.handle.kill().map_err(|_| anyhow!("the circuit did not stop"))
}

fn build(setup: &mut Setup) -> Result<Output> {
    match setup.spec.workload.as_str() {
        name if name.starts_with("agg-tpch-") => tpch::build(setup),
        name if name.starts_with("ord-") => ordered::build(setup),
        name if name.starts_with("rec-") => recursions::build(setup),
        name if name.starts_with("snb-") => snb::build(setup),
        _ => graphs::build(setup),
    }
}
