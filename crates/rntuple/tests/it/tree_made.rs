//! Files of ROOT with a tree that are made byte by byte: with descriptions of the classes that say what a tree is.

use dolmen_rntuple::format::block::{Compression, compress};

/// Bytes with the highest of each number first.
#[derive(Default, Clone, Debug)]
pub(crate) struct Big(pub(crate) Vec<u8>);

impl Big {
    pub(crate) fn of(fill: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut big = Self::default();
        fill(&mut big);
        big.0
    }

    fn number(&mut self, mut little: Vec<u8>) {
        little.reverse();
        self.0.extend(little);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.number(value.to_le_bytes().to_vec());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.number(value.to_le_bytes().to_vec());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.number(value.to_le_bytes().to_vec());
    }

    pub(crate) fn f32(&mut self, value: f32) {
        self.u32(value.to_bits());
    }

    pub(crate) fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(length) if length < 255 => self.u8(length),
            _ => {
                self.u8(255);
                self.u32(text.len() as u32);
            }
        }
        self.0.extend(text.as_bytes());
    }

    /// Members of a class behind the count of their bytes and the version.
    pub(crate) fn counted(&mut self, version: u16, fill: impl FnOnce(&mut Self)) {
        let inner = Self::of(fill);
        self.u32(0x4000_0000 | (inner.len() as u32 + 2));
        self.u16(version);
        self.0.extend(inner);
    }

    /// An object behind a pointer, with the name of its class.
    pub(crate) fn pointed(&mut self, class: &str, fill: impl FnOnce(&mut Self)) {
        let inner = Self::of(fill);
        self.u32(0x4000_0000 | (inner.len() + class.len() + 5) as u32);
        self.u32(u32::MAX);
        self.0.extend(class.as_bytes());
        self.u8(0);
        self.0.extend(inner);
    }

    pub(crate) fn object(&mut self) {
        self.u16(1);
        self.u32(0);
        self.u32(0x0300_0000);
    }

    pub(crate) fn named(&mut self, name: &str, title: &str) {
        self.counted(1, |big| {
            big.object();
            big.text(name);
            big.text(title);
        });
    }

    /// A list of pointers, which `fill` puts.
    pub(crate) fn array(&mut self, count: usize, fill: impl FnOnce(&mut Self)) {
        self.counted(3, |big| {
            big.object();
            big.text("");
            big.u32(count as u32);
            big.u32(0);
            fill(big);
        });
    }
}

/// A member in a description: class of the description, name, title, kind, lengths, type, and the name of a counter.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) kind: i32,
    pub(crate) lengths: Vec<u32>,
    pub(crate) type_name: &'static str,
    pub(crate) counter: &'static str,
}

/// A member without anything special.
pub(crate) fn member(name: &'static str, kind: i32, type_name: &'static str) -> Member {
    Member { name, title: "", kind, lengths: Vec::new(), type_name, counter: "" }
}

/// A description of a class.
pub(crate) type Described = (&'static str, u32, Vec<Member>);

fn put_member(big: &mut Big, member: &Member) {
    let class = match member.kind {
        0 | 66 => "TStreamerBase",
        300 => "TStreamerSTL",
        365 => "TStreamerSTLstring",
        41..=59 => "TStreamerBasicPointer",
        _ => "TStreamerBasicType",
    };
    let common = |big: &mut Big| {
        big.counted(4, |big| {
            big.named(member.name, member.title);
            big.u32(member.kind.cast_unsigned());
            big.u32(0);
            big.u32(member.lengths.iter().product::<u32>() * u32::from(!member.lengths.is_empty()));
            big.u32(member.lengths.len() as u32);
            (0..5).for_each(|at| big.u32(member.lengths.get(at).copied().unwrap_or(0)));
            big.text(member.type_name);
        });
    };
    let standard = |big: &mut Big| {
        big.counted(3, |big| {
            common(big);
            big.u32(1);
            big.u32(0);
        });
    };
    big.pointed(class, |big| match class {
        "TStreamerSTL" => standard(big),
        "TStreamerSTLstring" => big.counted(2, standard),
        "TStreamerBase" => big.counted(3, |big| {
            common(big);
            big.u32(1);
        }),
        "TStreamerBasicPointer" => big.counted(2, |big| {
            common(big);
            big.u32(1);
            big.text(member.counter);
            big.text("");
        }),
        _ => big.counted(2, common),
    });
}

/// What stands for the checksum of each class that is made here.
pub(crate) const CHECKSUM: u32 = 0x1234_5678;

/// The list of descriptions.
fn descriptions(classes: &[Described]) -> Vec<u8> {
    Big::of(|big| {
        big.counted(5, |big| {
            big.object();
            big.text("");
            big.u32(classes.len() as u32);
            for (class, version, members) in classes {
                big.pointed("TStreamerInfo", |big| {
                    big.counted(9, |big| {
                        big.named(class, "");
                        big.u32(CHECKSUM);
                        big.u32(*version);
                        big.pointed("TObjArray", |big| {
                            big.array(members.len(), |big| members.iter().for_each(|m| put_member(big, m)));
                        });
                    });
                });
                big.u8(0);
            }
        });
    })
}

/// The classes that say what a tree is, with the members that matter.
fn tree_classes() -> Vec<Described> {
    let base = |name| member(name, 0, "BASE");
    let array = |name| member(name, 61, "TObjArray");
    let int = |name| member(name, 3, "int");
    let long = |name| member(name, 16, "Long64_t");
    let text = |name| member(name, 65, "TString");
    let counted = |name, kind| Member { counter: "fMaxBaskets", ..member(name, kind, "Long64_t*") };
    let leaf = |name| (name, 1, vec![base("TLeaf")]);
    vec![
        ("TTree", 20, vec![base("TNamed"), long("fEntries"), array("fBranches")]),
        (
            "TBranch",
            13,
            vec![
                base("TNamed"),
                int("fWriteBasket"),
                int("fMaxBaskets"),
                long("fEntries"),
                array("fBranches"),
                array("fLeaves"),
                array("fBaskets"),
                counted("fBasketBytes", 43),
                counted("fBasketEntry", 56),
                counted("fBasketSeek", 56),
                text("fFileName"),
            ],
        ),
        (
            "TBranchElement",
            10,
            vec![
                base("TBranch"),
                text("fClassName"),
                member("fCheckSum", 13, "unsigned int"),
                int("fClassVersion"),
                int("fID"),
                int("fType"),
            ],
        ),
        (
            "TLeaf",
            2,
            vec![
                base("TNamed"),
                int("fLen"),
                member("fIsUnsigned", 18, "bool"),
                member("fLeafCount", 64, "TLeaf*"),
            ],
        ),
        leaf("TLeafO"),
        leaf("TLeafB"),
        leaf("TLeafS"),
        leaf("TLeafI"),
        leaf("TLeafL"),
        leaf("TLeafG"),
        leaf("TLeafF"),
        leaf("TLeafD"),
        leaf("TLeafF16"),
        leaf("TLeafD32"),
        leaf("TLeafC"),
        ("TLeafObject", 1, vec![base("TLeaf"), member("fVirtual", 18, "bool")]),
        ("TBranchObject", 1, vec![base("TBranch"), text("fClassName")]),
    ]
}

/// A leaf.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) length: u32,
    pub(crate) is_unsigned: bool,
    pub(crate) counter: Counter,
}

/// What says how long arrays of a leaf are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counter {
    None,
    /// A leaf that is in no branch.
    Alone,
    /// The leaf `n` of the tree, whose branch stands before.
    Other,
}

/// Stands for the reference to the leaf `n` until it is known where that is.
const REFERENCE: u32 = 0x00ab_cdef;

/// A leaf of one value an entry.
pub(crate) fn leaf(class: &'static str, name: &'static str) -> Leaf {
    Leaf { class, name, title: name, length: 1, is_unsigned: false, counter: Counter::None }
}

/// The kind of a branch that is one of another class: of whole objects.
pub(crate) const OBJECT: i32 = i32::MAX;

/// A branch, with the bytes of each entry.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) name: &'static str,
    pub(crate) leaves: Vec<Leaf>,
    /// Class, version, number of the member, kind.
    pub(crate) element: Option<(&'static str, u32, i32, i32)>,
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) has_starts: bool,
    /// Whether its baskets say that where entries begin follows from their counts.
    pub(crate) leaves_out_starts: bool,
    pub(crate) file: &'static str,
    pub(crate) children: Vec<Branch>,
}

pub(crate) fn branch(name: &'static str, leaves: Vec<Leaf>, entries: Vec<Vec<u8>>) -> Branch {
    Branch {
        name,
        leaves,
        element: None,
        entries,
        has_starts: false,
        leaves_out_starts: false,
        file: "",
        children: Vec::new(),
    }
}

pub(crate) fn element(
    name: &'static str,
    element: (&'static str, u32, i32, i32),
    entries: Vec<Vec<u8>>,
) -> Branch {
    Branch { element: Some(element), has_starts: true, ..branch(name, Vec::new(), entries) }
}

/// How a tree is put into baskets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) compression: Compression,
    pub(crate) entries_of_a_basket: usize,
    /// Whether the last basket is within its branch.
    pub(crate) is_last_embedded: bool,
}

/// Bytes of a basket's key: those of a key with small places and two names, and its own numbers.
pub(crate) const BASKET_KEY_BYTES: usize = 26 + 8 + 2 + 2 + 19;

/// The key of a basket of so many entries whose data has so many bytes.
fn basket_key(
    stored: usize,
    object: usize,
    entries: usize,
    data: usize,
    kind: u8,
    leaves_out: bool,
) -> Vec<u8> {
    let key_bytes = BASKET_KEY_BYTES + usize::from(leaves_out);
    Big::of(|big| {
        big.u32(if stored > 0 { (stored + key_bytes) as u32 } else { 0 });
        big.u16(4);
        big.u32(object as u32);
        big.u32(0);
        big.u16(key_bytes as u16);
        big.u16(1);
        big.u32(0);
        big.u32(0);
        big.text("TBasket");
        big.text("b");
        big.text("t");
        big.u16(3);
        big.u32(32_000);
        big.u32(if leaves_out { (-1000_i32).cast_unsigned() } else { 1000 });
        if leaves_out {
            big.u8(1);
        }
        big.u32(entries as u32);
        big.u32((key_bytes + data) as u32);
        big.u8(kind);
    })
}

/// Where entries begin, counted with the key, behind their count.
fn starts(entries: &[Vec<u8>], count_more: usize) -> Vec<u8> {
    Big::of(|big| {
        big.u32((entries.len() + count_more) as u32);
        let mut at = BASKET_KEY_BYTES;
        for entry in entries {
            big.u32(at as u32);
            at += entry.len();
        }
        (0..count_more).for_each(|_| big.u32(0));
    })
}

/// What is known of a basket that was put.
struct Put {
    bytes: u32,
    first: u64,
    at: u64,
    embedded: Option<Vec<u8>>,
}

fn put_basket(file: &mut Vec<u8>, branch: &Branch, first: usize, entries: &[Vec<u8>], how: How) -> Put {
    let data = entries.concat();
    let (data_bytes, leaves_out) = (data.len(), branch.leaves_out_starts);
    let first_entry = first as u64;
    if how.is_last_embedded && first + entries.len() == branch.entries.len() {
        let kind = if leaves_out { 91 } else { 12 - u8::from(branch.has_starts) };
        let mut embedded = basket_key(0, 0, entries.len(), data_bytes, kind, leaves_out);
        if branch.has_starts {
            embedded.extend(starts(entries, 0));
        }
        embedded.extend(vec![0; BASKET_KEY_BYTES + usize::from(leaves_out)]);
        embedded.extend(data);
        return Put { bytes: 0, first: first_entry, at: 0, embedded: Some(embedded) };
    }
    let mut object = data;
    if branch.has_starts {
        object.extend(starts(entries, 1));
    }
    let stored = compress(how.compression, &object).unwrap();
    let at = file.len() as u64;
    file.extend(basket_key(stored.len(), object.len(), entries.len(), data_bytes, 0, leaves_out));
    file.extend(&stored);
    Put { bytes: (file.len() as u64 - at) as u32, first: first_entry, at, embedded: None }
}

fn put_leaf(big: &mut Big, leaf: &Leaf) {
    big.pointed(leaf.class, |big| {
        big.counted(1, |big| {
            big.counted(2, |big| {
                big.named(leaf.name, leaf.title);
                big.u32(leaf.length);
                big.u8(u8::from(leaf.is_unsigned));
                match leaf.counter {
                    Counter::None => big.u32(0),
                    Counter::Alone => put_leaf(big, &self::leaf("TLeafI", "count")),
                    Counter::Other => big.u32(REFERENCE),
                }
            });
            if leaf.class == "TLeafObject" {
                big.u8(1);
            }
        });
    });
}

fn put_branch(big: &mut Big, file: &mut Vec<u8>, branch: &Branch, how: How) {
    let mut put = Vec::new();
    for (at, some) in branch.entries.chunks(how.entries_of_a_basket).enumerate() {
        put.push(put_basket(file, branch, at * how.entries_of_a_basket, some, how));
    }
    let common = |big: &mut Big, file: &mut Vec<u8>| {
        big.counted(13, |big| {
            big.named(branch.name, "a branch");
            let is_embedded = put.last().is_some_and(|put| put.embedded.is_some());
            big.u32((put.len() - usize::from(is_embedded)) as u32);
            big.u32(put.len() as u32 + 1);
            big.u64(branch.entries.len() as u64);
            big.array(branch.children.len(), |big| {
                branch.children.iter().for_each(|child| put_branch(big, file, child, how));
            });
            big.array(branch.leaves.len(), |big| branch.leaves.iter().for_each(|leaf| put_leaf(big, leaf)));
            big.array(put.len(), |big| {
                for put in &put {
                    match &put.embedded {
                        Some(embedded) => big.pointed("TBasket", |big| big.0.extend(embedded)),
                        None => big.u32(0),
                    }
                }
            });
            big.u8(1);
            put.iter().for_each(|put| big.u32(put.bytes));
            big.u32(0);
            big.u8(1);
            put.iter().for_each(|put| big.u64(put.first));
            big.u64(branch.entries.len() as u64);
            big.u8(1);
            put.iter().for_each(|put| big.u64(put.at));
            big.u64(0);
            big.text(branch.file);
        });
    };
    match branch.element {
        None => big.pointed("TBranch", |big| common(big, file)),
        Some((class, 0, _, OBJECT)) => big.pointed("TBranchObject", |big| {
            big.counted(1, |big| {
                common(big, file);
                big.text(class);
            });
        }),
        Some((class, version, id, kind)) => big.pointed("TBranchElement", |big| {
            big.counted(10, |big| {
                common(big, file);
                big.text(class);
                big.u32(CHECKSUM);
                big.u32(version);
                big.u32(id.cast_unsigned());
                big.u32(kind.cast_unsigned());
            });
        }),
    }
}

/// A key of small places, before an object of `bytes`.
fn key(class: &str, name: &str, bytes: usize, at: usize) -> Vec<u8> {
    let key_bytes = 26 + 3 + class.len() + name.len();
    Big::of(|big| {
        big.u32((key_bytes + bytes) as u32);
        big.u16(4);
        big.u32(bytes as u32);
        big.u32(0);
        big.u16(key_bytes as u16);
        big.u16(1);
        big.u32(at as u32);
        big.u32(0);
        big.text(class);
        big.text(name);
        big.text("");
    })
}

/// Where a file has its directory.
const FIRST: usize = 100;

/// A file with the tree `events` of these branches, whose classes are described.
pub(crate) fn file(branches: &[Branch], classes: &[Described], how: How) -> Vec<u8> {
    let mut file = vec![0; 200];
    let entry_count = branches.iter().map(|branch| branch.entries.len()).max().unwrap_or(0);
    let mut tree = Big::of(|big| {
        big.counted(20, |big| {
            big.named("events", "what happened");
            big.u64(entry_count as u64);
            big.array(branches.len(), |big| {
                branches.iter().for_each(|branch| put_branch(big, &mut file, branch, how));
            });
            big.u64(7);
        });
    });
    refer(&mut tree);
    with_tree(file, &tree, classes)
}

/// Puts in the place of the leaf `n`, by which others refer to it: counted with the tree's key of 40 bytes, and 2.
fn refer(tree: &mut [u8]) {
    let find = |wanted: &[u8]| tree.windows(wanted.len()).position(|some| some == wanted);
    let Some(at) = find(&Big::of(|big| big.u32(REFERENCE))) else { return };
    // Behind the name of its class are three counts of bytes with versions, and what objects begin with.
    let name_at = 7 + 3 * 6 + 10;
    let is_it = |some: &[u8]| some.starts_with(b"TLeafI\0") && some.ends_with(b"\x01n\x01n");
    let leaf = tree.windows(name_at + 4).position(is_it).unwrap() - 8;
    tree[at..at + 4].copy_from_slice(&Big::of(|big| big.u32(leaf as u32 + 40 + 2)));
}

/// A file with an object of a tree behind what it has before.
pub(crate) fn with_tree(mut file: Vec<u8>, tree: &[u8], classes: &[Described]) -> Vec<u8> {
    let mut put = |class, name, object: &[u8]| {
        let at = file.len();
        let key = key(class, name, object.len(), at);
        file.extend(&key);
        file.extend(object);
        (at, key, file.len() - at)
    };
    let (_, tree_key, _) = put("TTree", "events", tree);
    let all = [&tree_classes()[..], classes].concat();
    let (described_at, _, described_bytes) = put("TList", "StreamerInfo", &descriptions(&all));
    let list = [&Big::of(|big| big.u32(1))[..], &tree_key].concat();
    let (list_at, _, list_bytes) = put("TDirectory", "", &list);
    let directory = Big::of(|big| {
        big.u16(5);
        big.u64(0);
        big.u32(list_bytes as u32);
        big.u32(0);
        big.u32(0);
        big.u32(0);
        big.u32(list_at as u32);
    });
    let header = Big::of(|big| {
        big.0.extend(b"root");
        big.u32(62_400);
        big.u32(FIRST as u32);
        (0..5).for_each(|_| big.u32(0));
        big.u8(4);
        big.u32(0);
        big.u32(described_at as u32);
        big.u32(described_bytes as u32);
    });
    file[..header.len()].copy_from_slice(&header);
    file[FIRST..FIRST + directory.len()].copy_from_slice(&directory);
    file
}
