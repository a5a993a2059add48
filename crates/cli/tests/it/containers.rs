//! `dolmen cont`.

use crate::common::Place;

#[test]
fn a_container_is_made_described_and_destroyed() {
    let place = Place::new("conts");
    place.pool(&["p", "--targets", "2"]);
    let made =
        place.json(&["cont", "create", "p", "data", "--durability", "process", "--properties", "owner:eva@"]);
    let uuid = made["uuid"].as_str().unwrap();
    assert_eq!((&made["layout"], &made["durability"]), (&"posix".into(), &"process".into()));
    place.ok(&["cont", "create", "p", "raw", "--type", "none"]);
    assert!(place.fails(4, &["cont", "create", "p", "data"]).contains("data"));

    let listed = place.json(&["cont", "list", "p"]);
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert!(place.ok(&["container", "list", "p"]).contains("raw"));
    for name in ["data", uuid] {
        assert_eq!(place.json(&["cont", "query", "p", name])["uuid"], uuid);
    }
    assert!(place.ok(&["cont", "query", "p", "data"]).contains("process"));
    assert!(place.fails(3, &["fs", "ls", "p", "raw"]).contains("no file system"));

    place.ok(&["cont", "destroy", "p", "data"]);
    assert!(place.fails(3, &["cont", "destroy", "p", "data"]).contains("data"));
    assert_eq!(place.json(&["cont", "list", "p"]).as_array().unwrap().len(), 1);
}

#[test]
fn properties_are_read_and_set_by_name() {
    let place = Place::new("props");
    place.pool_with_files();
    assert_eq!(place.json(&["cont", "get-prop", "p", "c", "layout_type"])["layout_type"], "posix");
    place.ok(&["cont", "set-prop", "p", "c", "owner:eva@,group:hep@"]);
    let props = place.json(&["cont", "get-prop", "p", "c"]);
    assert_eq!((&props["owner"], &props["group"]), (&"eva@".into(), &"hep@".into()));
    assert_eq!(place.ok(&["cont", "get-prop", "p", "c", "owner"]), "owner  eva@\n");
    place.ok(&["cont", "set-prop", "p", "c", "label:renamed"]);
    place.ok(&["fs", "ls", "p", "renamed"]);
    assert!(
        place.fails(2, &["cont", "set-prop", "p", "renamed", "durability:process"]).contains("durability")
    );
    assert!(place.fails(2, &["cont", "set-prop", "p", "renamed", "rd_fac:one"]).contains("number"));
}
