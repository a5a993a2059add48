//! Results as a page: what was run, on what, and the rows.

use crate::error::{Error, Result};
use crate::row::{HEADING, Row};
use core::fmt::Write as _;

/// The machine of a page of results, as the system tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processor and how many.
    pub processor: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// System and version.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    ///
    /// # Errors
    /// [`Error::System`] if `/proc` is not there.
    pub fn here() -> Result<Self> {
        let read = |path| std::fs::read_to_string(path).map_err(Error::system("ask for the machine"));
        let (cpu, memory) = (read("/proc/cpuinfo")?, read("/proc/meminfo")?);
        let model = field(&cpu, "model name").unwrap_or("unknown processor");
        let count = cpu.lines().filter(|line| line.starts_with("processor")).count();
        let kib = field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let kernel = read("/proc/sys/kernel/osrelease")?;
        Ok(Self {
            processor: format!("{count} x {model}"),
            memory_bytes: kib.unwrap_or(0) << 10,
            kernel: format!("Linux {}", kernel.trim()),
        })
    }
}

/// The value of a field in the manner of `/proc`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

/// A page of Markdown from the output of runs with `--json`; each file's name is told with its rows.
///
/// # Errors
/// [`Error::Results`] if a file holds no rows.
pub fn report(machine: &Machine, commit: &str, files: &[(String, String)]) -> Result<String> {
    let mut page = String::from("# Results\n\n");
    let gib = machine.memory_bytes as f64 / f64::from(1 << 30);
    let Machine { processor, kernel, .. } = machine;
    let put = "a String takes everything";
    writeln!(page, "- commit: {commit}\n- machine: {processor}, {gib:.0} GiB, {kernel}").expect(put);
    for (name, text) in files {
        let rows = rows_of(text).map_err(|source| Error::Results { file: name.clone(), source })?;
        writeln!(page, "\n## {name}\n").expect(put);
        if rows.iter().any(|row| row.quick) {
            writeln!(page, "From a quick run: **not to be quoted**.\n").expect(put);
        }
        let goals = rows.iter().filter(|row| row.goal.is_some()).count();
        let met = rows.iter().filter(|row| row.goal_met == Some(true)).count();
        writeln!(page, "{met} of {goals} goals met.\n\n{HEADING}").expect(put);
        for row in &rows {
            writeln!(page, "{}", row.line()).expect(put);
        }
    }
    Ok(page)
}

/// Rows as the program prints them, below `response`, or bare.
fn rows_of(text: &str) -> serde_json::Result<Vec<Row>> {
    match serde_json::from_str(text)? {
        serde_json::Value::Object(mut answer) => {
            serde_json::from_value(answer.remove("response").unwrap_or_default())
        }
        rows => serde_json::from_value(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_commit_machine_and_goals() {
        let machine = Machine { processor: "2 x P".into(), memory_bytes: 8 << 30, kernel: "Linux 6".into() };
        let rows =
            [Row::value("a", "b", 1, 3.0, "s").at_most(2.0), Row::value("c", "d", 1, 1.0, "s").at_most(2.0)];
        let rows = serde_json::to_value(rows).unwrap();
        let file = ("x.json".to_owned(), serde_json::json!({ "response": rows }).to_string());
        let page = report(&machine, "abc", &[file, ("bare".to_owned(), rows.to_string())]).unwrap();
        for part in ["commit: abc", "2 x P, 8 GiB, Linux 6", "## x.json", "1 of 2 goals met", "| c | d |"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let bad = ("y.json".to_owned(), "[1]".to_owned());
        assert!(matches!(report(&machine, "abc", &[bad]), Err(Error::Results { .. })));
    }

    #[test]
    fn fields_are_found_as_proc_writes_them() {
        assert_eq!(field("model name\t: P 5\nx : y\n", "model name"), Some("P 5"));
        assert_eq!(field("a: b", "c"), None);
    }
}
