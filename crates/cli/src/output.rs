//! Answers: text for people, JSON for programs.

use crate::failure::{Exit, Failure, Outcome, der_of_exit};
use core::fmt::Write as _;
use dolmen_types::{KeyKind, Oid, Place};
use serde_json::{Value, json};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// What a command found or did.
#[derive(Debug)]
pub(crate) struct Answer {
    /// For people; ends with a newline unless it is empty.
    pub(crate) text: String,
    /// For programs: what stands under `response`.
    pub(crate) json: Value,
    pub(crate) exit: Exit,
    /// What is wrong, in one line, if the exit code says that something is.
    wrong: Option<String>,
    /// Whether all of it was printed as it came, in the form that was asked for.
    pub(crate) is_printed: bool,
}

impl Answer {
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        let mut text = text.into();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Self { text, json, exit: Exit::Done, wrong: None, is_printed: false }
    }

    /// One of which all was printed as it came.
    pub(crate) fn printed(exit: Exit) -> Self {
        Self { exit, is_printed: true, ..Self::new("", Value::Null) }
    }

    /// The same, with an exit code that says that something is wrong if there is something.
    pub(crate) fn with_findings(self, wrong: Option<String>) -> Self {
        match wrong {
            Some(wrong) => self.ending(Exit::Found, wrong),
            None => self,
        }
    }

    /// The same, with this exit code; `wrong` says in one line why it is none of success.
    pub(crate) fn ending(self, exit: Exit, wrong: impl Into<String>) -> Self {
        let wrong = if exit == Exit::Done { None } else { Some(wrong.into()) };
        Self { exit, wrong, ..self }
    }

    /// In the frame that every answer has.
    pub(crate) fn framed(&self) -> Value {
        match &self.wrong {
            None => json!({ "response": self.json, "error": null, "status": 0 }),
            Some(wrong) => json!({
                "response": self.json,
                "error": wrong,
                "status": der_of_exit(self.exit),
                "detail": { "exit": self.exit.number() },
            }),
        }
    }
}

/// Writes to standard output. A reader that went away (`| head`) is no failure.
pub(crate) fn print(bytes: &[u8]) -> Outcome<()> {
    offer(bytes).map(drop)
}

/// The same; whether somebody reads on.
pub(crate) fn offer(bytes: &[u8]) -> Outcome<Reader> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::on_file(Path::new("standard output"), &error)),
        Ok(()) => Ok(Reader::There),
    }
}

/// Who reads what is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    There,
    /// It wants no more.
    Gone,
}

/// Names on standard error what failed, and the command goes on.
pub(crate) fn complain(failure: &Failure) {
    dolmen_env::say(&format!("dolmen: {failure}"));
}

/// Rows of text in columns; the last column is not padded. Numbers are aligned by whoever makes them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with these headings; a heading that begins with `>` is for a column aligned to the right.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let rows = vec![headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect()];
        Self { rows, right }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
                let (before, after) = if self.right[column] { (&*pad, "") } else { ("", &*pad) };
                let gap = if column == 0 { "" } else { "  " };
                line.extend([gap, before, cell, after]);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names and values, one pair a line.
pub(crate) fn pairs<V: AsRef<str>>(rows: &[(&str, V)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().fold(String::new(), |mut text, (name, value)| {
        writeln!(text, "{name:width$}  {}", value.as_ref()).expect("a String takes everything");
        text
    })
}

/// A count with its noun: `1 file`, `2 files`.
pub(crate) fn count(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// A number of bytes for people: three digits and a binary unit.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let exponent = (63 - bytes.leading_zeros()) / 10;
    let tenths = (u128::from(bytes) * 10) >> (10 * exponent);
    let unit = UNITS[exponent as usize - 1];
    if tenths < 1000 {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    } else {
        format!("{} {unit}", tenths / 10)
    }
}

/// Seconds since 1970 as UTC date and time.
pub(crate) fn date(unix_s: i64) -> String {
    let (days, second) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    // Days to a civil date in the proleptic Gregorian calendar, with years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Bytes as text if they are printable, in quotes where that could be taken for something else; else in hexadecimal.
pub(crate) fn readable(bytes: &[u8]) -> String {
    match core::str::from_utf8(bytes) {
        Ok(text) if text.starts_with("0x") || text.starts_with('"') => format!("{text:?}"),
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => format!("0x{}", hex(bytes)),
    }
}

/// A dkey of an object: integer keys as numbers, others as text where they are text.
pub(crate) fn dkey_text(oid: Oid, dkey: &[u8]) -> String {
    key_text(oid.object_type().map(dolmen_types::ObjectType::dkey_kind), dkey)
}

/// The same of an akey.
pub(crate) fn akey_text(oid: Oid, akey: &[u8]) -> String {
    key_text(oid.object_type().map(dolmen_types::ObjectType::akey_kind), akey)
}

fn key_text(kind: Option<KeyKind>, key: &[u8]) -> String {
    match (kind, <[u8; 8]>::try_from(key)) {
        (Some(KeyKind::Uint64), Ok(bytes)) => u64::from_le_bytes(bytes).to_string(),
        _ => readable(key),
    }
}

/// Where something is wrong, for people.
pub(crate) fn place_text(place: &Place) -> String {
    let Place::Value { cont, oid, dkey, akey, extent } = place else { return place.to_string() };
    let (dkey, akey) = (dkey_text(*oid, dkey), akey_text(*oid, akey));
    let extent =
        extent.map_or(String::new(), |extent| format!(", {} records from {}", extent.count, extent.index));
    format!("container {}, object {oid}, key {dkey}/{akey}{extent}", cont.0)
}

/// Where something is wrong, for programs.
pub(crate) fn place_json(place: &Place) -> Value {
    match place {
        Place::Value { cont, oid, dkey, akey, extent } => {
            let mut place = json!({
                "container": cont.0,
                "oid": oid.to_string(),
                "extent": extent.map(|extent| json!({ "index": extent.index, "count": extent.count })),
            });
            let texts = [dkey_text(*oid, dkey), akey_text(*oid, akey)];
            for ((name, key), text) in [("dkey", dkey), ("akey", akey)].into_iter().zip(texts) {
                say_key(&mut place, name, key, text);
            }
            place
        }
        Place::Record { file, number, offset } => {
            json!({ "file": file, "number": number, "offset": offset })
        }
    }
}

/// Adds a key to an object for programs: as people see it, and as `name_hex` one that is no UTF-8.
pub(crate) fn say_key(object: &mut Value, name: &str, key: &[u8], text: String) {
    object[name] = json!(text);
    if core::str::from_utf8(key).is_err() {
        object[format!("{name}_hex")] = json!(hex(key));
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_500_000, "1.4 MiB"),
            (110 << 20, "110 MiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(date(-1), "1969-12-31 23:59:59");
        assert_eq!(date(1_790_000_000), "2026-09-21 14:13:20");
    }

    #[test]
    fn tables_align() {
        let mut table = Table::new(&["name", ">bytes"]);
        table.row(["a".to_owned(), "10".to_owned()]);
        assert_eq!(table.text(), "name  bytes\na        10\n");
    }

    #[test]
    fn what_cannot_be_printed_is_hexadecimal() {
        assert_eq!(readable(b"key"), "key");
        assert_eq!(readable(&[0, 255]), "0x00ff");
        assert_eq!(readable(b"0x00ff"), "\"0x00ff\"");
        assert_eq!(readable(b"\"0x00ff\""), "\"\\\"0x00ff\\\"\"");
    }
}
