//! Properties as text: `label:x;rd_fac:0`, with the names and values of the command line of DAOS.

use super::Value;
use crate::error::{Der, Result};

/// A property that can be written: its names, its number, and the names of its values.
type Row = (&'static [&'static str], u32, Values);

enum Values {
    /// Any text.
    Text,
    /// A number, with K, M or G for 2^10, 2^20 or 2^30.
    Size,
    /// Named values by their numbers; a number is taken, too.
    Named(&'static [(&'static str, u64)]),
}

const ON_OFF: &[(&str, u64)] = &[("off", 0), ("on", 1)];

const ROWS: [Row; 18] = [
    (&["label"], 4097, Values::Text),
    (
        &["layout_type", "layout"],
        4098,
        Values::Named(&[
            ("unknown", 0),
            ("posix", 1),
            ("hdf5", 2),
            ("python", 3),
            ("spark", 4),
            ("database", 5),
            ("root", 6),
            ("seismic", 7),
            ("meteo", 8),
        ]),
    ),
    (&["layout_version"], 4099, Values::Size),
    (
        &["cksum", "csum"],
        4100,
        Values::Named(&[
            ("off", 0),
            ("crc16", 1),
            ("crc32", 2),
            ("crc64", 3),
            ("sha1", 4),
            ("sha256", 5),
            ("sha512", 6),
            ("adler32", 7),
        ]),
    ),
    (&["cksum_size", "csum_size"], 4101, Values::Size),
    (&["srv_cksum", "srv_csum"], 4102, Values::Named(ON_OFF)),
    (&["rd_fac", "rf"], 4103, Values::Named(&[("rf0", 0), ("rf1", 1), ("rf2", 2), ("rf3", 3), ("rf4", 4)])),
    (&["rd_lvl", "rf_lvl"], 4104, Values::Named(&[("rank", 1), ("node", 2), ("fault", 3)])),
    (&["max_snapshot"], 4105, Values::Size),
    (
        &["compression", "compress"],
        4107,
        Values::Named(&[
            ("off", 0),
            ("lz4", 1),
            ("deflate", 2),
            ("deflate1", 3),
            ("deflate2", 4),
            ("deflate3", 5),
            ("deflate4", 6),
        ]),
    ),
    (
        &["encryption", "encrypt"],
        4108,
        Values::Named(&[
            ("off", 0),
            ("aes-xts128", 1),
            ("aes-xts256", 2),
            ("aes-cbc128", 3),
            ("aes-cbc192", 4),
            ("aes-cbc256", 5),
            ("aes-gcm128", 6),
            ("aes-gcm256", 7),
        ]),
    ),
    (&["dedup"], 4111, Values::Named(&[("off", 0), ("memcmp", 1), ("hash", 2)])),
    (&["dedup_threshold"], 4112, Values::Size),
    (&["status"], 4114, Values::Named(&[("healthy", 0)])),
    (&["ec_cell_sz", "ec_cell"], 4116, Values::Size),
    (&["ec_pda"], 4117, Values::Size),
    (&["rp_pda"], 4118, Values::Size),
    (&["durability"], 0x1_0001, Values::Named(&[("power", 0), ("process", 1)])),
];

/// The properties that a text names, in its order.
///
/// # Errors
/// `INVAL` for an unknown name or value, or a name that comes twice.
pub(super) fn parse(text: &str) -> Result<Vec<(u32, Value)>> {
    let mut parsed: Vec<(u32, Value)> = Vec::new();
    for word in text.split(';').filter(|word| !word.trim().is_empty()) {
        let (name, value) = word.split_once([':', '=']).ok_or(Der::INVAL)?;
        let (name, value) = (name.trim(), value.trim());
        let row = ROWS.iter().find(|row| row.0.contains(&name)).ok_or(Der::INVAL)?;
        if parsed.iter().any(|(kind, _)| *kind == row.1) {
            return Err(Der::INVAL);
        }
        parsed.push((row.1, read(&row.2, value)?));
    }
    if parsed.is_empty() { Err(Der::INVAL) } else { Ok(parsed) }
}

fn read(values: &Values, text: &str) -> Result<Value> {
    match values {
        Values::Text if text.is_empty() => Err(Der::INVAL),
        Values::Text => Ok(Value::Text(text.to_owned())),
        Values::Size => Ok(Value::Number(size(text)?)),
        Values::Named(names) => {
            let named = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|found| found.1);
            let numbered = || text.parse().ok().filter(|number| names.iter().any(|found| found.1 == *number));
            named.or_else(numbered).map(Value::Number).ok_or(Der::INVAL)
        }
    }
}

fn size(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "K" | "KiB" | "k" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return Err(Der::INVAL),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or(Der::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_of_the_command_line_are_known() {
        let parsed = parse("label:mine;cksum:crc32;rd_fac:0;ec_cell_sz:64K;layout:hdf5").unwrap();
        let numbers: Vec<_> = parsed
            .iter()
            .map(|(kind, value)| (*kind, if let Value::Number(number) = value { *number } else { 0 }))
            .collect();
        assert_eq!(numbers, [(4097, 0), (4100, 2), (4103, 0), (4116, 65536), (4098, 2)]);
        for bad in [
            "",
            "label",
            "nothing:1",
            "cksum:md5",
            "rd_fac:9",
            "ec_cell_sz:x",
            "dedup:off;dedup:off",
            "label:",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
