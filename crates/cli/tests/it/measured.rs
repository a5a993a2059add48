//! `bench idle` and `disturbed`: that each measures what it says, with small sizes, and leaves nothing. How long anything takes
//! is not looked at.

use crate::common::Place;
use serde_json::Value;

/// Figures of a daemon that is made for the measurement.
fn figures(place: &Place, words: &str) -> Value {
    let own = ["--dir", place.path("").to_str().unwrap(), "--capacity", "256M"].map(str::to_owned);
    let words: Vec<&str> = words.split(' ').chain(own.iter().map(String::as_str)).collect();
    let told = place.json(&[&["bench"], &words[..]].concat());
    let left = std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_str().unwrap().starts_with("dolmen-bench")).collect();
    assert_eq!(left.len(), 0, "{left:?}");
    told
}

#[test]
fn a_daemon_at_rest_is_looked_at_with_its_clients() {
    let place = Place::new("measured-idle");
    let told = figures(&place, "idle --targets 2 --clients 3 -n 20 --settle 0.05 --seconds 0.3");
    assert_eq!((&told["targets"], &told["clients"], &told["values"]), (&2.into(), &3.into(), &120.into()));
    assert!(told["wall_s"].as_f64().unwrap() >= 0.3, "{told}");
    assert!(told["cpu_share"].as_f64().unwrap() >= 0.0, "{told}");
    let bytes = |name: &str| told[name].as_u64().unwrap();
    assert!(bytes("anonymous_bytes") > 0 && bytes("shared_bytes") > 0, "{told}");
    assert!(bytes("anonymous_bytes") < bytes("resident_bytes"), "{told}");
    let threads = told["threads"].as_array().unwrap();
    for name in ["dolmen", "dolmen-serve", "dolmen-service", "dolmen-upkeep"] {
        assert!(threads.iter().any(|thread| thread["name"] == name), "{name}: {told}");
    }
}

#[test]
fn a_client_is_measured_alone_and_beside_each_that_disturbs_it() {
    let place = Place::new("measured-disturbed");
    let told = figures(&place, "disturbed --seconds 0.05 -i 2");
    let rows = told["rows"].as_array().unwrap();
    let ways = ["rings", "tcp"];
    let besides = ["nothing", "computing", "connections", "malformed", "slow-readers"];
    let expected: Vec<(&str, &str, &str)> = ways
        .iter()
        .flat_map(|way| besides.map(|beside| (way, beside)))
        .flat_map(|(way, beside)| ["update", "fetch"].map(|verb| (*way, beside, verb)))
        .collect();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let found: Vec<_> =
        rows.iter().map(|row| (text(row, "way"), text(row, "beside"), text(row, "verb"))).collect();
    let found: Vec<(&str, &str, &str)> = found.iter().map(|(a, b, c)| (&**a, &**b, &**c)).collect();
    assert_eq!(found, expected);
    for row in rows {
        assert!(row["ops"].as_u64().unwrap() > 0, "{row}");
        assert!(row["p99_us"].as_f64().unwrap() >= row["p50_us"].as_f64().unwrap(), "{row}");
        assert!(row["p99_ratio_least"].as_f64().unwrap() <= row["p99_ratio_most"].as_f64().unwrap(), "{row}");
        assert_eq!(row["beside"] == "nothing", row["beside_count"] == 0, "{row}");
    }
    let told = figures(&place, "disturbed --seconds 0.05 -i 1 --beside connections");
    assert_eq!(told["rows"].as_array().unwrap().len(), 8, "{told}");
}
