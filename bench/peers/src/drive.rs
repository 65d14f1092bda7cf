//! What every native engine is asked, and how it is driven over the stream.

use std::collections::HashMap;
use std::io::stdin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::stream::{Shape, Stream, Update};
use crate::{memory, tally};

/// The rows of a batch of what is loaded first, as in `bench.harness.measure`.
const LOAD_ROWS: usize = 100_000;

/// What a NULL is in the file.
pub const NULL: i64 = i64::MIN;

/// What to run.
///
/// Every value is an i64: an integer itself, a date its days since 1970, a decimal its digits (of 1.25: 125), a text its
/// number in the upper half and its length in the lower, `NULL` nothing.
#[derive(Clone, Deserialize)]
pub struct Spec {
    /// A name of `bench.subjects.catalogue`.
    pub engine: String,
    /// A name of `bench.cases.workloads`.
    pub workload: String,
    /// The file of the stream, see `stream`, and its tables.
    pub path: String,
    pub tables: Vec<Shape>,
    /// The texts and dates that the query names, as values; a text that is not in the data is -1.
    pub literals: HashMap<String, i64>,
    /// The constant of a graph's or social network's filter.
    pub threshold: i64,
    pub batch_rows: usize,
    /// Updates at the beginning that are loaded first, in large batches, as by the other engines.
    pub first: usize,
    /// Updates at the beginning that are loaded or warm-up: time counts from there.
    pub warm: usize,
    /// Seconds after which the run is stopped.
    pub bound_s: f64,
    /// Follow count and checksum of the result instead of the time.
    pub check: bool,
}

impl Spec {
    /// Returns the value of a text or date that the query names.
    pub fn literal(&self, text: &str) -> Result<i64> {
        self.literals.get(text).copied().with_context(|| format!("the query does not name {text}"))
    }

    /// Returns the number of a table, and the places of some of its columns.
    pub fn find<const N: usize>(&self, name: &str, columns: [&str; N]) -> Result<(usize, [usize; N])> {
        let number = self.tables.iter().position(|t| t.name == name);
        let number = number.with_context(|| format!("the stream has no table {name}"))?;
        let mut places = [0; N];
        for (place, column) in places.iter_mut().zip(columns) {
            let found = self.tables[number].columns.iter().position(|c| c == column);
            *place = found.with_context(|| format!("the table {name} has no column {column}"))?;
        }
        Ok((number, places))
    }
}

/// Returns a value that is known to be small: engines are faster on 32 bits.
#[inline]
pub fn small(value: i64) -> u32 {
    u32::try_from(value).expect("a value does not fit 32 bits")
}

/// An engine that has been set up: it takes a batch and returns when the deltas of the batch have been counted.
pub trait Engine {
    fn apply(&mut self, stream: &Stream, batch: &[Update]) -> Result<()>;
}

/// Reads what standard input asks for, and the stream that it names.
pub fn asked() -> Result<(Spec, Stream)> {
    let spec: Spec = serde_json::from_reader(stdin())?;
    ensure!(spec.batch_rows > 0, "a batch has at least one update");
    let stream = Stream::read(&spec.path, &spec.tables)?;
    tally::set_checking(spec.check);
    Ok((spec, stream))
}

/// Drives an engine over the stream, in batches, and says what was measured.
pub fn drive(engine: &mut dyn Engine, stream: &Stream, spec: &Spec) -> Result<()> {
    let (first, rest) = stream.updates.split_at(spec.first.min(stream.updates.len()));
    for batch in first.chunks(LOAD_ROWS) {
        engine.apply(stream, batch)?;
    }
    memory::forget_peak();
    let before = memory::resident();
    let mut start = Instant::now();
    let mut warmed = (0, 0);
    let mut said = Instant::now();
    let mut done = first.len();
    let mut slowest: Vec<f64> = Vec::new();
    for batch in rest.chunks(spec.batch_rows) {
        let began = Instant::now();
        engine.apply(stream, batch)?;
        slowest.push(began.elapsed().as_secs_f64());
        done += batch.len();
        if warmed.0 == 0 && done >= spec.warm {
            (start, warmed) = (Instant::now(), (done, tally::deltas()));
            slowest.clear();
        }
        if said.elapsed() > Duration::from_secs(1) {
            println!("{}", serde_json::json!({"progress": [done, stream.updates.len()]}));
            said = Instant::now();
        }
        if !spec.check && start.elapsed().as_secs_f64() > spec.bound_s {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    slowest.sort_by(f64::total_cmp);
    let median = slowest.get(slowest.len() / 2).copied().unwrap_or(0.0);
    println!(
        "{}",
        serde_json::json!({"result": {
            "seconds": seconds, "emitted": done, "warm": warmed.0, "deltas": tally::deltas() - warmed.1,
            "count": tally::count(), "checksum": tally::checksum(), "batch_median_s": median,
            "rss_before": before, "rss_peak": memory::peak(),
        }})
    );
    Ok(())
}
