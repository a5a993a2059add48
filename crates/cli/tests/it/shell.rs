//! Completions and man pages.

use crate::common::Place;

#[test]
fn completions_and_man_pages_are_generated() {
    let place = Place::new("shell");
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&["completions", shell]);
        assert!(script.contains("dolmen") && !script.contains("child"), "{shell}");
    }
    assert_eq!(place.json(&["completions", "bash"])["shell"], "bash");
    assert!(place.fails(3, &["man", "nope/man1"]).contains("there is no directory nope; make it first"));
    assert!(!place.path("nope").exists());
    let pages = place.json(&["man", "man1"]);
    let pages: Vec<&str> =
        pages["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    for page in ["dolmen.1", "dolmen-fs-put.1", "dolmen-cont-snapshot-diff.1"] {
        assert!(pages.contains(&page), "{page}: {pages:?}");
        assert!(std::fs::read_to_string(place.path("man1").join(page)).unwrap().contains(".TH"), "{page}");
    }
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    let page = std::fs::read_to_string(place.path("man1").join("dolmen-fs-ls.1")).unwrap();
    let synopsis = "[\\-\\-memory <SIZE>] [\\-\\-wait <SECONDS>] [\\-\\-long]";
    assert!(page.contains(synopsis) && page.contains(" <POOL> <CONT> [PATH]"), "{page}");
}
