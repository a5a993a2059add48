//! Trees: branches of classes, as their file describes them.

use crate::tree_made::{Big, Branch, CHECKSUM, Described, Member, OBJECT, branch, element, leaf, member};
use crate::trees::{HOW, all, collection, entry, floats, ints, lists, record, texts, tree, type_name};
use dolmen_rntuple::rootfile::tree::Type;
use dolmen_rntuple::{Array, Entries, Error, Feature, Refusal, Values};

/// A point of two coordinates, and a hit that is a point and has a text, an array and numbers that it counts.
pub(crate) fn classes() -> Vec<Described> {
    let array = Member { lengths: vec![2], ..member("e", 23, "int") };
    let many = Member { counter: "n", ..member("v", 43, "int*") };
    vec![
        ("Point", 3, vec![member("x", 5, "float"), member("y", 5, "float")]),
        (
            "Hit",
            2,
            vec![member("Point", 0, "BASE"), member("s", 365, "string"), array, member("n", 3, "int"), many],
        ),
    ]
}

pub(crate) fn hit(big: &mut Big, at: u32) {
    big.counted(2, |big| members_of_hit(big, at));
}

/// A hit as it stands in a branch by itself.
fn members_of_hit(big: &mut Big, at: u32) {
    big.counted(3, |big| {
        big.f32(at as f32);
        big.f32(0.5);
    });
    big.counted(9, |big| big.text("hit"));
    big.u32(at);
    big.u32(at + 1);
    big.u32(at);
    big.u8(u8::from(at > 0));
    (0..at).for_each(|at| big.u32(at));
}

#[test]
fn objects_are_read_as_the_file_describes_their_classes() {
    let hits = entry(|big| {
        big.counted(9, |big| {
            big.u32(2);
            hit(big, 0);
            hit(big, 2);
        });
    });
    let by_members = entry(|big| {
        big.counted(0x4000 | 9, |big| {
            big.u16(3);
            big.u32(3);
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].iter().for_each(|value| big.f32(*value));
        });
    });
    let tree = tree(
        &[
            element(
                "hit",
                ("Hit", 2, -1, 0),
                vec![entry(|big| members_of_hit(big, 1)), entry(|big| members_of_hit(big, 3))],
            ),
            element("hits", ("vector<Hit>", 0, -1, 0), vec![hits.clone(), hits]),
            element("points", ("vector<Point>", 0, -1, 0), vec![by_members.clone(), by_members]),
        ],
        &classes(),
        HOW,
    );
    let fields = |at: [i32; 2], counts: &[i64], many: &[i32]| {
        vec![
            ("x", floats(&at.map(|at| at as f32))),
            ("y", floats(&[0.5, 0.5])),
            ("s", texts(&["hit", "hit"])),
            (
                "e",
                Array::Repeated {
                    count: 2,
                    len: 2,
                    content: Box::new(ints(&[at[0], at[0] + 1, at[1], at[1] + 1])),
                },
            ),
            ("n", ints(&at)),
            ("v", lists(counts, ints(many))),
        ]
    };
    assert_eq!(all(&tree, "hit").unwrap(), record(2, fields([1, 3], &[0, 1, 4], &[0, 0, 1, 2])));
    let Array::Lists { offsets, content, .. } = all(&tree, "hits").unwrap() else { panic!("they are lists") };
    assert_eq!((offsets, content.len()), (vec![0, 2, 4], 4));
    let part = tree.read(&[1], Entries { first: 1, end: 2 }).unwrap().remove(0);
    assert_eq!(part, lists(&[0, 2], record(2, fields([0, 2], &[0, 0, 2], &[0, 1]))));
    let six = |from: f32| [from, from + 1.0, from + 2.0].repeat(2);
    let points = record(6, vec![("x", floats(&six(1.0))), ("y", floats(&six(4.0)))]);
    assert_eq!(all(&tree, "points").unwrap(), lists(&[0, 3, 6], points));
}

#[test]
fn items_that_lie_member_by_member_have_no_heads_of_bases_and_may_have_no_bytes() {
    let by_members = |class: u16, fill: &dyn Fn(&mut Big)| {
        entry(|big| {
            big.counted(0x4000 | 9, |big| {
                big.u16(class);
                if class == 0 {
                    big.u32(CHECKSUM);
                }
                big.u32(2);
                fill(big);
            });
        })
    };
    let title = "<Link> as items";
    let classes = [
        &classes()[..],
        &[
            ("Link", 1, vec![member("Point", 0, "BASE"), member("k", 3, "int")]),
            ("Nothing", 1, vec![]),
            ("Own", 1, vec![Member { title, ..member("This", 300, "Own") }]),
        ],
    ]
    .concat();
    let links = by_members(0, &|big| {
        [1.0, 2.0, 3.0, 4.0].iter().for_each(|value| big.f32(*value));
        [5, 6].iter().for_each(|value| big.u32(*value));
    });
    let behind_pointers = collection(1, |big| big.u32(0));
    let tree = tree(
        &[
            element("links", ("vector<Link>", 0, -1, 0), vec![links.clone(); 2]),
            element("own", ("Own", 0, -1, 0), vec![links; 2]),
            element("none", ("vector<Nothing>", 0, -1, 0), vec![by_members(1, &|_| ()); 2]),
            element("nothing", ("Nothing", 0, -1, 0), vec![Vec::new(); 2]),
            element("pointers", ("Own", 0, -1, 0), vec![behind_pointers; 2]),
        ],
        &classes,
        HOW,
    );
    let fields = vec![
        ("x", floats(&[1.0, 2.0, 1.0, 2.0])),
        ("y", floats(&[3.0, 4.0, 3.0, 4.0])),
        ("k", ints(&[5, 6, 5, 6])),
    ];
    let links = lists(&[0, 2, 4], record(4, fields));
    assert_eq!(all(&tree, "links").unwrap(), links);
    assert_eq!(all(&tree, "own").unwrap(), links);
    assert_eq!(all(&tree, "none").unwrap(), lists(&[0, 2, 4], record(4, vec![])));
    assert_eq!(all(&tree, "nothing").unwrap(), record(2, vec![]));
    let found = all(&tree, "pointers");
    assert!(
        matches!(found, Err(Error::BranchRefused { why: Refusal::Has(Feature::PointedItems), .. })),
        "{found:?}"
    );
}

#[test]
fn what_objects_of_root_begin_with_and_references_to_them_are_read() {
    let identity = |big: &mut Big, id: u32, is_referenced: bool| {
        big.u16(1);
        big.u32(id);
        big.u32(if is_referenced { 0x18 } else { 8 });
        if is_referenced {
            big.u16(77);
        }
    };
    let bits = entry(|big| {
        big.u32(0x18);
        big.u16(77);
        big.u32(8);
    });
    let object = [true, false].map(|is_referenced| entry(|big| identity(big, 5, is_referenced)));
    let reference = entry(|big| {
        identity(big, 6, false);
        big.u16(1);
    });
    let references = entry(|big| {
        big.counted(1, |big| {
            identity(big, 0, false);
            big.text("");
            big.u32(2);
            big.u32(0);
            big.u16(1);
            big.u32(10);
            big.u32(11);
        });
    });
    let classes = [
        ("Object", 1, vec![member("TObject", 66, "BASE")]),
        ("Bits", 1, vec![member("bits", 15, "unsigned int")]),
        ("Refs", 1, vec![member("r", 61, "TRef"), member("a", 61, "TRefArray")]),
    ];
    let tree = tree(
        &[
            element("bits", ("Bits", 1, 0, 31), vec![bits; 2]),
            element("object", ("Object", 1, -1, 0), object.to_vec()),
            element("refs", ("Refs", 1, -1, 0), vec![[reference, references].concat(); 2]),
        ],
        &classes,
        HOW,
    );
    let numbers = |values: &[u32]| Array::Values(Values::U32(values.to_vec()));
    assert_eq!(all(&tree, "bits").unwrap(), lists(&[0, 2, 4], numbers(&[0x18, 8, 0x18, 8])));
    let fields = vec![("fUniqueID", numbers(&[5, 5])), ("fBits", numbers(&[0x18, 8]))];
    assert_eq!(all(&tree, "object").unwrap(), record(2, fields));
    let process = Array::Values(Values::U16(vec![1, 1]));
    let one =
        record(2, vec![("fUniqueID", numbers(&[6, 6])), ("fBits", numbers(&[8, 8])), ("fPID", process)]);
    let many = lists(&[0, 2, 4], numbers(&[10, 11, 10, 11]));
    assert_eq!(all(&tree, "refs").unwrap(), record(2, vec![("r", one), ("a", many)]));
}

#[test]
fn classes_in_branches_of_their_own_are_records_with_the_fields_of_their_bases() {
    let base = entry(|big| {
        big.counted(3, |big| {
            big.f32(1.0);
            big.f32(2.0);
        });
    });
    let many = entry(|big| {
        big.u8(1);
        big.u32(7);
        big.u32(8);
    });
    let children = vec![
        element("h.Point", ("Hit", 2, 0, 0), vec![base; 2]),
        element("h.s", ("Hit", 2, 1, 0), vec![entry(|big| big.counted(9, |big| big.text("t"))); 2]),
        element("h.e[2]", ("Hit", 2, 2, 0), vec![entry(|big| big.u64(1)); 2]),
        element("h.n", ("Hit", 2, 3, 0), vec![entry(|big| big.u32(2)); 2]),
        element("h.v", ("Hit", 2, 4, 0), vec![many, vec![0]]),
    ];
    let hit = Branch { children, ..element("h", ("Hit", 2, -2, 0), vec![]) };
    let tree = tree(&[hit, branch("i", vec![leaf("TLeafB", "i")], vec![vec![0]; 2])], &classes(), HOW);
    let fields = vec![
        ("x", floats(&[1.0; 2])),
        ("y", floats(&[2.0; 2])),
        ("s", texts(&["t", "t"])),
        ("e", Array::Repeated { count: 2, len: 2, content: Box::new(ints(&[0, 1, 0, 1])) }),
        ("n", ints(&[2, 2])),
        ("v", lists(&[0, 2, 2], ints(&[7, 8]))),
    ];
    assert_eq!(all(&tree, "h").unwrap(), record(2, fields));
    let Type::Record { class, fields } = tree.branches()[0].type_of().unwrap() else {
        panic!("it is a record")
    };
    let names: Vec<_> = fields.iter().map(|(name, of)| (&**name, of.name())).collect();
    assert_eq!(&**class, "Hit");
    let wanted = [
        ("x", "float"),
        ("y", "float"),
        ("s", "std::string"),
        ("e", "std::array<std::int32_t,2>"),
        ("n", "std::int32_t"),
        ("v", "std::vector<std::int32_t>"),
    ];
    assert_eq!(names, wanted.map(|(name, of)| (name, of.into())));
}

#[test]
fn objects_behind_the_names_of_their_classes_and_root_s_own_arrays_are_read() {
    let named = |class: &str| {
        entry(|big| {
            big.text(class);
            big.u8(0);
            hit(big, 1);
        })
    };
    let arrays = entry(|big| {
        big.u32(2);
        big.f32(1.5);
        big.f32(2.5);
        big.u32(77);
    });
    let vector = entry(|big| {
        big.counted(3, |big| {
            big.object();
            [1.0_f64, 2.0, 3.0].iter().for_each(|value| big.u64(value.to_bits()));
        });
    });
    let coordinates = ["fX", "fY", "fZ"].map(|name| member(name, 8, "double"));
    let described = [
        &classes()[..],
        &[
            ("Arrays", 1, vec![member("f", 62, "TArrayF"), member("d", 62, "TDatime")]),
            ("TVector3", 3, [&[member("TObject", 66, "BASE")][..], &coordinates].concat()),
        ],
    ]
    .concat();
    let leaf = |name| vec![leaf("TLeafObject", name)];
    let object =
        |name, entries| Branch { leaves: leaf(name), ..element(name, ("Hit", 0, 0, OBJECT), entries) };
    let tree = tree(
        &[
            object("hit", vec![named("Hit"); 2]),
            object("other", vec![named("Hut"); 2]),
            element("arrays", ("Arrays", 1, -1, 0), vec![arrays; 2]),
            element("vector", ("TVector3", 3, -1, -1), vec![vector; 2]),
        ],
        &described,
        HOW,
    );
    let Array::Record { len: 2, fields } = all(&tree, "hit").unwrap() else { panic!("they are records") };
    assert_eq!(fields[0], ("x".into(), floats(&[1.0, 1.0])));
    let found = all(&tree, "other");
    assert!(
        matches!(found, Err(Error::BranchRefused { why: Refusal::Has(Feature::OtherClass), .. })),
        "{found:?}"
    );
    let f = lists(&[0, 2, 4], floats(&[1.5, 2.5, 1.5, 2.5]));
    let d = Array::Values(Values::U32(vec![77, 77]));
    assert_eq!(all(&tree, "arrays").unwrap(), record(2, vec![("f", f), ("d", d)]));
    let Array::Record { fields, .. } = all(&tree, "vector").unwrap() else { panic!("they are records") };
    let names: Vec<_> = fields.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["fUniqueID", "fBits", "fX", "fY", "fZ"]);
    assert_eq!(fields[4].1, Array::Values(Values::F64(vec![3.0, 3.0])));
}

#[test]
fn maps_are_pairs_split_or_not_and_by_member() {
    let by_members = entry(|big| {
        big.counted(0x4000 | 9, |big| {
            big.u16(0);
            big.u32(CHECKSUM);
            big.u32(2);
            big.counted(9, |big| {
                big.text("a");
                big.text("b");
            });
            big.u32(1);
            big.u32(2);
        });
    });
    let pair = ("pair<string,int>", 1, vec![member("first", 365, "string"), member("second", 3, "int")]);
    let keys = entry(|big| {
        big.counted(9, |big| {
            big.text("a");
            big.text("b");
        });
    });
    let values = entry(|big| {
        big.u32(1);
        big.u32(2);
    });
    let children = vec![
        element("s.first", ("pair<string,int>", 1, 0, 41), vec![keys; 2]),
        element("s.second", ("pair<string,int>", 1, 1, 41), vec![values; 2]),
    ];
    let counts = vec![entry(|big| big.u32(2)); 2];
    let split = Branch { children, ..element("s", ("map<string,int>", 1, -1, 4), counts) };
    let tree = tree(&[element("m", ("map<string,int>", 0, -1, 0), vec![by_members; 2]), split], &[pair], HOW);
    let pairs = record(4, vec![("_0", texts(&["a", "b", "a", "b"])), ("_1", ints(&[1, 2, 1, 2]))]);
    for name in ["m", "s"] {
        assert_eq!(all(&tree, name).unwrap(), lists(&[0, 2, 4], pairs.clone()));
        assert_eq!(type_name(&tree, name), "std::map<std::string,std::int32_t>");
    }
}
