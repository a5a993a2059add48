//! How values of a branch lie: what its leaves, its class and the descriptions of classes say.
//!
//! What is not known is refused here, before anything is read: pointers, classes that stream themselves, values of no bytes.

use super::cpp::Name;
use super::describe::{Description, Descriptions, Extra, Member};
use super::node::{Edition, Field, Node, Packing};
use super::object::Place;
use super::types::{Container, Number};
use crate::error::Refusal;

/// Classes within classes at most.
const DEPTH_MAX: usize = 24;

/// Nodes of one branch at most: descriptions of classes that have each other many times would become very many.
const NODES_MAX: usize = 4096;

/// Floats of so few bits have a kind of their own in titles.
const SHORT_BITS_MAX: u32 = 14;

/// The class of leaves that are texts.
pub(super) const TEXT_CLASS: &str = "TLeafC";

/// Bits of the fraction of a `Float16_t` that says nothing of them.
const FLOAT16_BITS: u32 = 12;

type Planned<T> = core::result::Result<T, Refusal>;

/// What is told of a leaf.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Leaf {
    pub(super) class: Box<str>,
    pub(super) name: Box<str>,
    pub(super) title: Box<str>,
    pub(super) length: usize,
    pub(super) is_unsigned: bool,
    /// Where it is among all objects.
    pub(super) place: Place,
    /// The leaf that says how long each of its arrays is.
    pub(super) counter: Option<Place>,
    /// Whether the name of the class stands before each object.
    pub(super) has_class_name: bool,
}

impl Leaf {
    /// One value of it, or one array if it has a length.
    pub(super) fn plan(&self) -> Planned<Node> {
        let item = match (&*self.class, self.is_unsigned) {
            ("TLeafO", _) => Node::number(Number::Bool),
            ("TLeafB", false) => Node::number(Number::I8),
            ("TLeafB", true) => Node::number(Number::U8),
            ("TLeafS", false) => Node::number(Number::I16),
            ("TLeafS", true) => Node::number(Number::U16),
            ("TLeafI", false) => Node::number(Number::I32),
            ("TLeafI", true) => Node::number(Number::U32),
            ("TLeafL" | "TLeafG", false) => Node::number(Number::I64),
            ("TLeafL" | "TLeafG", true) => Node::number(Number::U64),
            ("TLeafF", _) => Node::number(Number::F32),
            ("TLeafD", _) => Node::number(Number::F64),
            ("TLeafF16", _) => float16(&self.title),
            ("TLeafD32", _) => double32(&self.title),
            // Its length is that of the longest text.
            (TEXT_CLASS, _) => return Ok(Node::text()),
            _ => return Err(Refusal::Leaf),
        };
        let lengths = dimensions(&self.title);
        let is_told =
            lengths.iter().try_fold(1_usize, |all, length| all.checked_mul(*length)) == Some(self.length);
        match self.length {
            0 => Err(Refusal::NoBytes),
            1 if lengths.is_empty() => Ok(item),
            _ if is_told => Ok(Node::fixed(&lengths, item)),
            1 => Ok(item),
            length => Ok(Node::fixed(&[length], item)),
        }
    }
}

/// The lengths that a title has in brackets; what is none, the name of a counter or a range, is left out.
fn dimensions(title: &str) -> Vec<usize> {
    let parts = title.split('[').skip(1).filter_map(|part| part.split_once(']'));
    parts.filter_map(|(inner, _)| inner.trim().parse().ok()).collect()
}

/// Least value, largest value and bits, as the brackets with a comma in a title say.
fn range(title: &str) -> Option<(f64, f64, Option<u32>)> {
    let parts = title.split('[').skip(1).filter_map(|part| part.split_once(']'));
    let (inner, _) = parts.into_iter().find(|(inner, _)| inner.contains(','))?;
    let mut numbers = inner.split(',');
    let (low, high) = (numbers.next()?, numbers.next()?);
    let bits = numbers
        .next()
        .map(|bits| bits.trim().parse().ok().filter(|bits| (2..=32).contains(bits)).unwrap_or(32));
    Some((bound(low), bound(high), bits))
}

/// A bound of a range, which may be a part of pi.
fn bound(text: &str) -> f64 {
    use core::f64::consts::PI;
    let text: String = text.to_lowercase().replace(' ', "");
    if !text.contains("pi") {
        return text.parse().unwrap_or(0.0);
    }
    let parts =
        [("2pi", 2.0 * PI), ("2*pi", 2.0 * PI), ("twopi", 2.0 * PI), ("pi/2", PI / 2.0), ("pi/4", PI / 4.0)];
    let size = parts.iter().find(|(name, _)| text.contains(name)).map_or(PI, |(_, size)| *size);
    if text.contains('-') { -size } else { size }
}

/// Steps of a range, or so many bits of the fraction; none where the title says neither.
fn packing(title: &str) -> Option<Packing> {
    let (low, high, bits) = range(title)?;
    let bits = bits.unwrap_or(32);
    if low < high {
        let steps = if bits < 32 { f64::from(1_u32 << bits) } else { f64::from(u32::MAX) };
        return Some(Packing::Steps { low, factor: steps / (high - low) });
    }
    (bits <= SHORT_BITS_MAX).then_some(Packing::Short { bits })
}

fn float16(title: &str) -> Node {
    Node::packed(packing(title).unwrap_or(Packing::Short { bits: FLOAT16_BITS }), Number::F32)
}

fn double32(title: &str) -> Node {
    Node::packed(packing(title).unwrap_or(Packing::Float), Number::F64)
}

/// Makes nodes of classes and their members.
pub(super) struct Planner<'d> {
    descriptions: &'d Descriptions,
    nodes: usize,
}

impl<'d> Planner<'d> {
    pub(super) fn new(descriptions: &'d Descriptions) -> Self {
        Self { descriptions, nodes: 0 }
    }

    /// What a branch of a class has that is not split.
    pub(super) fn branch(&mut self, class: &str) -> Planned<Node> {
        let name = Name::parse(class).ok_or(Refusal::Type)?;
        Ok(match self.named(&name, 0)? {
            list @ Node::List { .. } => Node::headed(list),
            other => other.without_head(),
        })
    }

    /// What a branch of an object has, with all that stands before it.
    pub(super) fn object(&mut self, class: &str) -> Planned<Node> {
        self.class(class, 0)
    }

    /// A value of a type without anything around it, as it lies in a collection.
    fn named(&mut self, name: &Name, depth: usize) -> Planned<Node> {
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            return Err(Refusal::TooDeep);
        }
        if name.is_pointer {
            return Err(Refusal::Pointer);
        }
        if let Some(number) = number_named(&name.head) {
            return Ok(Node::number(number));
        }
        let mut argument = |at: usize| -> Planned<Node> {
            self.named(name.arguments.get(at).ok_or(Refusal::Type)?, depth + 1)
        };
        let container = match &*name.head {
            "string" | "TString" | "basic_string" => return Ok(Node::text()),
            "Double32_t" => return Ok(Node::packed(Packing::Float, Number::F64)),
            "Float16_t" => return Ok(float16("")),
            "array" => {
                let item = argument(0)?;
                let count = name.arguments.get(1).and_then(|count| count.head.parse().ok());
                return array(&[count.ok_or(Refusal::Type)?], item);
            }
            "bitset" => return Err(Refusal::Type),
            other => match container_named(other) {
                Some(container) => container,
                None => return self.class(&name.full(), depth),
            },
        };
        let item = if container.is_map() {
            let fields = vec![field("_0", argument(0)?), field("_1", argument(1)?)];
            let class = format!("pair<{},{}>", name.arguments[0].full(), name.arguments[1].full());
            // Members that lie one behind the other have the checksum of the pair before them, which is not looked at.
            Node::Record { class: class.into(), edition: None, len: 0, fields }
        } else {
            argument(0)?
        };
        Ok(Node::list(container, item))
    }

    /// An object of a class, as it lies in another or in a collection.
    fn class(&mut self, class: &str, depth: usize) -> Planned<Node> {
        match class {
            "TObject" => return Ok(Node::identity()),
            "TArrayC" => return Ok(Node::list(Container::Vector, Node::number(Number::I8))),
            "TArrayS" => return Ok(Node::list(Container::Vector, Node::number(Number::I16))),
            "TArrayI" => return Ok(Node::list(Container::Vector, Node::number(Number::I32))),
            "TArrayL" | "TArrayL64" => return Ok(Node::list(Container::Vector, Node::number(Number::I64))),
            "TArrayF" => return Ok(Node::list(Container::Vector, Node::number(Number::F32))),
            "TArrayD" => return Ok(Node::list(Container::Vector, Node::number(Number::F64))),
            "TDatime" => return Ok(Node::number(Number::U32)),
            "TRef" => return Ok(Node::reference()),
            "TRefArray" => return Ok(Node::references()),
            "TClonesArray" | "TObjArray" | "TList" | "THashList" => return Err(Refusal::OwnStreamer),
            _ => {}
        }
        let description = self.descriptions.versions(class).last().ok_or(Refusal::Undescribed)?;
        self.described(description, depth)
    }

    /// A class by its members.
    fn described(&mut self, description: &Description, depth: usize) -> Planned<Node> {
        let mut fields: Vec<Field> = Vec::new();
        for member in &description.members {
            // A class that is a collection itself has itself as its only member, whose title says of what.
            if member.extra == Extra::Standard && member.type_name == description.class {
                return self.own_collection(member, depth + 1);
            }
            let is_base = matches!(member.extra, Extra::Base { .. });
            let node = match &member.extra {
                Extra::Base { .. } => self.class(&member.name, depth + 1)?,
                Extra::Counted(counter) if (41..60).contains(&member.kind) => {
                    let counter = fields.iter().position(|field| field.name == *counter);
                    let counter = counter.ok_or(Refusal::Counter)?;
                    let item = Box::new(value(member.kind - 40, member)?);
                    Node::Counted { counter, has_flag: true, offsets: vec![0], item }
                }
                _ => self.member(member, depth + 1)?,
            };
            let name = plain_name(&member.name);
            let name = if description.class.starts_with("pair<") { pair_name(&name) } else { name };
            fields.push(Field { name, node, is_base });
        }
        let edition = Some(Edition { version: description.version, checksum: description.checksum });
        Ok(Node::Record { class: description.class.clone(), edition, len: 0, fields })
    }

    fn own_collection(&mut self, member: &Member, depth: usize) -> Planned<Node> {
        let item =
            member.title.strip_prefix('<').and_then(|rest| rest.rsplit_once('>')).map(|(item, _)| item);
        let name = item.and_then(Name::parse).ok_or(Refusal::Type)?;
        let list = Node::list(Container::Vector, self.named(&name, depth)?);
        Ok(Node::Headed { inner: Box::new(list), is_member_wise_only: true })
    }

    /// A member, as it lies in its class or in a branch of its own.
    pub(super) fn member(&mut self, member: &Member, depth: usize) -> Planned<Node> {
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            return Err(Refusal::TooDeep);
        }
        let lengths: Vec<usize> = match (&*member.dimensions, member.length) {
            ([], 0) => Vec::new(),
            ([], length) => vec![length as usize],
            (some, _) => some.iter().map(|length| *length as usize).collect(),
        };
        if member.extra == Extra::Standard {
            let name = Name::parse(&member.type_name).ok_or(Refusal::Type)?;
            let item = self.named(&name, depth)?;
            return Ok(Node::headed(array(&lengths, item)?));
        }
        match member.kind {
            0 => self.class(&member.name, depth),
            15 => array(&lengths, Node::Bits(Vec::new())),
            1..=19 => array(&lengths, value(member.kind, member)?),
            21..=39 => array(&lengths, value(member.kind - 20, member)?),
            61 | 62 | 81 | 82 => {
                let name = Name::parse(&member.type_name).ok_or(Refusal::Type)?;
                array(&lengths, self.named(&name, depth)?)
            }
            65 | 85 => array(&lengths, Node::text()),
            66 => Ok(Node::identity()),
            67 => self.class("TNamed", depth),
            41..=59 | 63 | 64 | 68..=71 => Err(Refusal::Pointer),
            kind => Err(Refusal::Member(kind)),
        }
    }
}

/// A number, or a float of few bits, by ROOT's number of its kind.
fn value(kind: i32, member: &Member) -> Planned<Node> {
    let number = match kind {
        1 | 10 => Number::I8,
        2 => Number::I16,
        3 | 6 => Number::I32,
        4 | 16 => Number::I64,
        5 => Number::F32,
        8 => Number::F64,
        9 => return Ok(double32(&member.title)),
        // Descriptions of before say of a switch that it is a byte.
        11 if matches!(&*member.type_name, "Bool_t" | "bool") => Number::Bool,
        11 => Number::U8,
        12 => Number::U16,
        13 => Number::U32,
        14 | 17 => Number::U64,
        18 => Number::Bool,
        19 => return Ok(float16(&member.title)),
        kind => return Err(Refusal::Member(kind)),
    };
    Ok(Node::number(number))
}

fn array(lengths: &[usize], item: Node) -> Planned<Node> {
    if lengths.contains(&0) { Err(Refusal::NoBytes) } else { Ok(Node::fixed(lengths, item)) }
}

fn field(name: &str, node: Node) -> Field {
    Field { name: name.into(), node, is_base: false }
}

/// A name without the brackets that follow it.
pub(super) fn plain_name(name: &str) -> Box<str> {
    name.split('[').next().unwrap_or(name).into()
}

/// The name of a part of a pair, as fields of an ntuple have it; what is split further has names behind a dot.
pub(super) fn pair_name(name: &str) -> Box<str> {
    let (first, rest) = name.split_at(name.find('.').unwrap_or(name.len()));
    match first {
        "first" => format!("_0{rest}").into(),
        "second" => format!("_1{rest}").into(),
        _ => name.into(),
    }
}

/// The collection of a name.
pub(super) fn container_named(name: &str) -> Option<Container> {
    Some(match name {
        "vector" | "list" | "deque" | "forward_list" | "ROOT::VecOps::RVec" => Container::Vector,
        "set" => Container::Set,
        "unordered_set" => Container::UnorderedSet,
        "multiset" => Container::MultiSet,
        "unordered_multiset" => Container::UnorderedMultiSet,
        "map" => Container::Map,
        "unordered_map" => Container::UnorderedMap,
        "multimap" => Container::MultiMap,
        "unordered_multimap" => Container::UnorderedMultiMap,
        _ => return None,
    })
}

fn number_named(name: &str) -> Option<Number> {
    Some(match name {
        "bool" | "Bool_t" => Number::Bool,
        "char" | "Char_t" | "signed char" | "int8_t" => Number::I8,
        "unsigned char" | "UChar_t" | "Byte_t" | "uint8_t" | "byte" => Number::U8,
        "short" | "short int" | "Short_t" | "int16_t" => Number::I16,
        "unsigned short" | "unsigned short int" | "UShort_t" | "uint16_t" => Number::U16,
        "int" | "Int_t" | "int32_t" | "signed" => Number::I32,
        "unsigned int" | "unsigned" | "UInt_t" | "uint32_t" => Number::U32,
        "long" | "long int" | "Long_t" | "long long" | "long long int" | "Long64_t" | "int64_t"
        | "ptrdiff_t" => Number::I64,
        "unsigned long" | "unsigned long int" | "ULong_t" | "unsigned long long" | "ULong64_t"
        | "uint64_t" | "size_t" => Number::U64,
        "float" | "Float_t" => Number::F32,
        "double" | "Double_t" => Number::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Packing, dimensions, packing};

    #[test]
    fn titles_say_lengths_ranges_and_bits() {
        assert_eq!(dimensions("x[nX][3][4][0,1,8]"), [3, 4]);
        assert_eq!(packing("x[0,10,8]"), Some(Packing::Steps { low: 0.0, factor: 25.6 }));
        assert_eq!(
            packing("x[3][-pi, pi, 16]/f"),
            Some(Packing::Steps {
                low: -core::f64::consts::PI,
                factor: 65536.0 / (2.0 * core::f64::consts::PI),
            })
        );
        assert_eq!(packing("x[0,0,10]"), Some(Packing::Short { bits: 10 }));
        assert_eq!(packing("x[0,0,20]"), None);
        assert_eq!(packing("x[nX]"), None);
        let all = f64::from(u32::MAX);
        assert_eq!(packing("x[-1,1]"), Some(Packing::Steps { low: -1.0, factor: all / 2.0 }));
        assert_eq!(packing("x[-1,1,99]"), Some(Packing::Steps { low: -1.0, factor: all / 2.0 }));
    }
}
