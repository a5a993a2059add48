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
    /// Operations under way at a time; with more than one, latencies are those of the whole batch.
    pub depth: u32,
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
    /// What the machine gives to the same without a store, measured in the same run, in operations a second
    /// (or in `unit`); absent where there is nothing.
    pub limit: Option<f64>,
    /// The measured value over the limit.
    pub ratio_to_limit: Option<f64>,
    /// What the limit is.
    pub limit_is: Option<String>,
    /// What the row is to reach, in operations a second (or in `unit`).
    pub goal: Option<f64>,
    /// Whether it does.
    pub goal_met: Option<bool>,
    /// Why the row must not be quoted: a rule of measuring was not kept.
    pub invalid: Option<String>,
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
            depth: 1,
            ops_per_s: 0.0,
            bytes_per_s: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            cpu_s: 0.0,
            limit: None,
            ratio_to_limit: None,
            limit_is: None,
            goal: None,
            goal_met: None,
            invalid: None,
            value: Some(value),
            unit: Some(unit.to_owned()),
            note: None,
            quick: false,
        }
    }

    /// Sets what the machine gives.
    #[must_use]
    pub fn against(mut self, limit: f64, what: &str) -> Self {
        self.limit = Some(limit);
        self.limit_is = Some(what.to_owned());
        self.ratio_to_limit = (limit > 0.0).then(|| self.measured() / limit);
        self
    }

    /// Sets a goal that is to be reached or exceeded.
    #[must_use]
    pub fn at_least(mut self, goal: f64) -> Self {
        self.goal = Some(goal);
        self.goal_met = Some(self.measured() >= goal);
        self
    }

    /// Sets a goal that is not to be exceeded.
    #[must_use]
    pub fn at_most(mut self, goal: f64) -> Self {
        self.goal = Some(goal);
        self.goal_met = Some(self.measured() <= goal);
        self
    }

    /// Whether it is another result of the same measurement.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let what = |row: &Self| (row.size_bytes, row.threads, row.depth);
        self.name == other.name && self.op == other.op && what(self) == what(other)
    }

    fn measured(&self) -> f64 {
        self.value.unwrap_or(self.ops_per_s)
    }

    /// Adds what a reader must know.
    #[must_use]
    pub fn noting(mut self, note: impl Into<String>) -> Self {
        let note = note.into();
        self.note = Some(match self.note.take() {
            Some(before) => format!("{before}; {note}"),
            None => note,
        });
        self
    }

    /// Says that several operations were under way.
    #[must_use]
    pub fn at_depth(mut self, depth: usize) -> Self {
        self.depth = u32::try_from(depth).unwrap_or(u32::MAX);
        self
    }

    /// Marks the row as one that broke a rule of measuring.
    #[must_use]
    pub fn invalid(mut self, why: impl Into<String>) -> Self {
        self.invalid = Some(why.into());
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
            "| {} | {} | {} | {} | {} | {rate} | {bytes} |",
            self.name, self.op, self.size_bytes, self.threads, self.depth
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
        let goal = match (self.goal, self.goal_met) {
            (Some(goal), Some(met)) => {
                format!(" {} {} |", short(goal), if met { "met" } else { "**missed**" })
            }
            _ => " |".to_owned(),
        };
        line.push_str(&goal);
        let quick = if self.quick { "quick; " } else { "" };
        let invalid = self.invalid.as_ref().map_or_else(String::new, |why| format!("**INVALID**: {why}; "));
        let note = self.note.as_deref().unwrap_or("");
        write!(line, " {quick}{invalid}{note} |").expect("a String takes everything");
        line
    }
}

/// The heading of the table.
pub const HEADING: &str = "\
| name | op | bytes | threads | depth | per s | bytes/s | p50 us | p99 us | cpu s | limit | ratio | goal | note |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|---|";

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
    fn a_row_says_how_it_stands_to_limit_and_goal_and_why_not_to_quote_it() {
        let mut row =
            Row::value("memory", "per record", 64, 75.0, "B").against(150.0, "what it may be").at_most(60.0);
        row.quick = true;
        row = row.invalid("too short");
        assert_eq!((row.ratio_to_limit, row.goal_met), (Some(0.5), Some(false)));
        assert!(row.line().contains("quick; **INVALID**: too short"), "{}", row.line());
        assert_eq!(HEADING.lines().next().unwrap().matches('|').count(), row.line().matches('|').count());
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
