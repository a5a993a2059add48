//! `dolmen cont`.

use crate::common::{Place, bytes};

#[test]
fn a_container_is_made_described_and_destroyed() {
    let place = Place::new("conts");
    place.pool(&["p", "--targets", "2"]);
    let made = place.json(&[
        "cont",
        "create",
        "p",
        "data",
        "--durability",
        "process",
        "--properties",
        "owner:daemon@",
    ]);
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
fn a_check_that_repairs_the_files_of_a_container_leaves_its_ntuples() {
    let place = Place::new("conts-beside");
    place.pool(&["p", "--targets", "2"]);
    place.ok(&["cont", "create", "p", "c"]);
    crate::ntuples::make_file(&place.path("in.root"));
    place.ok(&["ntuple", "import", "p", "c", "in.root"]);
    let before = place.ok(&["ntuple", "read", "p", "c", "events"]);
    for check in [&["check", "p"][..], &["check", "p", "--repair"]] {
        let told = place.ok(check);
        assert!(told.contains(" objects that are no file's, such as ntuples"), "{told}");
        assert!(!told.contains("without a name"), "{told}");
    }
    assert_eq!(place.ok(&["ntuple", "read", "p", "c", "events"]), before);
}

#[test]
fn files_have_chunks_that_fit_into_the_segments_of_their_pool() {
    let place = Place::new("chunks");
    place.make_pool(&["p", "--targets", "1", "--capacity", "16M", "--bulk-segment", "256K"]);
    let line = place.fails(2, &["cont", "create", "p", "c", "--chunk-size", "512K"]);
    assert!(line.contains("--chunk-size is 512K, and a bulk segment of the pool has 256K"), "{line}");
    place.fails(3, &["cont", "query", "p", "c"]);
    place.ok(&["cont", "create", "p", "c"]);
    place.ok(&["cont", "create", "p", "d", "--chunk-size", "256K"]);
    std::fs::write(place.path("large"), bytes(3_000_001, 1)).unwrap();
    for cont in ["c", "d"] {
        place.ok(&["fs", "put", "p", cont, "large", "/large"]);
        place.ok(&["fs", "verify", "p", cont, "large", "/large"]);
    }
}

#[test]
fn properties_are_read_and_set_by_name() {
    let place = Place::new("props");
    place.pool_with_files();
    assert_eq!(place.json(&["cont", "get-prop", "p", "c", "layout_type"])["layout_type"], "posix");
    place.ok(&["cont", "set-prop", "p", "c", "owner:daemon@,group:12345@"]);
    let props = place.json(&["cont", "get-prop", "p", "c"]);
    assert_eq!((&props["owner"], &props["group"]), (&"daemon@".into(), &"12345@".into()));
    assert_eq!(place.ok(&["cont", "get-prop", "p", "c", "owner"]), "owner  daemon@\n");
    place.ok(&["cont", "set-prop", "p", "c", "label:renamed"]);
    place.ok(&["fs", "ls", "p", "renamed"]);
    assert!(
        place.fails(2, &["cont", "set-prop", "p", "renamed", "durability:process"]).contains("durability")
    );
    assert!(
        place
            .fails(2, &["cont", "set-prop", "p", "renamed", "status:one"])
            .contains("status is one of healthy")
    );
}

#[test]
fn a_property_that_is_refused_is_told_the_one_reason() {
    let place = Place::new("props-refused");
    place.pool_with_files();
    let props = place.json(&["cont", "get-prop", "p", "c"]);
    let (mut set, mut fixed) = (0, 0);
    for (name, value) in props.as_object().unwrap() {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        let ran = place.run(&["cont", "set-prop", "p", "c", &format!("{name}={value}")]);
        if ran.code() == 0 {
            set += 1;
            continue;
        }
        assert_eq!(ran.code(), 2, "{ran:?}");
        let why = ran.stderr();
        let reasons = [
            &format!("{name} cannot be set after the container was made; give it to `dolmen cont create`"),
            &format!("{name} is computed, and nobody sets it"),
            &format!("{name} cannot be set from here"),
        ];
        assert_eq!(reasons.iter().filter(|reason| why.contains(**reason)).count(), 1, "{why}");
        fixed += 1;
    }
    assert_eq!((set, fixed), (10, 18), "{props}");
    let line = place.fails(2, &["cont", "set-prop", "p", "c", "durability=process"]);
    let why = "durability cannot be set after the container was made; give it to `dolmen cont create`";
    assert_eq!(line, format!("dolmen: cannot set durability=process of container c: {why}\n"));
    let line = place.fails(2, &["cont", "set-prop", "p", "c", "srv_cksum:7"]);
    assert!(line.ends_with("is no property; srv_cksum is one of off, on\n"), "{line}");
    let off = ["compression", "dedup", "max_snapshot", "scrub_disabled"];
    for (name, value) in off.iter().flat_map(|name| [(name, "1"), (name, "on")]) {
        let asked = format!("{name}:{value}");
        for command in
            [&["cont", "set-prop", "p", "c", &asked][..], &["cont", "create", "p", "--properties", &asked]]
        {
            let line = place.fails(2, command);
            assert!(line.contains(&format!("{name} is not available yet; leave it out")), "{line}");
        }
        place.ok(&["cont", "set-prop", "p", "c", &format!("{name}:0")]);
        place.ok(&["cont", "set-prop", "p", "c", &format!("{name}:off")]);
    }
    assert!(place.ok(&["cont", "set-prop", "--help"]).contains("NAME:VALUE or NAME=VALUE"));
}

#[test]
fn aggregation_frees_what_was_overwritten_and_says_how_much() {
    let place = Place::new("aggregate");
    place.pool_with_files();
    for fill in [1_u8, 2, 3] {
        std::fs::write(place.path("data"), vec![fill; 100_000]).unwrap();
        place.ok(&["fs", "put", "p", "c", "data", "/data"]);
        if fill < 3 {
            place.ok(&["fs", "rm", "p", "c", "/data"]);
        }
    }
    let versions = || place.json(&["cont", "query", "p", "c"])["usage"]["versions"].as_u64().unwrap();
    let held = versions();
    let told = place.json(&["cont", "aggregate", "p", "c"]);
    assert!(told["freed_versions"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(told["before"]["versions"], held);
    assert!(versions() < held);
    assert_eq!(told["after"]["versions"], versions());
    place.ok(&["fs", "get", "p", "c", "/data", "back"]);
    assert_eq!(std::fs::read(place.path("back")).unwrap(), vec![3; 100_000]);

    let text = place.ok(&["cont", "aggregate", "p", "c"]);
    for line in ["versions freed  0\n", "space before", "space after"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(place.fails(3, &["cont", "aggregate", "p", "none"]).contains("none"));
}

#[test]
fn one_property_with_two_values_and_a_uuid_of_zeros_are_refused() {
    let place = Place::new("twice");
    place.pool(&["p", "--targets", "1"]);
    place.ok(&["cont", "create", "p", "c"]);
    let both = ["cont", "set-prop", "p", "c", "label:c", "label:zz"];
    let line = place.fails(2, &both);
    assert!(line.contains("label:c and label:zz contradict each other; leave out one of them"), "{line}");
    let create = ["cont", "create", "p", "--properties", "label:a,label:b"];
    assert!(place.fails(2, &create).contains("contradict each other"));
    place.ok(&["cont", "set-prop", "p", "c", "label:zz", "label:zz"]);
    place.ok(&["cont", "query", "p", "zz"]);
    let zeros = ["cont", "create", "p", "d", "--uuid", "00000000-0000-0000-0000-000000000000"];
    let line = place.fails(2, &zeros);
    assert!(line.contains("--uuid of zeros alone names nothing"), "{line}");
}

#[test]
fn a_label_that_reads_as_a_uuid_is_refused_as_that_and_no_layout_is_called_none() {
    let place = Place::new("labels");
    place.pool(&["p", "--targets", "1"]);
    let uuid = "11111111-1111-1111-1111-111111111111";
    let line = place.fails(2, &["cont", "create", "p", uuid]);
    assert!(line.contains("it reads as a UUID"), "{line}");
    place.ok(&["cont", "create", "p", "c", "--type", "none"]);
    let line = place.ok(&["cont", "list", "p"]);
    assert!(line.contains("none") && !line.contains("unknown"), "{line}");
}

#[test]
fn the_space_of_a_destroyed_container_is_free_when_the_command_ends() {
    let place = Place::new("freed");
    place.pool_with_files();
    std::fs::write(place.path("big"), crate::common::bytes(8 << 20, 1)).unwrap();
    let bulk = || -> u64 {
        let targets = place.json(&["pool", "query", "p"])["targets"].take();
        targets.as_array().unwrap().iter().map(|target| target["bulk_bytes"].as_u64().unwrap()).sum()
    };
    let before = bulk();
    place.ok(&["fs", "put", "p", "c", "big", "/big"]);
    assert!(bulk() >= before + (8 << 20));
    place.ok(&["cont", "destroy", "p", "c"]);
    assert_eq!(bulk(), before);
    place.ok(&["check", "p", "--scrub"]);
}

#[test]
fn options_that_contradict_each_other_are_refused_with_both() {
    let place = Place::new("contradict");
    place.pool(&["p", "--targets", "1"]);
    fn create<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["cont", "create", "p"], more].concat()
    }
    for (more, both) in [
        (
            &["c", "--durability", "power", "--properties", "durability:process"][..],
            ["--durability power", "--properties durability:process"],
        ),
        (&["c", "--properties", "label:x"], ["LABEL c", "--properties label:x"]),
        (&["c", "--type", "none", "--chunk-size", "1M"], ["--chunk-size", "--type none"]),
        (&["c", "--type", "none", "--file-class", "S1"], ["--file-class", "--type none"]),
        (&["c", "--dir-class", "SX", "--type", "none"], ["--dir-class", "--type none"]),
        (&["c", "--type", "none", "--properties", "layout_type:posix"], ["--type none", "layout_type:posix"]),
        (&["c", "--properties", "layout_type:none", "--chunk-size", "1M"], ["--chunk-size", "--type none"]),
    ] {
        let line = place.fails(2, &create(more));
        assert!(both.iter().all(|one| line.contains(one)), "{line}");
    }
    assert_eq!(place.ok(&["cont", "list", "p"]), "no containers\n");
    // What says the same twice is no contradiction.
    place.ok(&create(&["c", "--durability", "process", "--properties", "durability:process,label:c"]));
    assert_eq!(place.json(&["cont", "query", "p", "c"])["durability"], "process");
    place.ok(&create(&["o", "--properties", "layout_type:none"]));
    place.fails(3, &["fs", "ls", "p", "o"]);
    assert!(place.fails(3, &["cont", "destroy", "p", "gone"]).contains("see `dolmen cont list p`"));
}
