//! Results as a page: what was run, on what, and the rows.

use crate::error::{Error, Result};
use crate::row::{HEADING, Row};
use core::fmt::Write as _;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// The machine of a page of results, as the system tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// A line of a file of results.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    /// A program was started; its rows follow.
    Run {
        /// What was typed.
        command: String,
        /// Where.
        machine: Machine,
    },
    /// A row.
    Row(Box<Row>),
}

/// A file of results that grows by a line as soon as a row is there: what is killed keeps its rows. Several runs
/// may add to one file; of the same row the last counts.
#[derive(Debug)]
pub struct Results {
    file: File,
}

impl Results {
    /// Goes on with a file, or begins it, and notes the command.
    ///
    /// # Errors
    /// [`Error::System`] if the file cannot be written or the machine does not tell of itself.
    pub fn append(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut results = Self { file: file.map_err(Error::system("open the file of results"))? };
        let command = std::env::args().collect::<Vec<_>>().join(" ");
        results.put(&Line::Run { command, machine: Machine::here()? })?;
        Ok(results)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be written.
    pub fn add(&mut self, row: &Row) -> Result<()> {
        self.put(&Line::Row(Box::new(row.clone())))
    }

    fn put(&mut self, line: &Line) -> Result<()> {
        let text = serde_json::to_string(line).expect("plain data with text keys");
        writeln!(self.file, "{text}").map_err(Error::system("add to the file of results"))
    }
}

/// What a file of results holds.
#[derive(Debug, Default)]
struct Section {
    commands: Vec<String>,
    machines: Vec<Machine>,
    rows: Vec<Row>,
}

/// A page of Markdown from files of results, given their names and contents; `png` is drawn and shown if there
/// are rows of curves.
///
/// # Errors
/// [`Error::Results`] if a file holds no rows; [`Error::Plot`].
pub fn report(commit: &str, files: &[(String, String)], png: Option<&Path>) -> Result<String> {
    let mut sections = Vec::new();
    for (name, text) in files {
        let section = section_of(text).map_err(|source| Error::Results { file: name.clone(), source })?;
        sections.push((name, section));
    }
    let mut machines: Vec<&Machine> = sections.iter().flat_map(|(_, section)| &section.machines).collect();
    machines.dedup();
    let mut page = format!("# Results\n\n- commit: {commit}\n");
    let put = "a String takes everything";
    for Machine { processor, memory_bytes, kernel } in machines {
        let gib = *memory_bytes as f64 / f64::from(1 << 30);
        writeln!(page, "- machine: {processor}, {gib:.0} GiB, {kernel}").expect(put);
    }
    let rows: Vec<&Row> = sections.iter().flat_map(|(_, section)| &section.rows).collect();
    if let Some(png) = png
        && crate::curve::draw(png, &rows)?
    {
        let name = png.file_name().unwrap_or(png.as_os_str()).to_string_lossy();
        writeln!(page, "\n![bandwidth over access size]({name})").expect(put);
    }
    for (name, section) in &sections {
        write_section(&mut page, name, section);
    }
    Ok(page)
}

fn write_section(page: &mut String, name: &str, section: &Section) {
    let put = "a String takes everything";
    let Section { commands, rows, .. } = section;
    writeln!(page, "\n## {name}\n").expect(put);
    for command in commands {
        writeln!(page, "    {command}").expect(put);
    }
    if rows.iter().any(|row| row.quick) {
        writeln!(page, "\nFrom a quick run: **not to be quoted**.").expect(put);
    }
    let goals = rows.iter().filter(|row| row.goal.is_some()).count();
    let met = rows.iter().filter(|row| row.goal_met == Some(true)).count();
    writeln!(page, "\n{met} of {goals} goals met.\n\n{HEADING}").expect(put);
    for row in rows {
        writeln!(page, "{}", row.line()).expect(put);
    }
}

/// The lines of a file; a row replaces an earlier one of the same.
fn section_of(text: &str) -> serde_json::Result<Section> {
    let mut section = Section::default();
    for line in text.lines() {
        match serde_json::from_str(line)? {
            Line::Run { command, machine } => {
                section.commands.push(command);
                section.machines.push(machine);
            }
            Line::Row(row) => match section.rows.iter_mut().find(|old| old.is_same(&row)) {
                Some(old) => *old = *row,
                None => section.rows.push(*row),
            },
        }
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_commit_machine_commands_and_goals_and_the_last_of_equal_rows() {
        let path = std::env::temp_dir().join(format!("dolmen-results-{}", std::process::id()));
        let rows = [
            Row::value("a", "b", 1, 9.0, "s").at_most(2.0),
            Row::value("c", "d", 1, 1.0, "s").at_most(2.0),
            Row::value("a", "b", 1, 3.0, "s").at_most(2.0),
        ];
        for part in rows.chunks(2) {
            let mut results = Results::append(&path).unwrap();
            part.iter().for_each(|row| results.add(row).unwrap());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let page = report("abc", &[("x.jsonl".to_owned(), text)], None).unwrap();
        let Machine { processor, .. } = Machine::here().unwrap();
        for part in ["commit: abc", &processor, "## x.jsonl", "1 of 2 goals met", "| c | d |", "3.00 s"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("9.00 s"), "{page}");
        let bad = ("y.jsonl".to_owned(), "[1]".to_owned());
        assert!(matches!(report("abc", &[bad], None), Err(Error::Results { .. })));
    }

    #[test]
    fn fields_are_found_as_proc_writes_them() {
        assert_eq!(field("model name\t: P 5\nx : y\n", "model name"), Some("P 5"));
        assert_eq!(field("a: b", "c"), None);
    }
}
