//! Trees: branches of all types in any range of entries, and what is refused.

use crate::tree_classes::{classes, hit};
use crate::tree_made::{
    BASKET_KEY_BYTES, Big, Branch, Counter, Described, How, Leaf, Member, branch, element, file, leaf,
    member, with_tree,
};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::{ColumnKind, Role, Schema};
use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::rootfile::tree::{Container, Number, Tree, Type};
use dolmen_rntuple::{Array, Entries, Error, Fault, Feature, Lists, Refusal, Values};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) const HOW: How =
    How { compression: Compression::Zlib(6), entries_of_a_basket: 3, is_last_embedded: true };

/// A file that is gone when it is not needed any more.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("dolmen-tree-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    pub(crate) fn open(&self) -> dolmen_rntuple::Result<Tree> {
        Tree::open(&Arc::new(RootFile::open(&self.0)?), "events")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Ignored: a directory for what is thrown away.
        _ = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn tree(branches: &[Branch], classes: &[Described], how: How) -> Tree {
    Scratch::new(&file(branches, classes, how)).open().unwrap()
}

pub(crate) fn all(tree: &Tree, name: &str) -> dolmen_rntuple::Result<Array> {
    let entries = Entries { first: 0, end: tree.entry_count() };
    Ok(tree.read(&[tree.branch(name)?], entries)?.remove(0))
}

pub(crate) fn type_name(tree: &Tree, name: &str) -> String {
    tree.branches()[tree.branch(name).unwrap()].type_of().unwrap().name()
}

pub(crate) fn floats(values: &[f32]) -> Array {
    Array::Values(Values::F32(values.to_vec()))
}

pub(crate) fn ints(values: &[i32]) -> Array {
    Array::Values(Values::I32(values.to_vec()))
}

pub(crate) fn lists(offsets: &[i64], content: Array) -> Array {
    Array::Lists { of: Lists::Items, offsets: offsets.to_vec(), content: Box::new(content) }
}

pub(crate) fn texts(texts: &[&str]) -> Array {
    let mut offsets = vec![0];
    texts.iter().for_each(|text| offsets.push(offsets[offsets.len() - 1] + text.len() as i64));
    let content = Box::new(Array::Values(Values::U8(texts.concat().into_bytes())));
    Array::Lists { of: Lists::Text, offsets, content }
}

pub(crate) fn record(len: u64, fields: Vec<(&str, Array)>) -> Array {
    Array::Record { len, fields: fields.into_iter().map(|(name, field)| (name.into(), field)).collect() }
}

/// The bytes of an entry.
pub(crate) fn entry(fill: impl FnOnce(&mut Big)) -> Vec<u8> {
    Big::of(fill)
}

#[test]
fn each_kind_of_leaf_is_read_as_what_it_is() {
    let unsigned = |class, name| Leaf { is_unsigned: true, ..leaf(class, name) };
    let wide = |value: u64| (0..5).map(|at| entry(|big| big.u64(value ^ at))).collect::<Vec<_>>();
    let four = |value: u32| (0..5).map(|at| entry(|big| big.u32(value ^ at))).collect::<Vec<_>>();
    let two = |value: u16| (0..5).map(|at| entry(|big| big.u16(value ^ at))).collect::<Vec<_>>();
    let one = |value: u8| (0..5).map(|at| vec![value ^ at]).collect::<Vec<_>>();
    let doubles: Vec<_> = (0..5).map(|at| entry(|big| big.u64((f64::from(at) - 0.5).to_bits()))).collect();
    let tree = tree(
        &[
            branch("o", vec![leaf("TLeafO", "o")], vec![vec![0], vec![1], vec![2], vec![0], vec![1]]),
            branch("b", vec![leaf("TLeafB", "b")], one(0xff)),
            branch("ub", vec![unsigned("TLeafB", "ub")], one(0xff)),
            branch("s", vec![leaf("TLeafS", "s")], two(0xfffe)),
            branch("us", vec![unsigned("TLeafS", "us")], two(0xfffe)),
            branch("i", vec![leaf("TLeafI", "i")], four(0xffff_fff0)),
            branch("ui", vec![unsigned("TLeafI", "ui")], four(0xffff_fff0)),
            branch("l", vec![leaf("TLeafL", "l")], wide(u64::MAX - 7)),
            branch("g", vec![unsigned("TLeafG", "g")], wide(u64::MAX - 7)),
            branch("f", vec![leaf("TLeafF", "f")], four(0x3fc0_0000)),
            branch("d", vec![leaf("TLeafD", "d")], doubles),
        ],
        &[],
        HOW,
    );
    let wanted = [
        ("o", "bool", Values::Bool(vec![0, 1, 1, 0, 1])),
        ("b", "std::int8_t", Values::I8(vec![-1, -2, -3, -4, -5])),
        ("ub", "std::uint8_t", Values::U8(vec![255, 254, 253, 252, 251])),
        ("s", "std::int16_t", Values::I16(vec![-2, -1, -4, -3, -6])),
        ("us", "std::uint16_t", Values::U16(vec![65534, 65535, 65532, 65533, 65530])),
        ("i", "std::int32_t", Values::I32(vec![-16, -15, -14, -13, -12])),
        ("ui", "std::uint32_t", Values::U32((0..5).map(|at| 0xffff_fff0 + at).collect())),
        ("l", "std::int64_t", Values::I64(vec![-8, -7, -6, -5, -4])),
        ("g", "std::uint64_t", Values::U64((0..5).map(|at| u64::MAX - 7 + at).collect())),
        ("f", "float", Values::F32((0..5).map(|at| f32::from_bits(0x3fc0_0000 + at)).collect())),
        ("d", "double", Values::F64(vec![-0.5, 0.5, 1.5, 2.5, 3.5])),
    ];
    for (name, of, values) in wanted {
        assert_eq!(type_name(&tree, name), of);
        assert_eq!(all(&tree, name).unwrap(), Array::Values(values), "{name}");
    }
    assert_eq!((tree.name(), tree.title(), tree.entry_count()), ("events", "what happened", 5));
    assert_eq!(tree.top_branches().count(), 11);
}

#[test]
fn floats_of_few_bits_are_what_their_titles_say() {
    let short = |exponent, fraction| {
        entry(|big| {
            big.u8(exponent);
            big.u16(fraction);
        })
    };
    let f16 = vec![short(127, 0), short(128, 0x0800), short(127, 0x2000)];
    let steps: Vec<_> = [0_u32, 64, 256].iter().map(|step| entry(|big| big.u32(*step))).collect();
    let plain: Vec<_> = [0.1_f32, -2.5, 0.0].iter().map(|value| entry(|big| big.f32(*value))).collect();
    let titled = |class, name, title| vec![Leaf { title, ..leaf(class, name) }];
    let tree = tree(
        &[
            branch("short", titled("TLeafF16", "short", "short"), f16.clone()),
            branch("range", titled("TLeafF16", "range", "range[-1,1,8]"), steps.clone()),
            branch("wide", titled("TLeafD32", "wide", "wide[0,2,8]"), steps),
            branch("float", titled("TLeafD32", "float", "float"), plain),
            branch("bits", titled("TLeafD32", "bits", "bits[0,0,12]"), f16),
        ],
        &[],
        HOW,
    );
    assert_eq!(all(&tree, "short").unwrap(), floats(&[1.0, 3.0, -1.0]));
    assert_eq!(all(&tree, "range").unwrap(), floats(&[-1.0, -0.5, 1.0]));
    assert_eq!(all(&tree, "wide").unwrap(), Array::Values(Values::F64(vec![0.0, 0.5, 2.0])));
    assert_eq!(all(&tree, "float").unwrap(), Array::Values(Values::F64(vec![f64::from(0.1_f32), -2.5, 0.0])));
    assert_eq!(all(&tree, "bits").unwrap(), Array::Values(Values::F64(vec![1.0, 3.0, -1.0])));
}

/// Entries of as many numbers as `counts` says, which go on.
fn counted(counts: &[usize]) -> Vec<Vec<u8>> {
    let mut next = 0;
    let mut entries = Vec::new();
    for count in counts {
        entries.push(entry(|big| (0..*count as u32).for_each(|at| big.u32(next + at))));
        next += *count as u32;
    }
    entries
}

#[test]
fn arrays_leaf_lists_and_texts_are_read_as_their_leaves_say() {
    let numbers = |count: u32| entry(|big| (0..count).for_each(|at| big.u32(at)));
    let fixed = Leaf { length: 6, title: "m[2][3]", ..leaf("TLeafI", "m") };
    let untold = Leaf { length: 6, title: "u", ..leaf("TLeafI", "u") };
    let jagged = Leaf { counter: Counter::Alone, title: "j[count]", ..leaf("TLeafI", "j") };
    let pairs = Leaf { counter: Counter::Alone, length: 2, title: "p[count][2]", ..leaf("TLeafI", "p") };
    let own = vec![
        leaf("TLeafI", "n"),
        Leaf { counter: Counter::Other, length: 2, title: "z[n][2]", ..leaf("TLeafB", "z") },
    ];
    let owned = [1, 0, 2, 1].map(|count| {
        entry(|big| {
            big.u32(count);
            (0..count * 2).for_each(|at| big.u8(at as u8));
        })
    });
    let list = vec![leaf("TLeafI", "x"), Leaf { length: 2, title: "y[2]", ..leaf("TLeafB", "y") }];
    let listed = entry(|big| {
        big.u32(5);
        big.u16(0x0102);
    });
    let long = "long".repeat(100);
    let tree = tree(
        &[
            branch("m", vec![fixed], vec![numbers(6); 4]),
            branch("u", vec![untold], vec![numbers(6); 4]),
            Branch { has_starts: true, ..branch("j", vec![jagged], counted(&[2, 0, 1, 3])) },
            Branch { has_starts: true, ..branch("p", vec![pairs], counted(&[2, 0, 4, 2])) },
            branch("xy", list, vec![listed; 4]),
            Branch { has_starts: true, ..branch("nz", own, owned.to_vec()) },
            Branch {
                has_starts: true,
                ..branch(
                    "c",
                    vec![leaf("TLeafC", "c")],
                    vec![
                        entry(|big| big.text("a")),
                        vec![],
                        entry(|big| big.text(&long)),
                        entry(|big| big.text("d")),
                    ],
                )
            },
        ],
        &[],
        HOW,
    );
    let six = || ints(&[0, 1, 2, 3, 4, 5].repeat(4));
    let repeated = |count, len, content| Array::Repeated { count, len, content: Box::new(content) };
    assert_eq!(all(&tree, "m").unwrap(), repeated(2, 4, repeated(3, 8, six())));
    assert_eq!(type_name(&tree, "m"), "std::array<std::array<std::int32_t,3>,2>");
    assert_eq!(all(&tree, "u").unwrap(), repeated(6, 4, six()));
    assert_eq!(all(&tree, "j").unwrap(), lists(&[0, 2, 2, 3, 6], ints(&[0, 1, 2, 3, 4, 5])));
    assert_eq!(type_name(&tree, "j"), "std::vector<std::int32_t>");
    let in_pairs = repeated(2, 4, ints(&[0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(all(&tree, "p").unwrap(), lists(&[0, 1, 1, 3, 4], in_pairs));
    let y = repeated(2, 4, Array::Values(Values::I8([1, 2].repeat(4))));
    assert_eq!(all(&tree, "xy").unwrap(), record(4, vec![("x", ints(&[5; 4])), ("y", y)]));
    assert_eq!(all(&tree, "c").unwrap(), texts(&["a", "", &long, "d"]));
    assert_eq!(type_name(&tree, "c"), "std::string");
    let z = repeated(2, 4, Array::Values(Values::I8(vec![0, 1, 0, 1, 2, 3, 0, 1])));
    let z = lists(&[0, 1, 1, 3, 4], z);
    assert_eq!(all(&tree, "nz").unwrap(), record(4, vec![("n", ints(&[1, 0, 2, 1])), ("z", z)]));
}

#[test]
fn where_entries_begin_follows_from_the_branch_that_counts_them() {
    let counts = [2, 0, 1, 3, 1];
    let entries: Vec<_> = counts.iter().map(|&count| entry(|big| big.u32(count))).collect();
    let jagged = Leaf { counter: Counter::Other, length: 2, title: "j[n][2]", ..leaf("TLeafI", "j") };
    let twice = counts.map(|count| count as usize * 2);
    let texts = ["a", "b", "c", "d", "e"].map(|text| entry(|big| big.text(text)));
    for entries_of_a_basket in [2, 4] {
        let how = How { entries_of_a_basket, ..HOW };
        let tree = tree(
            &[
                branch("n", vec![leaf("TLeafI", "n")], entries.clone()),
                Branch { leaves_out_starts: true, ..branch("j", vec![jagged.clone()], counted(&twice)) },
                Branch { leaves_out_starts: true, ..branch("t", vec![leaf("TLeafC", "t")], texts.to_vec()) },
            ],
            &[],
            how,
        );
        let j = tree.branch("j").unwrap();
        for (first, end, offsets, from) in [(0, 5, &[0, 2, 2, 3, 6, 7][..], 0), (3, 4, &[0, 3], 6)] {
            let content = Array::Repeated {
                count: 2,
                len: offsets[offsets.len() - 1] as u64,
                content: Box::new(ints(
                    &(from..from + offsets[offsets.len() - 1] as i32 * 2).collect::<Vec<_>>(),
                )),
            };
            let read = tree.read(&[j], Entries { first, end }).unwrap().remove(0);
            assert_eq!(read, lists(offsets, content));
        }
        // An empty text has no bytes: without where each begins they cannot be told apart.
        let found = all(&tree, "t");
        assert!(
            matches!(found, Err(Error::BranchRefused { why: Refusal::Has(Feature::NoStarts), .. })),
            "{found:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_range_of_entries_is_read_however_baskets_are_cut(
        counts in prop::collection::vec(0_usize..5, 1..40), entries_of_a_basket in 1_usize..9, is_last_embedded in any::<bool>(),
        way in 0_usize..5, range in (0_usize..41, 0_usize..41),
    ) {
        let ways = [Compression::None, Compression::Zlib(1), Compression::Lzma(1), Compression::Lz4, Compression::Zstd(1)];
        let how = How { compression: ways[way], entries_of_a_basket, is_last_embedded };
        let jagged = Leaf { counter: Counter::Alone, title: "j[count]", ..leaf("TLeafI", "j") };
        let plain: Vec<_> = (0..counts.len() as u32).map(|at| entry(|big| big.u32(at))).collect();
        let vectors: Vec<_> = counts.iter().map(|&count| vector(count as u32, 0)).collect();
        let tree = tree(
            &[
                Branch { has_starts: true, ..branch("j", vec![jagged], counted(&counts)) },
                branch("i", vec![leaf("TLeafI", "i")], plain),
                element("v", ("vector<int>", 0, -1, 0), vectors.clone()),
                Branch { has_starts: false, ..element("w", ("vector<int>", 0, -1, 0), vectors) },
            ],
            &[],
            how,
        );
        let (first, end) = (range.0.min(range.1).min(counts.len()), range.0.max(range.1).min(counts.len()));
        let entries = Entries { first: first as u64, end: end as u64 };
        let read = tree.read(&[0, 1, 2, 3], entries).unwrap();
        let before: usize = counts[..first].iter().sum();
        let mut offsets = vec![0_i64];
        counts[first..end].iter().for_each(|count| offsets.push(offsets[offsets.len() - 1] + *count as i64));
        let all: Vec<i32> = (before as i32..).take(offsets[offsets.len() - 1] as usize).collect();
        prop_assert_eq!(&read[0], &lists(&offsets, ints(&all)));
        prop_assert_eq!(&read[1], &ints(&(first as i32..end as i32).collect::<Vec<_>>()));
        let each: Vec<i32> = counts[first..end].iter().flat_map(|count| 0..*count as i32).collect();
        prop_assert_eq!(&read[2], &lists(&offsets, ints(&each)));
        prop_assert_eq!(&read[3], &lists(&offsets, ints(&each)));
    }
}

/// A vector of `count` numbers from `first`, as a branch has it.
fn vector(count: u32, first: u32) -> Vec<u8> {
    entry(|big| {
        big.counted(9, |big| {
            big.u32(count);
            (0..count).for_each(|at| big.u32(first + at));
        });
    })
}

/// A collection of `count` items, which `fill` puts, as a branch has it.
pub(crate) fn collection(count: u32, fill: impl FnOnce(&mut Big)) -> Vec<u8> {
    entry(|big| {
        big.counted(9, |big| {
            big.u32(count);
            fill(big);
        });
    })
}

#[test]
fn collections_of_numbers_texts_and_collections_are_read() {
    let nested = entry(|big| {
        big.counted(9, |big| {
            big.u32(2);
            for count in [1, 2] {
                big.u32(count);
                (0..count).for_each(|at| big.f32(at as f32));
            }
        });
    });
    let strings = entry(|big| {
        big.counted(9, |big| {
            big.u32(2);
            big.text("ab");
            big.text("");
        });
    });
    let map = entry(|big| {
        big.counted(9, |big| {
            big.u32(1);
            big.text("key");
            big.u32(2);
            big.u32(7);
            big.u32(8);
        });
    });
    let tree = tree(
        &[
            element("nested", ("vector<vector<float> >", 0, -1, 0), vec![nested; 2]),
            element("strings", ("std::vector<std::string>", 0, -1, 0), vec![strings; 2]),
            element(
                "string",
                ("string", 0, -1, 0),
                vec![entry(|big| big.text("x")), entry(|big| big.text("yz"))],
            ),
            element("map", ("map<string,vector<int> >", 0, -1, 0), vec![map; 2]),
        ],
        &[],
        HOW,
    );
    let inner = lists(&[0, 1, 3, 4, 6], floats(&[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]));
    assert_eq!(all(&tree, "nested").unwrap(), lists(&[0, 2, 4], inner));
    assert_eq!(type_name(&tree, "nested"), "std::vector<std::vector<float>>");
    assert_eq!(all(&tree, "strings").unwrap(), lists(&[0, 2, 4], texts(&["ab", "", "ab", ""])));
    assert_eq!(type_name(&tree, "strings"), "std::vector<std::string>");
    assert_eq!(all(&tree, "string").unwrap(), texts(&["x", "yz"]));
    let values = lists(&[0, 2, 4], ints(&[7, 8, 7, 8]));
    let pairs = record(2, vec![("_0", texts(&["key", "key"])), ("_1", values)]);
    assert_eq!(all(&tree, "map").unwrap(), lists(&[0, 1, 2], pairs));
    assert_eq!(type_name(&tree, "map"), "std::map<std::string,std::vector<std::int32_t>>");
}

/// A collection of points, whose coordinates are branches of their own.
fn split(counts: [u32; 2], lengths: [u32; 2]) -> Branch {
    let counts: Vec<_> = counts.iter().map(|count| entry(|big| big.u32(*count))).collect();
    let values = |start: f32| -> Vec<_> {
        lengths
            .iter()
            .map(|length| entry(|big| (0..*length).for_each(|at| big.f32(start + at as f32))))
            .collect()
    };
    let children = vec![
        element("p.x", ("Point", 3, 0, 41), values(1.0)),
        element("p.y", ("Point", 3, 1, 41), values(5.0)),
    ];
    Branch { children, has_starts: false, ..element("p", ("vector<Point>", 0, -1, 4), counts) }
}

#[test]
fn split_collections_are_read_by_member_and_as_records() {
    let tree = tree(&[split([2, 1], [2, 1])], &classes(), HOW);
    assert_eq!(all(&tree, "p.x").unwrap(), lists(&[0, 2, 3], floats(&[1.0, 2.0, 1.0])));
    assert_eq!(all(&tree, "p/p.y").unwrap(), lists(&[0, 2, 3], floats(&[5.0, 6.0, 5.0])));
    let points = record(3, vec![("x", floats(&[1.0, 2.0, 1.0])), ("y", floats(&[5.0, 6.0, 5.0]))]);
    assert_eq!(all(&tree, "p").unwrap(), lists(&[0, 2, 3], points));
    let paths: Vec<_> = tree.branches().iter().map(|branch| (&*branch.path, branch.parent)).collect();
    assert_eq!(paths, [("p", None), ("p/p.x", Some(0)), ("p/p.y", Some(0))]);
    let of = tree.branches()[0].type_of().unwrap().clone();
    let point = vec![("x".into(), Type::Number(Number::F32)), ("y".into(), Type::Number(Number::F32))];
    let item = Box::new(Type::Record { class: "".into(), fields: point });
    assert_eq!(of, Type::List { container: Container::Vector, item });
}

#[test]
fn a_collection_whose_members_have_other_counts_is_damage() {
    let tree = tree(&[split([2, 1], [2, 2])], &classes(), HOW);
    assert!(all(&tree, "p.x").is_ok());
    let found = all(&tree, "p");
    assert!(matches!(found, Err(Error::Corrupt { offset: 1, .. })), "{found:?}");
}

#[test]
fn the_type_of_a_branch_is_a_field_of_an_ntuple() {
    let tree = tree(&[split([2, 1], [2, 1])], &classes(), HOW);
    let mut schema = Schema::default();
    assert_eq!(tree.branches()[0].type_of().unwrap().add_to(&mut schema, "p"), 0);
    let array = Type::Array { count: 2, item: Box::new(Type::Text) };
    assert_eq!(array.add_to(&mut schema, "a"), 4);
    let fields: Vec<_> =
        schema.fields.iter().map(|f| (&*f.name, &*f.type_name, f.parent, f.role.unwrap())).collect();
    assert_eq!(
        fields,
        [
            ("p", "", 0, Role::Collection),
            ("_0", "", 0, Role::Record),
            ("x", "float", 1, Role::Plain),
            ("y", "float", 1, Role::Plain),
            ("a", "std::array<std::string,2>", 4, Role::Plain),
            ("_0", "std::string", 4, Role::Plain),
        ]
    );
    let columns: Vec<_> = schema.columns.iter().map(|column| (column.field, column.kind)).collect();
    use ColumnKind as K;
    let wanted =
        [(0, K::SplitIndex64), (2, K::SplitReal32), (3, K::SplitReal32), (5, K::SplitIndex64), (5, K::Char)];
    assert_eq!(columns, wanted);
}

#[test]
fn an_entry_of_other_bytes_than_its_type_and_a_basket_of_other_entries_are_damage() {
    let longer = [vector(2, 0), vec![0]].concat();
    let claims = entry(|big| {
        big.counted(9, |big| {
            big.u32(u32::MAX);
            big.u32(u32::MAX);
        });
    });
    let tree = tree(
        &[
            element("longer", ("vector<int>", 0, -1, 0), vec![longer]),
            element("claims", ("vector<vector<int> >", 0, -1, 0), vec![claims]),
            branch("odd", vec![leaf("TLeafI", "odd")], vec![vec![0; 5]]),
        ],
        &[],
        HOW,
    );
    for (name, offset) in [("longer", 18), ("claims", 6), ("odd", 0)] {
        let found = all(&tree, name);
        let is_length =
            matches!(&found, Err(Error::Corrupt { fault: Fault::Length, offset: at, .. }) if *at == offset);
        assert!(is_length, "{name}: {found:?}");
    }
    let mut bytes = file(
        &[branch("i", vec![leaf("TLeafI", "i")], vec![vec![7; 8], vec![7; 4]])],
        &[],
        How { is_last_embedded: false, compression: Compression::None, entries_of_a_basket: 1 },
    );
    // The first basket is the first that stands in the file: its count of entries is before where they end, and its kind.
    bytes[200 + BASKET_KEY_BYTES - 6] = 2;
    let tree = Scratch::new(&bytes).open().unwrap();
    assert!(matches!(all(&tree, "i"), Err(Error::Corrupt { fault: Fault::Length, .. })));
}

#[test]
fn what_is_not_known_is_refused_by_branch_and_class() {
    let classes = [
        ("Pointing", 1, vec![member("p", 64, "Point*")]),
        ("Own", 1, vec![member("r", 62, "TObjArray")]),
        ("Odd", 1, vec![member("q", 499, "Odd")]),
        ("Round", 1, vec![member("r", 62, "Round")]),
        ("Early", 1, vec![Member { counter: "n", ..member("v", 43, "int*") }, member("n", 3, "int")]),
        ("None", 1, vec![Member { lengths: vec![0], ..member("v", 23, "int") }]),
        ("Old", 4, vec![member("x", 3, "int")]),
    ];
    let of =
        |name, class| element(name, (class, 1, -1, 0), vec![entry(|big| big.counted(3, |big| big.u32(0)))]);
    let counted = Leaf { counter: Counter::Alone, ..leaf("TLeafI", "c") };
    let branches = [
        of("pointing", "Pointing"),
        of("own", "Own"),
        of("odd", "Odd"),
        of("round", "Round"),
        of("early", "Early"),
        of("none", "None"),
        element(
            "old",
            ("vector<Old>", 0, -1, 0),
            vec![collection(1, |big| big.counted(3, |big| big.u32(0)))],
        ),
        of("unknown", "vector<Unheard>"),
        of("bracket", "vector<int"),
        element("kind", ("Old", 1, 0, 77), vec![vec![0; 4]]),
        element("unsplit", ("vector<Old>", 1, -1, 4), vec![vec![0; 4]]),
        branch("leaf", vec![leaf("TLeafObject", "l")], vec![vec![0; 4]]),
        branch("leaves", vec![leaf("TLeafI", "n"), counted], vec![vec![0; 4]]),
        branch("empty", vec![Leaf { length: 0, ..leaf("TLeafI", "e") }], vec![vec![0; 4]]),
        Branch { file: "elsewhere.root", ..branch("file", vec![leaf("TLeafI", "f")], vec![vec![0; 4]]) },
    ];
    let tree = tree(&branches, &classes, HOW);
    for (name, class, wanted) in [
        ("pointing", "Pointing", Refusal::Pointer),
        ("own", "Own", Refusal::OwnStreamer),
        ("odd", "Odd", Refusal::Member(499)),
        ("round", "Round", Refusal::TooDeep),
        ("early", "Early", Refusal::Counter),
        ("none", "None", Refusal::NoBytes),
        ("old", "vector<Old>", Refusal::Has(Feature::ClassVersion(3))),
        ("unknown", "vector<Unheard>", Refusal::Undescribed),
        ("bracket", "vector<int", Refusal::Type),
        ("kind", "Old", Refusal::BranchKind(77)),
        ("unsplit", "vector<Old>", Refusal::Unsplit),
        ("leaf", "", Refusal::Leaf),
        ("leaves", "", Refusal::CountedLeaves),
        ("empty", "", Refusal::NoBytes),
        ("file", "", Refusal::OtherFile),
    ] {
        let Err(Error::BranchRefused { branch, class: of, why }) = all(&tree, name) else {
            panic!("{name} is read: {:?}", all(&tree, name));
        };
        assert_eq!((&*branch, &*of, why), (name, class, wanted));
        let said = all(&tree, name).unwrap_err().to_string();
        assert!(said.contains(name) && said.contains(class), "{said}");
    }
}

#[test]
fn trees_branches_and_entries_that_are_not_there_are_refused_by_name() {
    let scratch = Scratch::new(&file(&[branch("i", vec![leaf("TLeafI", "i")], vec![vec![0; 4]])], &[], HOW));
    let root = Arc::new(RootFile::open(&scratch.0).unwrap());
    assert_eq!(root.trees(), ["events".into()]);
    let found = Tree::open(&root, "others").unwrap_err();
    assert!(matches!(&found, Error::NoTree { others, .. } if others.len() == 1));
    assert_eq!(found.to_string(), "there is no tree \"others\"; there is events");
    let tree = Tree::open(&root, "events").unwrap();
    assert!(matches!(tree.branch("x"), Err(Error::NoField { .. })));
    for (first, end) in [(0, 2), (1, 0)] {
        assert!(matches!(tree.read(&[0], Entries { first, end }), Err(Error::NoEntries { count: 1, .. })));
    }
}

#[test]
fn a_file_whose_version_is_below_0_is_one_of_small_places() {
    let mut bytes = file(&[branch("i", vec![leaf("TLeafB", "i")], vec![vec![3]])], &[], HOW);
    bytes[4] = 0xff;
    assert_eq!(all(&Scratch::new(&bytes).open().unwrap(), "i").unwrap(), Array::Values(Values::I8(vec![3])));
}

#[test]
fn a_branch_that_is_its_own_branch_is_damage() {
    let object = Big::of(|big| {
        big.counted(20, |big| {
            big.named("events", "");
            big.u64(0);
            big.array(1, |big| {
                // The object stands here, counted with its key of 40 bytes and the two that references begin with.
                let at = 40 + 4 + 2 + 25 + 8 + 4 + 2 + 10 + 1 + 8 + 4;
                big.pointed("TBranch", |big| {
                    big.counted(13, |big| {
                        big.named("b", "");
                        big.u32(0);
                        big.u32(0);
                        big.u64(0);
                        big.array(1, |big| big.u32(at));
                        big.array(0, |_| ());
                        big.array(0, |_| ());
                        big.0.extend([0; 4]);
                    });
                });
            });
        });
    });
    let found = Scratch::new(&with_tree(vec![0; 200], &object, &[])).open();
    assert!(matches!(found, Err(Error::Corrupt { .. })), "{found:?}");
}

/// A file with a branch of each way in which values lie.
fn everything() -> Vec<u8> {
    let jagged = Leaf { counter: Counter::Alone, title: "j[count]", ..leaf("TLeafI", "j") };
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
            big.u32(1);
            big.f32(1.0);
            big.f32(2.0);
        });
    });
    let how = How { compression: Compression::None, entries_of_a_basket: 1, is_last_embedded: true };
    file(
        &[
            branch("i", vec![leaf("TLeafI", "i")], vec![vec![0; 4]; 2]),
            Branch { has_starts: true, ..branch("j", vec![jagged], counted(&[2, 1])) },
            Branch {
                has_starts: true,
                ..branch("c", vec![leaf("TLeafC", "c")], vec![entry(|big| big.text("text")); 2])
            },
            element("v", ("vector<int>", 0, -1, 0), vec![vector(3, 1); 2]),
            element("hits", ("vector<Hit>", 0, -1, 0), vec![hits; 2]),
            element("points", ("vector<Point>", 0, -1, 0), vec![by_members; 2]),
            split([2, 1], [2, 1]),
        ],
        &classes(),
        how,
    )
}

/// Opens and reads all that is said to be there.
fn use_all(bytes: &[u8]) -> dolmen_rntuple::Result<()> {
    let tree = Scratch::new(bytes).open()?;
    // Whoever reads more entries than a file of that size has asks for the memory himself.
    let entries = Entries { first: 0, end: tree.entry_count().min(1000) };
    let mut result = Ok(());
    for number in 0..tree.branches().len() {
        result = result.and(tree.read(&[number], entries).map(drop));
    }
    result
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_of_a_tree_are_an_error_or_values_and_never_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = everything();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Err(error) = use_all(&bytes) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_file_with_a_tree_that_is_cut_short_is_an_error(cut in any::<prop::sample::Index>()) {
        let bytes = everything();
        prop_assert!(use_all(&bytes[..cut.index(bytes.len())]).is_err());
    }
}

#[test]
fn each_byte_of_a_tree_may_be_anything() {
    let bytes = everything();
    use_all(&bytes).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= if at % 2 == 0 { 0x40 } else { 0xff };
        // Ignored: an error or values, whatever the byte means.
        _ = use_all(&changed);
    }
}
