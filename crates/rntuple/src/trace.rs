//! What was read of an ntuple, and how often: the fields of each reading by their names, so that it is of use to other ntuples of the same
//! kind, and later, when there are more columns.
//!
//! As text it is a line that says what it is, and one for each set of fields that were read together: of how many entries, and the names,
//! with tabs between.

use crate::ntuple::Ntuple;
use crate::source::Source;
use crate::store::Access;
use core::fmt::{self, Write};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the text of a trace begins with.
const FIRST_LINE: &str = "dolmen ntuple trace 1";

/// Sets of fields that are told from each other; what is read besides is not recorded.
const SETS_MAX: usize = 1 << 16;

/// A text that is no trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoTrace {
    /// The first line that is none of one; they count from 1.
    pub line: usize,
}

impl fmt::Display for NoTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            1 => write!(f, "this is no trace: those begin with the line {FIRST_LINE:?}"),
            line => write!(
                f,
                "line {line} is none of a trace: a number of entries and names of fields, with tabs between"
            ),
        }
    }
}

impl core::error::Error for NoTrace {}

/// Fields that were read together, by their names with dots between field and subfield, and of how many entries.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Trace {
    by_names: BTreeMap<Vec<Box<str>>, u64>,
}

impl Trace {
    /// Adds a reading of so many entries; the order of names, and names that are there twice, are nothing.
    pub fn add(&mut self, mut names: Vec<Box<str>>, entry_count: u64) {
        names.sort_unstable();
        names.dedup();
        if entry_count == 0 || names.is_empty() {
            return;
        }
        if self.by_names.len() < SETS_MAX || self.by_names.contains_key(&names) {
            let count = self.by_names.entry(names).or_insert(0);
            *count = count.saturating_add(entry_count);
        }
    }

    /// Adds all readings of another trace.
    pub fn merge(&mut self, other: &Self) {
        for (names, count) in other.readings() {
            self.add(names.to_vec(), count);
        }
    }

    /// The names of fields that were read together, and of how many entries.
    pub fn readings(&self) -> impl Iterator<Item = (&[Box<str>], u64)> {
        self.by_names.iter().map(|(names, &count)| (&names[..], count))
    }

    /// The readings by numbers of fields of an ntuple; names that it does not have are left out.
    pub fn accesses<S: Source>(&self, ntuple: &Ntuple<S>) -> Vec<Access> {
        let access = |(names, count): (&[Box<str>], u64)| Access {
            fields: names.iter().filter_map(|name| ntuple.field(name).ok()).collect(),
            count,
        };
        self.readings().map(access).filter(|access| !access.fields.is_empty()).collect()
    }

    /// The text.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for (names, count) in self.readings() {
            write!(text, "{count}").expect("text takes all");
            for name in names {
                text.push('\t');
                text.push_str(&escaped(name));
            }
            text.push('\n');
        }
        text
    }

    /// What a text tells.
    ///
    /// # Errors
    /// [`NoTrace`] with the line that is none of a trace.
    pub fn parse(text: &str) -> Result<Self, NoTrace> {
        let mut lines = (1..).zip(text.lines());
        if lines.next().is_none_or(|(_, line)| line != FIRST_LINE) {
            return Err(NoTrace { line: 1 });
        }
        let mut trace = Self::default();
        for (line, text) in lines {
            let wrong = NoTrace { line };
            let (count, names) = text.split_once('\t').ok_or(wrong)?;
            let count = count.parse().map_err(|_not_a_number| wrong)?;
            let names = names.split('\t').map(unescaped).collect::<Option<Vec<_>>>();
            trace.add(names.ok_or(wrong)?, count);
        }
        Ok(trace)
    }
}

/// A name, so that none of it ends a name or a line.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// The name that was escaped; none if it is none that was.
fn unescaped(text: &str) -> Option<Box<str>> {
    let (mut name, mut chars) = (String::new(), text.chars());
    while let Some(char) = chars.next() {
        name.push(match char {
            '\\' => match chars.next()? {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            char => char,
        });
    }
    (!name.is_empty()).then(|| name.into())
}

/// What reading an ntuple adds to, from when it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    // Guards: what was read so far, by numbers of fields; taken alone.
    read: Mutex<BTreeMap<Vec<u32>, u64>>,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u32>, u64>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fields that were read together, of so many entries.
    pub(crate) fn note(&self, fields: &[u32], entry_count: u64) {
        let mut read = self.lock();
        if let Some(count) = read.get_mut(fields) {
            *count = count.saturating_add(entry_count);
        } else if read.len() < SETS_MAX {
            read.insert(fields.to_vec(), entry_count);
        }
    }

    /// What was read, by the names that fields have.
    pub(crate) fn trace(&self, name: impl Fn(u32) -> Box<str>) -> Trace {
        let mut trace = Trace::default();
        for (fields, count) in &*self.lock() {
            trace.add(fields.iter().map(|&field| name(field)).collect(), *count);
        }
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::{NoTrace, Trace};

    fn trace(readings: &[(&[&str], u64)]) -> Trace {
        let mut trace = Trace::default();
        for (names, count) in readings {
            trace.add(names.iter().map(|&name| name.into()).collect(), *count);
        }
        trace
    }

    #[test]
    fn a_trace_is_what_its_text_tells() {
        let odd = trace(&[
            (&["b", "a.x", "b"], 7),
            (&["tab\there", "back\\slash\n"], u64::MAX),
            (&["a.x", "b"], 3),
        ]);
        let text = odd.write();
        assert_eq!(Trace::parse(&text), Ok(odd));
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("10\ta.x\tb\n"), "{text}");
        assert_eq!(Trace::parse("dolmen ntuple trace 1\n"), Ok(Trace::default()));
    }

    #[test]
    fn what_is_no_trace_is_refused_by_its_line() {
        let refused = |text: &str| Trace::parse(text).unwrap_err();
        assert_eq!(refused(""), NoTrace { line: 1 });
        assert_eq!(refused("dolmen ntuple trace 2\n"), NoTrace { line: 1 });
        for wrong in ["x\ta", "1", "-1\ta", "1\t", "1\ta\t", "1\ta\\q", "1\ta\\"] {
            assert_eq!(
                refused(&format!("dolmen ntuple trace 1\n4\tb\n{wrong}\n")),
                NoTrace { line: 3 },
                "{wrong}"
            );
        }
    }

    #[test]
    fn readings_of_several_traces_are_summed_up() {
        let mut sum = trace(&[(&["a", "b"], 5), (&["c"], 1)]);
        sum.merge(&trace(&[(&["b", "a"], 2), (&["d"], 4), (&[], 9), (&["e"], 0)]));
        assert_eq!(sum, trace(&[(&["a", "b"], 7), (&["c"], 1), (&["d"], 4)]));
    }
}
