//! The reference model passes every scripted case.

use dolmen_sim::{ModelSubject, conformance};
use dolmen_types::TargetNo;

#[test]
fn model_passes_every_case() {
    conformance::run_all(|name| {
        println!("{name}");
        ModelSubject::new(TargetNo(3))
    });
}
