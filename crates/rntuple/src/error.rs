//! Why reading or writing event data failed.

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
    /// Values of this field; offsets count elements of the field.
    Field {
        /// The field's number.
        field: u32,
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
}

/// Why an array is not what a field keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// There is a field of that name already.
    Twice,
    /// The name is empty, or has a dot or a slash in it.
    Name,
    /// There are too many fields within each other.
    Depth,
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
        /// What there is.
        others: Vec<Box<str>>,
    },
    /// The ntuple has no field of that name.
    NoField {
        /// The name, as it was asked for, with dots between field and subfield.
        name: Box<str>,
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
    /// The system could not read or write.
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: std::io::Error,
    },
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind => write!(f, "is not of its type"),
            Self::Length { wanted, found } => write!(f, "has {found} elements where {wanted} are needed"),
            Self::Order => write!(f, "has offsets or places that fall"),
            Self::Unknown => write!(f, "has no field in the schema"),
            Self::Twice => write!(f, "has the name of a field that is there already"),
            Self::Name => write!(f, "has a name that is empty, or with a dot or a slash in it"),
            Self::Depth => write!(f, "has too many fields within each other"),
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
            Self::Field { field } => write!(f, "field {field}"),
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
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
            Self::NoNtuple { name, others } if others.is_empty() => {
                write!(f, "there is no ntuple \"{name}\", nor any other")
            }
            Self::NoNtuple { name, others } => {
                write!(f, "there is no ntuple \"{name}\"; there is {}", others.join(", "))
            }
            Self::NoField { name } => write!(f, "there is no field \"{name}\""),
            Self::NoEntries { first, end, count } => {
                write!(f, "entries {first} to {end} were asked for, there are {count}")
            }
            Self::NoFit { field, fit } => write!(f, "the array for field \"{field}\" {fit}"),
            Self::Io { offset, .. } => write!(f, "cannot read or write at offset {offset}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
