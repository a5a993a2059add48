//! Why reading or writing event data failed.

use crate::near::near;
use core::fmt;

/// The result of an operation on event data.
pub type Result<T> = core::result::Result<T, Error>;

/// A structure of the format or of its container, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Structure {
    /// A file of ROOT; offsets count from its start.
    File,
    /// A key of a file of ROOT; offsets count from the start of the file.
    Key,
    /// A directory of a file of ROOT and its list of keys; offsets count from the start of the file.
    Directory,
    /// The anchor of an ntuple; offsets count from its start.
    Anchor,
    /// The header; offsets count from the start of the decompressed envelope, as in the next two.
    Header,
    /// The footer.
    Footer,
    /// A list of pages.
    PageList,
    /// A page of this column; offsets count from its start as it is stored.
    Page {
        /// The column's number.
        column: u32,
    },
    /// A record of the store; offsets count from its start.
    Record,
    /// Zones beside a list of pages; offsets count from their start when they are decompressed.
    Zones,
    /// A group of columns in the object of a stored cluster; offsets count from its start.
    Group {
        /// Number of the object.
        object: u64,
        /// The group.
        group: u32,
    },
    /// Values of this field; offsets count elements of the field.
    Field {
        /// The field's number.
        field: u32,
    },
    /// Descriptions of classes in a file of ROOT; offsets count from the start of their key, as in the next.
    Descriptions,
    /// The object that says what a tree is.
    Tree,
    /// A branch of a tree; offsets count entries.
    Branch {
        /// The branch's number.
        branch: u32,
    },
    /// A basket of a branch; offsets count from the start of its contents, or from that of the file.
    Basket {
        /// The branch's number.
        branch: u32,
        /// The basket's number.
        basket: u32,
    },
}

/// What is wrong with bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// They end before what has to be there.
    Short {
        /// Bytes that have to be there.
        wanted_bytes: u64,
        /// Bytes that are there.
        left_bytes: u64,
    },
    /// They do not start with what tells them apart from others.
    Magic,
    /// Their checksum is not that of their contents.
    Checksum,
    /// What is compressed cannot be decompressed.
    Compression,
    /// Text is not UTF-8.
    Text,
    /// A length or count contradicts another.
    Length,
    /// A number refers to what is not there.
    Reference,
    /// A value is not one that can be there.
    Value,
    /// Offsets of collections fall.
    Order,
}

/// What a right file has that this program does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// Feature flags of the format, by their words.
    Flags(u64),
    /// The epoch of the format, which is not 1.
    Epoch(u16),
    /// A way of compressing, by its two letters.
    Compression([u8; 2]),
    /// A kind of locator.
    Locator(u8),
    /// Clusters in several parts.
    ShardedClusters,
    /// A kind of column.
    Column(u16),
    /// A structural role of a field.
    Role(u16),
    /// A version of a field.
    FieldVersion(u32),
    /// Objects whose bytes are not counted.
    UncountedObject,
    /// A version of a class that the file does not describe, or another than is described.
    ClassVersion(u16),
    /// A member of a class, by ROOT's number of its kind.
    Member(i32),
    /// A member that has as many values as another says, where it lies by itself.
    CountedMember,
    /// Items that lie member by member, of what has no members.
    MemberWise,
    /// An object of another class than its branch.
    OtherClass,
    /// Items of a collection that are behind pointers.
    PointedItems,
    /// Entries of different lengths without where each begins.
    NoStarts,
}

/// Why a branch of a tree is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its own class is of a kind that is not known.
    BranchClass,
    /// It is of a kind, by ROOT's number, that is not known.
    BranchKind(i32),
    /// It has a leaf of a kind that is not known.
    Leaf,
    /// It has several leaves, and how long one is depends on another.
    CountedLeaves,
    /// It is a collection whose items' members are in no branches.
    Unsplit,
    /// Its baskets are in another file.
    OtherFile,
    /// The file does not describe its class.
    Undescribed,
    /// Its class says by a program of its own what its bytes are.
    OwnStreamer,
    /// It has pointers.
    Pointer,
    /// It has an array, and what says how long that is does not stand before it.
    Counter,
    /// It has members of a kind, by ROOT's number, that is not known.
    Member(i32),
    /// Its type is not known.
    Type,
    /// It has classes in classes more deeply than is read.
    TooDeep,
    /// Its values have no bytes.
    NoBytes,
    /// It is a tree without branches.
    NoBranch,
    /// What it has is right and not known.
    Has(Feature),
}

/// Why an array is not what a field keeps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fit {
    /// It is of another kind than the field.
    Kind,
    /// It has another number of elements.
    Length {
        /// How many there have to be.
        wanted: u64,
        /// How many there are.
        found: u64,
    },
    /// Its offsets fall, or places within a variant are not one behind the other.
    Order,
    /// There is no such field.
    Unknown,
    /// The field shows another one, whose values are stored.
    Shown,
    /// There is a field of that name already.
    Twice,
    /// Its type has no such number.
    Number,
    /// A field is filled with a number that its type has not.
    Fill,
    /// There are too many fields within each other.
    Depth,
    /// A value is not between those that its column is quantised between.
    Range {
        /// The least that it keeps.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// Its values cannot be in columns of that kind.
    Column,
}

/// Why nothing can be called so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadName {
    /// It is empty.
    Empty,
    /// It is longer than so many bytes.
    Longer(usize),
    /// It has a character that ROOT refuses in names.
    Has(char),
    /// It has a character that is not seen.
    Unseen(char),
}

/// What has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// An ntuple.
    Ntuple,
    /// A field, whose name has those above it before dots.
    Field,
    /// A tag.
    Tag,
}

/// What an ntuple was asked for by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskedBy {
    /// The number of a version.
    Number,
    /// A tag.
    Tag,
    /// A time in seconds since 1970.
    Time,
    /// Such a time, whose version was there and was freed.
    FreedTime,
}

/// How fields are different from those of an ntuple: names and types.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OtherFields {
    /// Fields that the ntuple has alone, and that are not filled.
    pub missing: Vec<(Box<str>, Box<str>)>,
    /// Whether these are all that it has: no entries are made of what is filled alone.
    pub are_all: bool,
    /// Fields that it has not.
    pub more: Vec<(Box<str>, Box<str>)>,
    /// Fields of other types: name, type that the ntuple has, type that was given.
    pub others: Vec<(Box<str>, Box<str>, Box<str>)>,
}

/// Fields that an error names at most, of each kind.
const TOLD_MAX: usize = 12;

/// A field and its type, where that has a name.
pub(crate) fn typed(name: &str, of: &str) -> String {
    if of.is_empty() { format!("\"{name}\"") } else { format!("\"{name}\" ({})", around(of, "")) }
}

/// Characters of a type that an error tells at most.
const TYPE_CHARS_MAX: usize = 160;

/// A type, or what of a long one is around where it begins to be another than `other`.
fn around(of: &str, other: &str) -> String {
    let count = of.chars().count();
    if count <= TYPE_CHARS_MAX {
        return of.into();
    }
    let same = of.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let first = same.saturating_sub(TYPE_CHARS_MAX / 3).min(count - TYPE_CHARS_MAX);
    let mut told: String = of.chars().skip(first).take(TYPE_CHARS_MAX).collect();
    if first > 0 {
        told.insert(0, '…');
    }
    if first + TYPE_CHARS_MAX < count {
        told.push('…');
    }
    told
}

impl fmt::Display for OtherFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { missing, are_all, more, others } = self;
        let joined = |mut each: Vec<String>| {
            if each.len() > TOLD_MAX {
                let others = each.len() - TOLD_MAX;
                each.truncate(TOLD_MAX);
                each.push(format!("and {others} others"));
            }
            each.join(", ")
        };
        let list = |fields: &[(Box<str>, Box<str>)]| {
            joined(fields.iter().map(|(name, of)| typed(name, of)).collect())
        };
        let mut parts = Vec::new();
        if !missing.is_empty() {
            parts.push(format!("missing: {}", list(missing)));
        }
        if !more.is_empty() {
            parts.push(format!("not in the ntuple: {}", list(more)));
        }
        let each = others.iter().map(|(name, own, given)| {
            let (own, given) = (around(own, given), around(given, own));
            format!("\"{name}\" (the ntuple has {own}, given is {given})")
        });
        if !others.is_empty() {
            parts.push(format!("of another type: {}", joined(each.collect())));
        }
        write!(f, "the fields are not those of the ntuple; {}", parts.join("; "))?;
        if *are_all {
            f.write_str("; these are all that it has, and entries are not made of what is filled alone")?;
        }
        Ok(())
    }
}

/// Why an operation failed. Each variant is one that a caller acts on differently.
#[derive(Debug)]
pub enum Error {
    /// Bytes are not what the format says: the file is damaged, or none.
    Corrupt {
        /// In what.
        structure: Structure,
        /// Where in it.
        offset: u64,
        /// What.
        fault: Fault,
    },
    /// The bytes are right and of a kind that this program does not know.
    Unsupported {
        /// In what.
        structure: Structure,
        /// Where in it.
        offset: u64,
        /// Which kind.
        feature: Feature,
    },
    /// Something is larger than this program reads.
    TooBig {
        /// What.
        structure: Structure,
        /// Where in it that is said.
        offset: u64,
        /// How many bytes it would have.
        bytes: u64,
        /// How many it may have.
        bytes_max: u64,
    },
    /// The file has no ntuple of that name.
    NoNtuple {
        /// The name, as it was asked for.
        name: Box<str>,
        /// What there is; that name, if the one that had it was destroyed since it was opened.
        others: Vec<Box<str>>,
    },
    /// The ntuple has no field of that name.
    NoField {
        /// The name, as it was asked for, with dots between field and subfield.
        name: Box<str>,
        /// A field of almost the same name.
        near: Option<Box<str>>,
    },
    /// The file has no tree of that name.
    NoTree {
        /// The name, as it was asked for.
        name: Box<str>,
        /// What there is.
        others: Vec<Box<str>>,
    },
    /// A branch of a tree has what this program does not read.
    BranchRefused {
        /// The branch, with those above it before slashes.
        branch: Box<str>,
        /// Its class; empty if it has none.
        class: Box<str>,
        /// Why.
        why: Refusal,
    },
    /// The range is not within the entries that there are.
    NoEntries {
        /// The first entry that was asked for.
        first: u64,
        /// The entry before which it was to end.
        end: u64,
        /// Entries that there are.
        count: u64,
    },
    /// An array is not what a field keeps.
    NoFit {
        /// The field at the top, by its name.
        field: Box<str>,
        /// Why.
        fit: Fit,
    },
    /// A field has not one number, or one collection, for each entry.
    NotFlat {
        /// Its name, as it was asked for.
        name: Box<str>,
    },
    /// There is something of that name already.
    Exists {
        /// The name.
        name: Box<str>,
    },
    /// Tags keep versions of what was to be destroyed.
    Tagged {
        /// Its name.
        name: Box<str>,
        /// The tags.
        tags: Vec<crate::store::TagOf>,
    },
    /// The ntuple has no such version.
    NoVersion {
        /// What was asked for.
        name: Box<str>,
        /// What that is.
        by: AskedBy,
        /// What there is instead: numbers or ranges of them, tags, or the time of the first version.
        others: Vec<Box<str>>,
    },
    /// The version that is read was freed meanwhile: no tag keeps it, and it was replaced for long enough.
    Freed {
        /// Its number.
        version: u64,
    },
    /// Nothing can be called so.
    BadName {
        /// What would be.
        of: Named,
        /// The name.
        name: Box<str>,
        /// Why.
        why: BadName,
    },
    /// A page of what is stored cannot be read, since it is damaged, or what the store compares with one checksum together with it (up to
    /// 32 KiB in a container).
    BadPage {
        /// The field that it is of, with dots between it and those above it; where several cannot be read, the first of them.
        field: Box<str>,
        /// The first entry of its cluster.
        first: u64,
        /// That behind the last.
        end: u64,
        /// The number of the page in its column and cluster.
        page: u32,
        /// What is wrong with its bytes.
        source: Box<Error>,
    },
    /// What is to be stored has other columns than the ntuple has by now.
    OtherSchema,
    /// What is to be appended has other fields than the ntuple.
    OtherFields(Box<OtherFields>),
    /// What is to be filled is no field of the ntuple.
    NoFill {
        /// The name, as it was given.
        field: Box<str>,
        /// A field of almost the same name.
        near: Option<Box<str>>,
        /// What there is: the fields at the top.
        others: Vec<Box<str>>,
    },
    /// The ntuple is in another store, whose pages this one has not.
    OtherStore,
    /// Others have appended entries since: they need values of the columns that are added, too.
    Behind {
        /// The first of them.
        first: u64,
        /// That behind the last.
        end: u64,
    },
    /// Others have replaced meanwhile what was to be replaced.
    Changed {
        /// The first entry of it.
        first: u64,
        /// That behind the last.
        end: u64,
    },
    /// Others were faster each time: nothing was done.
    Contended {
        /// How often it was tried.
        tries: u32,
    },
    /// Writing what changes takes so long that others might free it before it is part of the store: nothing was done.
    Slow {
        /// For how long what nothing refers to is left.
        lease_ns: u64,
    },
    /// The writer was silent for longer than its lease, and what it had written was freed.
    Expired,
    /// Some of what the writer had put could not be written, which was told then.
    Lost,
    /// The container has gone back to a snapshot while the writer wrote, and so hides some of that: nothing was done.
    WentBack,
    /// Whoever was told of progress, or asked whether to go on, has called it off.
    Stopped,
    /// The store could not do it.
    Store {
        /// Why.
        source: dolmen_client::Error,
    },
    /// The object store could not do it.
    Bucket {
        /// Why.
        source: crate::bucket::BucketError,
    },
    /// The system could not read or write.
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: std::io::Error,
    },
}

/// What is answered by whoever is told of progress: whether to go on.
pub trait GoOn {
    /// Goes on, or not.
    ///
    /// # Errors
    /// The one that ends what is under way: [`Error::Stopped`].
    fn go_on(self) -> Result<()>;
}

impl GoOn for () {
    fn go_on(self) -> Result<()> {
        Ok(())
    }
}

impl GoOn for Result<()> {
    fn go_on(self) -> Result<()> {
        self
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind => write!(f, "is not of its type"),
            Self::Length { wanted, found } => write!(f, "has {found} elements where {wanted} are needed"),
            Self::Order => write!(f, "has offsets or places that fall"),
            Self::Unknown => write!(f, "has no field in the schema"),
            Self::Shown => write!(f, "is not stored, since that shows another field: leave it out"),
            Self::Twice => write!(f, "has the name of a field that is there already"),
            Self::Number | Self::Fill => write!(f, "would have a number that its type has not"),
            Self::Depth => write!(f, "has too many fields within each other"),
            Self::Range { low, high } => {
                write!(f, "has a value that is not between {low} and {high}, where its column keeps them")
            }
            Self::Column => write!(
                f,
                "cannot be in columns of that kind: floats can, of 10 to 31 bits if they are cut, of 1 to 32 if they are quantised, from one number to a larger one"
            ),
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("the file"),
            Self::Key => f.write_str("a key"),
            Self::Directory => f.write_str("a directory"),
            Self::Anchor => f.write_str("the anchor"),
            Self::Header => f.write_str("the header"),
            Self::Footer => f.write_str("the footer"),
            Self::PageList => f.write_str("a page list"),
            Self::Page { column } => write!(f, "a page of column {column}"),
            Self::Record => f.write_str("a record of the store"),
            Self::Zones => f.write_str("the zones beside a page list"),
            Self::Group { object, group } => write!(f, "column group {group} of cluster object {object}"),
            Self::Field { field } => write!(f, "field {field}"),
            Self::Descriptions => f.write_str("the descriptions of classes"),
            Self::Tree => f.write_str("a tree"),
            Self::Branch { branch } => write!(f, "branch {branch}"),
            Self::Basket { branch, basket } => write!(f, "basket {basket} of branch {branch}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { wanted_bytes, left_bytes } => {
                write!(f, "{wanted_bytes} bytes have to be there, {left_bytes} are")
            }
            Self::Magic => f.write_str("it does not start as it has to"),
            Self::Checksum => f.write_str("the checksum is not that of the contents"),
            Self::Compression => f.write_str("it cannot be decompressed"),
            Self::Text => f.write_str("text is not UTF-8"),
            Self::Length => f.write_str("a length contradicts another"),
            Self::Reference => f.write_str("a number refers to what is not there"),
            Self::Value => f.write_str("a value is not one that can be there"),
            Self::Order => f.write_str("offsets of a collection fall"),
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags(flags) => write!(f, "feature flags {flags:#x}"),
            Self::Epoch(epoch) => write!(f, "epoch {epoch} of the format (1 is known)"),
            Self::Compression(name) => write!(f, "compression \"{}\"", name.escape_ascii()),
            Self::Locator(kind) => write!(f, "locators of kind {kind:#04x}"),
            Self::ShardedClusters => f.write_str("clusters in several parts"),
            Self::Column(kind) => write!(f, "columns of type {kind:#04x}"),
            Self::Role(role) => write!(f, "fields of role {role:#04x}"),
            Self::FieldVersion(version) => write!(f, "fields of version {version}"),
            Self::UncountedObject => f.write_str("objects whose bytes are not counted"),
            Self::ClassVersion(version) => write!(f, "version {version} of a class, which is not described"),
            Self::Member(kind) => write!(f, "members of kind {kind}"),
            Self::CountedMember => f.write_str("an array whose length stands elsewhere"),
            Self::MemberWise => f.write_str("items that lie member by member"),
            Self::OtherClass => f.write_str("an object of another class than the branch's"),
            Self::PointedItems => f.write_str("items behind pointers"),
            Self::NoStarts => f.write_str("entries of different lengths, without where each begins"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BranchClass => f.write_str("it is a branch of an unknown kind"),
            Self::BranchKind(kind) => write!(f, "it is a branch of the unknown kind {kind}"),
            Self::Leaf => f.write_str("it has a leaf of an unknown kind"),
            Self::CountedLeaves => f.write_str("it has several leaves, and one says how long another is"),
            Self::Unsplit => f.write_str("members of its items are in no branches"),
            Self::OtherFile => f.write_str("its baskets are in another file"),
            Self::Undescribed => f.write_str("the file does not describe its class"),
            Self::OwnStreamer => f.write_str("its class alone knows what its bytes are"),
            Self::Pointer => f.write_str("it has pointers"),
            Self::Counter => f.write_str("it has an array whose length does not stand before it"),
            Self::Member(kind) => write!(f, "it has members of the unknown kind {kind}"),
            Self::Type => f.write_str("its type is not known"),
            Self::TooDeep => f.write_str("it has classes in classes too deeply"),
            Self::NoBytes => f.write_str("its values have no bytes"),
            Self::NoBranch => f.write_str("there is no branch in it"),
            Self::Has(feature) => write!(f, "it has {feature}"),
        }
    }
}

/// That there is none of a name, and what there is.
fn none(f: &mut fmt::Formatter<'_>, what: &str, name: &str, others: &[Box<str>]) -> fmt::Result {
    write!(f, "there is no {what} \"{name}\"")?;
    match (others, near(name, others.iter().map(|other| &**other))) {
        ([], _) => f.write_str(", nor any other"),
        ([_, _, ..], Some(near)) => write!(f, "; \"{near}\" is one, of {}", others.join(", ")),
        (others, _) => write!(f, "; there is {}", others.join(", ")),
    }
}

fn no_version(f: &mut fmt::Formatter<'_>, name: &str, by: AskedBy, others: &[Box<str>]) -> fmt::Result {
    match by {
        AskedBy::Number => write!(f, "there is no version {name}; ")?,
        AskedBy::Tag => write!(f, "there is no tag \"{name}\"; ")?,
        AskedBy::Time => write!(f, "there is no version from {name} s or before; ")?,
        AskedBy::FreedTime => write!(f, "the version of {name} s was freed; ")?,
    }
    let all = others.join(", ");
    match (by, others) {
        (AskedBy::Time, [_, ..]) => write!(f, "the first is from {all} s (since 1970)"),
        (AskedBy::Tag, []) => f.write_str("it has no tags"),
        (AskedBy::Tag, [only]) => write!(f, "its only tag is {only}"),
        (AskedBy::Tag, _) => write!(f, "its tags are {all}"),
        (_, []) => f.write_str("it has no versions"),
        // What is no number is several: from the first to the last.
        (_, [only]) if only.parse::<u64>().is_ok() => write!(f, "its only version is {only}"),
        (AskedBy::Number | AskedBy::FreedTime, _) => write!(f, "its versions are {all}"),
    }
}

fn tagged(f: &mut fmt::Formatter<'_>, name: &str, tags: &[crate::store::TagOf]) -> fmt::Result {
    match tags {
        [only] => write!(f, "tag {} keeps version {} of \"{name}\"", only.name, only.version),
        some => {
            let names: Vec<&str> = some.iter().map(|tag| &*tag.name).collect();
            write!(f, "tags {} keep versions of \"{name}\"", names.join(", "))
        }
    }
}

fn no_fill(f: &mut fmt::Formatter<'_>, field: &str, near: Option<&str>, others: &[Box<str>]) -> fmt::Result {
    write!(f, "nothing is filled in \"{field}\", which is no field of the ntuple; ")?;
    match near {
        Some(near) => write!(f, "\"{near}\" is one"),
        None => {
            write!(f, "its fields are {}", others[..others.len().min(TOLD_MAX)].join(", "))?;
            f.write_str(if others.len() > TOLD_MAX { ", …" } else { "" })
        }
    }
}

fn bad_name(f: &mut fmt::Formatter<'_>, of: Named, name: &str, why: BadName) -> fmt::Result {
    let whose = match of {
        Named::Ntuple => "an ntuple",
        Named::Field => "a field",
        Named::Tag => "a tag",
    };
    write!(f, "{whose} cannot have the name \"{}\": it ", name.escape_debug())?;
    match why {
        BadName::Empty if of == Named::Tag => f.write_str("is empty"),
        BadName::Empty => f.write_str("is empty, or a part of it"),
        BadName::Longer(bytes) => write!(f, "is longer than {bytes} bytes"),
        BadName::Unseen(other) => write!(f, "has the control character '{}'", other.escape_debug()),
        BadName::Has(' ') => f.write_str("has a space; write _ instead"),
        BadName::Has(other) => {
            write!(
                f,
                "has the character '{}', which ROOT does not read; write _ instead",
                other.escape_debug()
            )
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { structure: Structure::File, offset: 0, fault: Fault::Magic } => {
                f.write_str("it is no file of ROOT: it does not start as one")
            }
            Self::Corrupt { structure, offset, fault } => {
                write!(f, "{structure} is damaged at offset {offset}: {fault}")
            }
            Self::Unsupported { structure, offset, feature } => {
                write!(f, "{structure} has at offset {offset} what this version cannot read: {feature}")
            }
            Self::TooBig { structure, offset, bytes, bytes_max } => {
                write!(
                    f,
                    "{structure} would take {bytes} bytes (said at offset {offset}), at most {bytes_max} are read"
                )
            }
            Self::NoNtuple { name, others } if others.contains(name) => {
                write!(f, "ntuple \"{name}\" was destroyed since it was opened")
            }
            Self::NoNtuple { name, others } => none(f, "ntuple", name, others),
            Self::NoTree { name, others } => none(f, "tree", name, others),
            Self::BranchRefused { branch, class, why } if class.is_empty() => {
                write!(f, "branch \"{branch}\" cannot be read: {why}")
            }
            Self::BranchRefused { branch, class, why } => {
                write!(f, "branch \"{branch}\" of class {class} cannot be read: {why}")
            }
            Self::NoField { name, near: None } => write!(f, "there is no field \"{name}\""),
            Self::NoField { name, near: Some(near) } => {
                write!(f, "there is no field \"{name}\"; \"{near}\" is one")
            }
            Self::NoEntries { first, end, count } => {
                write!(f, "entries {first} to {end} were asked for, there are {count}")
            }
            Self::NoFit { field, fit: Fit::Fill } => {
                write!(
                    f,
                    "field \"{field}\" cannot be filled so: give a number that its type has, or none for zeros and what is empty"
                )
            }
            Self::NoFit { field, fit } => write!(f, "the array for field \"{field}\" {fit}"),
            Self::NotFlat { name } => {
                write!(f, "field \"{name}\" has not one number or one collection for each entry")
            }
            Self::Exists { name } => write!(f, "there is \"{name}\" already"),
            Self::Tagged { name, tags } => tagged(f, name, tags),
            Self::NoVersion { name, by, others } => no_version(f, name, *by, others),
            Self::BadName { of, name, why } => bad_name(f, *of, name, *why),
            Self::OtherSchema => f.write_str("the ntuple has other columns by now: begin again with those"),
            Self::OtherFields(fields) => fields.fmt(f),
            Self::NoFill { field, near, others } => no_fill(f, field, near.as_deref(), others),
            Self::OtherStore => {
                f.write_str("the ntuple is in another store, and pages are shared within one: import it, or skim fields of it")
            }
            Self::BadPage { field, first, end, page, source } => {
                // What a store compares with one checksum is more than a page.
                let place = if matches!(**source, Self::Store { .. }) { "in or next to" } else { "in" };
                write!(
                    f,
                    "field \"{field}\" cannot be read in entries {first} to {}: there are damaged bytes {place} page {page} of their cluster",
                    end.saturating_sub(1)
                )
            }
            Self::Store { .. } => f.write_str("the store could not do it"),
            Self::Bucket { source } => source.fmt(f),
            Self::Io { offset, .. } => write!(f, "cannot read or write at offset {offset}"),
            of_others => of_others.fmt_others(f),
        }
    }
}

impl Error {
    /// That none of these fields has the name, and which has almost that.
    #[must_use]
    pub fn no_field<'a>(name: &str, fields: impl IntoIterator<Item = &'a str>) -> Self {
        Self::NoField { name: name.into(), near: near(name, fields).map(Into::into) }
    }

    /// What others have done meanwhile, or could have.
    fn fmt_others(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Freed { version } => write!(
                f,
                "version {version} was freed while it was read: open the ntuple again; a tag keeps a version for ever, and `keep` sets how long \
                 others are kept"
            ),
            Self::Behind { first, end } => {
                write!(f, "others have appended entries {first} to {end}, which lack the columns to be added")
            }
            Self::Changed { first, end } => {
                write!(f, "others have replaced clusters of entries {first} to {end} meanwhile")
            }
            Self::Lost => f.write_str(
                "some of what was put could not be written, as was told then: begin again with all of it",
            ),
            Self::WentBack => f.write_str(
                "the container went back to a snapshot, of before some of what was put, and nothing was done: begin again with all of it",
            ),
            Self::Contended { tries } => write!(
                f,
                "others were faster, {tries} times in a row, and nothing was done: try again, or have fewer change the store at once"
            ),
            Self::Slow { lease_ns } => write!(
                f,
                "writing what changes took more than half of the {} s after which others may free it, and nothing was done: try again when the \
                 line to the store is faster, or change less at once",
                lease_ns / 1_000_000_000
            ),
            Self::Stopped => f.write_str("it was called off"),
            Self::Expired => f.write_str("the writer was silent for too long, and what it wrote was freed"),
            _ => f.write_str("it failed"),
        }
    }

    /// Why what is stored cannot be read.
    ///
    /// # Errors
    /// Itself, if it says nothing of what is stored.
    pub(crate) fn damage(self) -> Result<Box<str>> {
        match &self {
            Self::Corrupt { .. } | Self::Unsupported { .. } | Self::TooBig { .. } | Self::Freed { .. } => {
                Ok(self.to_string().into())
            }
            Self::Store { source: source @ dolmen_client::Error::Corrupt { .. } } => {
                Ok(source.to_string().into())
            }
            Self::BadPage { .. } => Ok(self.to_string().into()),
            _ => Err(self),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Store { source } => Some(source),
            Self::BadPage { source, .. } => match &**source {
                Self::Store { source } => Some(source),
                other => Some(other),
            },
            Self::Bucket { source } => core::error::Error::source(source),
            _ => None,
        }
    }
}

impl From<dolmen_client::Error> for Error {
    fn from(source: dolmen_client::Error) -> Self {
        Self::Store { source }
    }
}

impl From<crate::bucket::BucketError> for Error {
    fn from(source: crate::bucket::BucketError) -> Self {
        match source.failure {
            crate::bucket::Failure::Stopped => Self::Stopped,
            _ => Self::Bucket { source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_many_fields_names_some_and_counts_the_others() {
        let fields = |count: u32| (0..count).map(|at| (format!("f{at}").into(), "float".into())).collect();
        let told =
            OtherFields { missing: fields(12), more: fields(100), ..OtherFields::default() }.to_string();
        assert!(
            told.contains("\"f11\" (float); not in the ntuple: ") && told.ends_with(", and 88 others"),
            "{told}"
        );
        let fill = Error::NoFill {
            field: "x".into(),
            near: None,
            others: (0..13).map(|at| format!("f{at}").into()).collect(),
        };
        assert!(fill.to_string().ends_with("f10, f11, …"), "{fill}");
    }

    #[test]
    fn of_long_types_what_is_told_is_around_where_they_differ() {
        assert_eq!(around("short", "other"), "short");
        let (own, given) = (format!("{}b{}", "a".repeat(300), "c".repeat(300)), "a".repeat(500));
        let told = around(&own, &given);
        assert!(told.starts_with("…a") && told.contains("abc") && told.ends_with("c…"), "{told}");
        assert_eq!(told.chars().count(), TYPE_CHARS_MAX + 2);
        assert!(around(&"é".repeat(200), "").ends_with("é…"));
        assert!(around(&format!("{}b", "a".repeat(300)), &given).ends_with("aab"));
    }
}
