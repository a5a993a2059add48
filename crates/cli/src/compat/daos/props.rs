//! `daos container get-prop` and `set-prop`.

use crate::cont::props;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Answer, Table, human};
use dolmen_client::Container;
use dolmen_types::PropValue;
use serde_json::{Value, json};

/// What DAOS calls them, in the order of its list.
const NAMES: [(&str, &str); 21] = [
    ("alloc_oid", "Highest Allocated OID"),
    ("cksum", "Checksum"),
    ("cksum_size", "Checksum Chunk Size"),
    ("compression", "Compression"),
    ("dedup", "Deduplication"),
    ("dedup_threshold", "Dedupe Threshold"),
    ("ec_cell_sz", "EC Cell Size"),
    ("ec_pda", "Performance domain affinity level of EC"),
    ("encryption", "Encryption"),
    ("global_version", "Global Version"),
    ("group", "Group"),
    ("label", "Label"),
    ("layout_type", "Layout Type"),
    ("layout_version", "Layout Version"),
    ("max_snapshot", "Max Snapshot"),
    ("owner", "Owner"),
    ("rd_fac", "Redundancy Factor"),
    ("rd_lvl", "Redundancy Level"),
    ("rp_pda", "Performance domain affinity level of RP"),
    ("srv_cksum", "Server Checksumming"),
    ("status", "Health"),
];

/// Properties with these names, or all, which is what the command `lists` does.
pub(super) fn get(cont: &Container, names: &[String], lists: &str) -> Outcome<Answer> {
    let found = cont.props(&[])?;
    let mut table = Table::new(&["name", "value"]);
    let mut all = Vec::new();
    for name in names {
        if !NAMES.iter().any(|row| row.0 == name) {
            let failure = Failure::new(Exit::Usage, format!("there is no property {name}"));
            let hint = format!("see `{lists}`");
            return Err(failure.hint(hint));
        }
    }
    for (name, description) in NAMES {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let Some(value) = found.get(&props::id(name)?) else { continue };
        let (text, json) = shown(name, value)?;
        table.row([description.to_owned(), text]);
        all.push(json!({ "name": name, "description": description, "value": json }));
    }
    Ok(Answer::new(table.text(), Value::Array(all)))
}

/// A value as DAOS's tool shows it, as text and in JSON.
fn shown(name: &str, value: &PropValue) -> Outcome<(String, Value)> {
    let word = props::show(props::id(name)?, Some(value));
    Ok(match (name, value) {
        ("cksum_size" | "dedup_threshold" | "ec_cell_sz", PropValue::Number(bytes)) => {
            (human(*bytes), json!(bytes))
        }
        ("compression" | "dedup" | "encryption", PropValue::Number(0)) => ("off".to_owned(), json!("off")),
        ("rd_fac", PropValue::Number(factor)) => {
            (format!("rd_fac{factor}"), json!(format!("rd_fac{factor}")))
        }
        ("rd_lvl", PropValue::Number(number)) => {
            (format!("{word} ({number})"), json!(format!("{word} ({number})")))
        }
        ("layout_type", PropValue::Number(number)) => {
            let word = match word.as_str() {
                "none" => "unknown".to_owned(),
                other => other.to_uppercase(),
            };
            (format!("{word} ({number})"), json!(format!("{word} ({number})")))
        }
        ("status", PropValue::Number(_)) => (word.to_uppercase(), json!(word.to_uppercase())),
        ("cksum" | "srv_cksum", PropValue::Number(_)) => (word.clone(), json!(word)),
        (_, PropValue::Number(number)) => (word, json!(number)),
        _ => (word.clone(), json!(word)),
    })
}

/// Sets properties given as `NAME:VALUE`.
pub(super) fn set(cont: &Container, given: &[String]) -> Outcome<Answer> {
    if given.is_empty() {
        return Err(Failure::new(Exit::Usage, "no property is given").hint("give NAME:VALUE"));
    }
    let values = props::parse_change(given)?;
    cont.set_props(&values)?;
    Ok(Answer::new("Properties were successfully set", Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_of_the_list_is_known_by_its_name() {
        for (name, _) in NAMES {
            assert!(props::id(name).is_ok(), "{name}");
        }
        let (text, json) = shown("rd_fac", &PropValue::Number(0)).unwrap();
        assert_eq!((text.as_str(), json), ("rd_fac0", json!("rd_fac0")));
        assert_eq!(shown("cksum", &PropValue::Number(2)).unwrap().1, json!("crc32"));
        assert_eq!(shown("layout_type", &PropValue::Number(1)).unwrap().0, "POSIX (1)");
    }
}
