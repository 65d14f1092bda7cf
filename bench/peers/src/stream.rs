//! The file of a stream: the rows of its tables, and the updates by which they come and go.
//!
//! All is little endian. First the tables one after another, row after row, every value an i64 (see `Spec`). Then 8
//! bytes per update: row (u32), table (u16), weight (i16).

use anyhow::{Result, ensure};
use serde::Deserialize;

/// What a table of the file is called, and how large it is.
#[derive(Clone, Deserialize)]
pub struct Shape {
    pub name: String,
    pub columns: Vec<String>,
    pub rows: usize,
}

/// One update: a row of a table, and how often it comes (or, below zero, goes).
#[derive(Clone, Copy)]
pub struct Update {
    pub row: u32,
    pub table: u16,
    pub weight: i16,
}

/// The rows of a table, once each.
#[derive(Clone)]
struct Table {
    width: usize,
    values: Vec<i64>,
}

#[derive(Clone)]
pub struct Stream {
    tables: Vec<Table>,
    pub updates: Vec<Update>,
}

impl Stream {
    pub fn read(path: &str, shapes: &[Shape]) -> Result<Stream> {
        let bytes = std::fs::read(path)?;
        let mut rest = bytes.as_slice();
        let mut tables = Vec::new();
        for shape in shapes {
            let width = shape.columns.len();
            let size = 8 * width * shape.rows;
            ensure!(size <= rest.len(), "{path} ends within the table {}", shape.name);
            let (rows, after) = rest.split_at(size);
            let values = rows.chunks_exact(8).map(|v| i64::from_le_bytes(v.try_into().unwrap())).collect();
            tables.push(Table { width, values });
            rest = after;
        }
        ensure!(rest.len() % 8 == 0, "{path} ends within an update");
        let updates = rest
            .chunks_exact(8)
            .map(|u| Update {
                row: u32::from_le_bytes(u[..4].try_into().unwrap()),
                table: u16::from_le_bytes(u[4..6].try_into().unwrap()),
                weight: i16::from_le_bytes(u[6..].try_into().unwrap()),
            })
            .collect();
        Ok(Stream { tables, updates })
    }

    /// Returns the values of the row that an update is about.
    #[inline]
    pub fn row(&self, update: &Update) -> &[i64] {
        let table = &self.tables[update.table as usize];
        let start = update.row as usize * table.width;
        &table.values[start..start + table.width]
    }
}
