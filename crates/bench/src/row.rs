//! A measured row, as JSON and as a line of a table.

use core::fmt::Write as _;
use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The scenario.
    pub name: String,
    /// The operation.
    pub op: String,
    /// Payload of one operation.
    pub size_bytes: u64,
    /// Threads that ran it.
    pub threads: u32,
    /// Operations a second.
    pub ops_per_s: f64,
    /// Payload bytes a second.
    pub bytes_per_s: f64,
    /// Half of the operations took at most this long.
    pub p50_us: f64,
    /// 99 of 100 took at most this long.
    pub p99_us: f64,
    /// Processor time of the process while it was measured.
    pub cpu_s: f64,
    /// What it is held against, in operations a second (or in `unit`); absent where there is nothing.
    pub limit: Option<f64>,
    /// The measured value over the limit.
    pub ratio_to_limit: Option<f64>,
    /// What the limit is.
    pub limit_is: Option<String>,
    /// The result of a row that is no rate.
    pub value: Option<f64>,
    /// The unit of `value`.
    pub unit: Option<String>,
    /// What a reader must know to quote the row.
    pub note: Option<String>,
    /// The run was short: never quote it.
    pub quick: bool,
}

impl Row {
    /// A row that is no rate.
    #[must_use]
    pub fn value(name: &str, op: &str, size_bytes: u64, value: f64, unit: &str) -> Self {
        Self {
            name: name.to_owned(),
            op: op.to_owned(),
            size_bytes,
            threads: 1,
            ops_per_s: 0.0,
            bytes_per_s: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            cpu_s: 0.0,
            limit: None,
            ratio_to_limit: None,
            limit_is: None,
            value: Some(value),
            unit: Some(unit.to_owned()),
            note: None,
            quick: false,
        }
    }

    /// Holds the row against a limit.
    #[must_use]
    pub fn against(mut self, limit: f64, what: &str) -> Self {
        let measured = self.value.unwrap_or(self.ops_per_s);
        self.limit = Some(limit);
        self.limit_is = Some(what.to_owned());
        self.ratio_to_limit = (limit > 0.0).then(|| measured / limit);
        self
    }

    /// Adds what a reader must know.
    #[must_use]
    pub fn noting(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// As one line of a Markdown table; [`HEADING`] goes above.
    #[must_use]
    pub fn line(&self) -> String {
        let rate = match (&self.value, &self.unit) {
            (Some(value), Some(unit)) => format!("{} {unit}", short(*value)),
            _ => short(self.ops_per_s),
        };
        let bytes = if self.bytes_per_s > 0.0 { short(self.bytes_per_s) } else { String::new() };
        let mut line = format!(
            "| {} | {} | {} | {} | {rate} | {bytes} |",
            self.name, self.op, self.size_bytes, self.threads
        );
        let times = if self.value.is_some() {
            " | | |".to_owned()
        } else {
            format!(" {:.2} | {:.2} | {:.1} |", self.p50_us, self.p99_us, self.cpu_s)
        };
        line.push_str(&times);
        let limit = match (self.limit, &self.limit_is, self.ratio_to_limit) {
            (Some(limit), Some(what), Some(ratio)) => format!(" {} ({what}) | {ratio:.2} |", short(limit)),
            _ => " | |".to_owned(),
        };
        line.push_str(&limit);
        let quick = if self.quick { "quick; " } else { "" };
        write!(line, " {quick}{} |", self.note.as_deref().unwrap_or("")).expect("a String takes everything");
        line
    }
}

/// The heading of the table.
pub const HEADING: &str = "\
| name | op | bytes | threads | per s | bytes/s | p50 us | p99 us | cpu s | limit | ratio | note |
|---|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---|";

/// Three or four digits and a decimal prefix.
pub(crate) fn short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    if scaled.abs() >= 100.0 { format!("{scaled:.0}{prefix}") } else { format!("{scaled:.2}{prefix}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_how_it_stands_to_its_limit_and_that_it_is_quick() {
        let mut row = Row::value("memory", "per record", 64, 75.0, "B").against(150.0, "goal, at most");
        row.quick = true;
        assert_eq!(row.ratio_to_limit, Some(0.5));
        assert!(row.line().contains("quick"), "{}", row.line());
        assert_eq!(HEADING.lines().next().unwrap().matches('|').count(), row.line().matches('|').count());
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
