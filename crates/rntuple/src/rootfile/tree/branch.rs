//! Branches of a tree: from the objects that say what it is, to what their values are and where their baskets are.
//!
//! Invariants: a branch's parent stands before it; baskets of a branch are in the order of their entries.

use super::basket::Basket;
use super::cpp::Name;
use super::describe::{Description, Descriptions, Extra, Member};
use super::node::Node;
use super::object::{Object, Objects, Place};
use super::plan::{Leaf, Planner, TEXT_CLASS, container_named, pair_name, plain_name};
use super::types::{Container, Type};
use crate::error::{Error, Fault, Refusal, Result, Structure};

/// Branches within branches at most.
const DEPTH_MAX: usize = 32;

/// Where a basket is.
#[derive(Clone, Debug)]
pub(super) enum Where {
    /// At a place of the file.
    File {
        /// Where, from the start.
        offset: u64,
        /// Bytes of it with its key.
        bytes: u32,
    },
    /// Within the branch.
    Here(Basket),
}

/// A basket, and the first of its entries.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) first_entry: u64,
    pub(super) at: Where,
}

/// How entries of a branch are made.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// A value each.
    One(Node),
    /// A text each, of which an empty one may have no bytes.
    Text(Node),
    /// Any number of values each.
    Several {
        /// One value.
        node: Node,
        /// Whether a byte says of each entry whether there are values at all.
        has_flag: bool,
    },
    /// What the branches below have.
    Record,
    /// As many of what the branches below have as an entry says.
    Collection,
}

/// A branch of a tree.
#[derive(Debug)]
pub struct Branch {
    /// Its name, which often has that of the branch above before a dot.
    pub name: Box<str>,
    /// Names of the branches above and its own, with slashes.
    pub path: Box<str>,
    /// What it is, for people.
    pub title: Box<str>,
    /// The class of its values in C++; empty of what has leaves only.
    pub class: Box<str>,
    /// The branch above.
    pub parent: Option<usize>,
    /// The branches below.
    pub children: Vec<usize>,
    /// How many entries it has.
    pub entry_count: u64,
    /// Bytes of its values before they were compressed, by its own word, or stored if these are more.
    pub(crate) said_bytes: u64,
    pub(super) baskets: Vec<Placed>,
    pub(super) shape: core::result::Result<Shape, Refusal>,
    pub(super) of: core::result::Result<Type, Refusal>,
    /// Whether its fields are those of the branch above: it is a class that the one above has before its members.
    pub(super) is_base: bool,
    /// The branch whose values say how long its arrays are.
    pub(super) counter: Option<usize>,
}

impl Branch {
    /// The type of its values.
    ///
    /// # Errors
    /// [`Error::BranchRefused`] if it has what this program does not read.
    pub fn type_of(&self) -> Result<&Type> {
        self.of.as_ref().map_err(|why| self.refused(*why))
    }

    /// How many baskets it has.
    #[must_use]
    pub fn basket_count(&self) -> usize {
        self.baskets.len()
    }

    /// The first entry of each basket.
    pub(crate) fn basket_starts(&self) -> impl Iterator<Item = u64> {
        self.baskets.iter().map(|basket| basket.first_entry)
    }

    pub(super) fn refused(&self, why: Refusal) -> Error {
        Error::BranchRefused { branch: self.path.clone(), class: self.class.clone(), why }
    }

    /// The name of a field: its own without that of the branch above and without brackets.
    pub(crate) fn field_name<'a>(&'a self, above: &str) -> &'a str {
        let above = above.trim_end_matches('.');
        let own = self.name.strip_prefix(above).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&self.name);
        own.split('[').next().unwrap_or(own).trim_end_matches('.')
    }

    /// The name of the field that it becomes: its own without what is behind a bracket or a dot at its end, with `_` for what names of fields
    /// cannot have.
    #[must_use]
    pub fn as_field(&self) -> Box<str> {
        let is_bad = |found: char| matches!(found, '.' | '/' | ' ' | '\\') || found.is_ascii_control();
        self.field_name("").replace(is_bad, "_").into()
    }

    /// What its values are, of a branch whose items' members are in the branches below.
    pub(super) fn container(&self) -> Container {
        let name = Name::parse(&self.class);
        name.and_then(|name| container_named(&name.head)).unwrap_or(Container::Vector)
    }

    /// The name of a field of its items, from a branch below.
    pub(super) fn item_name(&self, below: &Self) -> Box<str> {
        let name = below.field_name(&self.name);
        if self.container().is_map() { pair_name(name) } else { name.into() }
    }
}

/// All branches of a tree's object, those above before those below.
pub(super) fn branches(
    objects: &mut Objects<'_>,
    descriptions: &Descriptions,
    tree: Place,
) -> Result<Vec<Branch>> {
    let mut all = Vec::new();
    let mut taken = vec![false; objects.count()];
    let mut waiting: Vec<(Option<usize>, Place, usize)> = Vec::new();
    let (mut owners, mut counters) = (vec![None; objects.count()], Vec::new());
    let push = |waiting: &mut Vec<_>, places: &[Option<Place>], parent, depth| {
        waiting.extend(places.iter().rev().flatten().map(|place| (parent, *place, depth)));
    };
    push(&mut waiting, objects.at(tree).many("fBranches"), None, 0);
    while let Some((parent, place, depth)) = waiting.pop() {
        if core::mem::replace(&mut taken[place], true) || depth > DEPTH_MAX {
            return Err(corrupt(Fault::Reference));
        }
        let branch = branch(objects, descriptions, place, parent.map(|parent: usize| &all[parent]), parent)?;
        let number = all.len();
        all.push(branch);
        for leaf in objects.at(place).many("fLeaves").iter().flatten() {
            owners[*leaf] = Some(number);
            counters.extend(objects.at(*leaf).one("fLeafCount").map(|counter| (number, counter)));
        }
        if let Some(parent) = parent {
            all[parent].children.push(number);
        }
        push(&mut waiting, objects.at(place).many("fBranches"), Some(number), depth + 1);
    }
    for (number, counter) in counters {
        all[number].counter = owners[counter];
    }
    for number in (0..all.len()).rev() {
        let of = type_of(&all, number);
        all[number].of = of;
    }
    Ok(all)
}

fn corrupt(fault: Fault) -> Error {
    Error::Corrupt { structure: Structure::Tree, offset: 0, fault }
}

fn branch(
    objects: &mut Objects<'_>,
    descriptions: &Descriptions,
    place: Place,
    above: Option<&Branch>,
    parent: Option<usize>,
) -> Result<Branch> {
    let baskets = baskets(objects, place)?;
    let object = objects.at(place);
    let name: Box<str> = object.text("fName").into();
    let path = above.map_or_else(|| name.clone(), |above| format!("{}/{name}", above.path).into());
    let stored_bytes = baskets.iter().map(|basket| match &basket.at {
        Where::File { bytes, .. } => u64::from(*bytes),
        Where::Here(basket) => basket.data.len() as u64,
    });
    let said_bytes = object.int("fTotBytes").and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
    let said_bytes = said_bytes.max(stored_bytes.sum());
    let is_known = matches!(&*object.class, "TBranch" | "TBranchElement");
    let entry_count = if is_known { count(object, "fEntries")? } else { 0 };
    let leaves = leaves(objects, object)?;
    let shape = if object.text("fFileName").is_empty() {
        shape(descriptions, object, &leaves)
    } else {
        Err(Refusal::OtherFile)
    };
    let member = member_of(descriptions, object).map(|(_, member)| member);
    let is_base = member.is_some_and(|member| matches!(member.extra, Extra::Base { .. }));
    let class = match member {
        Some(member) if is_base => member.name.clone(),
        Some(member) => member.type_name.clone(),
        None => object.text("fClassName").into(),
    };
    Ok(Branch {
        name,
        path,
        title: object.text("fTitle").into(),
        class,
        parent,
        children: Vec::new(),
        entry_count,
        said_bytes,
        baskets,
        shape,
        of: Err(Refusal::Type),
        is_base,
        counter: None,
    })
}

/// A count, which is not below 0.
pub(super) fn count(object: &Object, name: &str) -> Result<u64> {
    let count = object.int(name).and_then(|count| u64::try_from(count).ok());
    count.ok_or_else(|| corrupt(Fault::Value))
}

fn baskets(objects: &mut Objects<'_>, place: Place) -> Result<Vec<Placed>> {
    let within = objects.at(place).many("fBaskets").to_vec();
    let mut here: Vec<Option<Basket>> = Vec::new();
    for basket in within {
        let basket = basket.and_then(|basket| objects.take_basket(basket));
        here.push(basket.map(|embedded| embedded.0).filter(|basket| basket.entry_count > 0));
    }
    let object = objects.at(place);
    let ints = |name| object.ints(name);
    let (bytes, entries, seeks) = (ints("fBasketBytes"), ints("fBasketEntry"), ints("fBasketSeek"));
    let last = usize::try_from(object.int("fWriteBasket").unwrap_or(0)).or(Err(corrupt(Fault::Value)))?;
    let mut placed: Vec<Placed> = Vec::new();
    for at in 0..=last.min(entries.len().max(here.len())) {
        let basket = here.get_mut(at).and_then(Option::take);
        let seek = seeks.get(at).copied().filter(|&seek| seek != 0);
        let at = match (basket, seek, bytes.get(at)) {
            (Some(basket), ..) => (at, Where::Here(basket)),
            (None, Some(seek), Some(&bytes)) => {
                let (offset, bytes) = (u64::try_from(seek), u32::try_from(bytes));
                let (Ok(offset), Ok(bytes)) = (offset, bytes) else { return Err(corrupt(Fault::Value)) };
                (at, Where::File { offset, bytes })
            }
            _ => continue,
        };
        let first = entries.get(at.0).copied().and_then(|first| u64::try_from(first).ok());
        let first_entry = first.ok_or_else(|| corrupt(Fault::Value))?;
        if placed.last().is_some_and(|before| before.first_entry > first_entry) {
            return Err(corrupt(Fault::Order));
        }
        placed.push(Placed { first_entry, at: at.1 });
    }
    Ok(placed)
}

fn leaves(objects: &Objects<'_>, branch: &Object) -> Result<Vec<Leaf>> {
    let mut leaves = Vec::new();
    for place in branch.many("fLeaves").iter().flatten() {
        let leaf = objects.at(*place);
        // A leaf of a class that the file does not describe has none, and is refused by its class.
        let length = usize::try_from(leaf.int("fLen").unwrap_or(0)).or(Err(corrupt(Fault::Value)))?;
        leaves.push(Leaf {
            class: leaf.class.clone(),
            name: leaf.text("fName").into(),
            title: leaf.text("fTitle").into(),
            length,
            is_unsigned: leaf.int("fIsUnsigned").unwrap_or(0) != 0,
            place: *place,
            counter: leaf.one("fLeafCount"),
            has_class_name: leaf.int("fVirtual").unwrap_or(0) != 0,
        });
    }
    Ok(leaves)
}

fn shape(
    descriptions: &Descriptions,
    object: &Object,
    leaves: &[Leaf],
) -> core::result::Result<Shape, Refusal> {
    match &*object.class {
        "TBranch" => leaf_shape(object, leaves),
        "TBranchElement" => element_shape(descriptions, object),
        "TBranchObject" => object_shape(descriptions, object, leaves),
        _ => Err(Refusal::BranchClass),
    }
}

fn leaf_shape(object: &Object, leaves: &[Leaf]) -> core::result::Result<Shape, Refusal> {
    match leaves {
        [] if !object.many("fBranches").is_empty() => Ok(Shape::Record),
        [leaf] if leaf.counter.is_some() => Ok(Shape::Several { node: leaf.plan()?, has_flag: false }),
        [leaf] if &*leaf.class == TEXT_CLASS => Ok(Shape::Text(leaf.plan()?)),
        [leaf] => Ok(Shape::One(leaf.plan()?)),
        [] => Err(Refusal::NoBytes),
        several => {
            let mut fields = Vec::new();
            for leaf in several {
                let (name, node) = (plain_name(&leaf.name), leaf.plan()?);
                let node = match leaf.counter {
                    None => node,
                    Some(counter) => {
                        let counter =
                            several.iter().take(fields.len()).position(|leaf| leaf.place == counter);
                        let counter = counter.ok_or(Refusal::CountedLeaves)?;
                        Node::Counted { counter, has_flag: false, offsets: vec![0], item: Box::new(node) }
                    }
                };
                fields.push(super::node::Field { name, node, is_base: false });
            }
            Ok(Shape::One(Node::Record { class: "".into(), edition: None, len: 0, fields }))
        }
    }
}

/// A branch of an object, whose class may stand before it.
fn object_shape(
    descriptions: &Descriptions,
    object: &Object,
    leaves: &[Leaf],
) -> core::result::Result<Shape, Refusal> {
    if !object.many("fBranches").is_empty() {
        return Ok(Shape::Record);
    }
    let ([leaf], class) = (leaves, object.text("fClassName")) else { return Err(Refusal::Leaf) };
    let inner = Planner::new(descriptions).object(class)?;
    Ok(Shape::One(if leaf.has_class_name {
        Node::Named { class: class.into(), inner: Box::new(inner) }
    } else {
        inner
    }))
}

/// The description of the class that has the member of which a branch is, and the member.
fn member_of<'d>(descriptions: &'d Descriptions, object: &Object) -> Option<(&'d Description, &'d Member)> {
    let number = usize::try_from(object.int("fID")?).ok()?;
    let name = object.text("fName").trim_end_matches('.');
    let name = plain_name(name.rsplit('.').next().unwrap_or(name));
    let (checksum, version) = (object.int("fCheckSum")?, object.int("fClassVersion")?);
    for class in [object.text("fClassName"), object.text("fParentName")] {
        let versions = descriptions.versions(class);
        let by_sum = versions.iter().find(|description| i64::from(description.checksum) == checksum);
        let by_version = || versions.iter().find(|description| i64::from(description.version) == version);
        let Some(description) = by_sum.or_else(by_version) else { continue };
        let is_it = |member: &&Member| plain_name(&member.name) == name;
        let by_number = description.members.get(number).filter(is_it);
        // The branch of a class before the members may have any name.
        let is_base = |member: &&Member| member.kind == 0 && object.int("fStreamerType") == Some(0);
        let by_name = || description.members.iter().find(is_it);
        let base = || description.members.get(number).filter(is_base);
        if let Some(member) = by_number.or_else(by_name).or_else(base) {
            return Some((description, member));
        }
    }
    None
}

fn element_shape(descriptions: &Descriptions, object: &Object) -> core::result::Result<Shape, Refusal> {
    let kind = object.int("fType").unwrap_or(-1);
    let has_children = !object.many("fBranches").is_empty();
    let mut planner = Planner::new(descriptions);
    match kind {
        3 | 4 if has_children => return Ok(Shape::Collection),
        _ if has_children => return Ok(Shape::Record),
        3 | 4 => return Err(Refusal::Unsplit),
        -1 | 0 | 31 | 41 => {}
        other => {
            return Err(Refusal::BranchKind(i32::try_from(other).unwrap_or(i32::MAX)));
        }
    }
    let class = object.text("fClassName");
    match class {
        _ if kind >= 0 => {}
        "string" | "std::string" => {}
        // These stream themselves for the sake of versions of long ago.
        "TLorentzVector" | "TVector3" | "TVector2" => return planner.object(class).map(Shape::One),
        _ => return Err(Refusal::OwnStreamer),
    }
    if object.int("fID").unwrap_or(-1) < 0 {
        return planner.branch(class).map(Shape::One);
    }
    let (_, member) = member_of(descriptions, object).ok_or(Refusal::Undescribed)?;
    if matches!(kind, 31 | 41) {
        return Ok(Shape::Several { node: planner.member(member, 0)?, has_flag: false });
    }
    if (41..60).contains(&member.kind) {
        let one = Member { kind: member.kind - 40, length: 0, dimensions: Vec::new(), ..member.clone() };
        return Ok(Shape::Several { node: planner.member(&one, 0)?, has_flag: true });
    }
    planner.member(member, 0).map(Shape::One)
}

/// The type of a branch whose children have theirs.
fn type_of(all: &[Branch], number: usize) -> core::result::Result<Type, Refusal> {
    let branch = &all[number];
    let list = |container, item| Type::List { container, item: Box::new(item) };
    match branch.shape.as_ref().map_err(|why| *why)? {
        Shape::One(node) | Shape::Text(node) => Ok(node.type_of()),
        Shape::Several { node, .. } => Ok(list(Container::Vector, node.type_of())),
        Shape::Record => {
            let mut fields = Vec::new();
            for &child in &branch.children {
                match (all[child].is_base, all[child].of.clone()?) {
                    (true, Type::Record { fields: own, .. }) => fields.extend(own),
                    (_, of) => fields.push((all[child].field_name(&branch.name).into(), of)),
                }
            }
            Ok(record(&branch.class, fields))
        }
        Shape::Collection => {
            let mut fields = Vec::new();
            for &child in &branch.children {
                let Type::List { item, .. } = all[child].of.clone()? else { return Err(Refusal::Type) };
                fields.push((branch.item_name(&all[child]), *item));
            }
            let container = branch.container();
            Ok(list(container, record(if container.is_map() { "pair" } else { "" }, fields)))
        }
    }
}

/// A record of fields, in which those whose names have dots are fields of records.
fn record(class: &str, fields: Vec<(Box<str>, Type)>) -> Type {
    let mut own: Vec<(Box<str>, Type)> = Vec::new();
    for (group, members) in super::read::grouped(fields) {
        own.push((
            group,
            match members {
                super::read::Group::One(of) => of,
                super::read::Group::Several(members) => record("", members),
            },
        ));
    }
    Type::Record { class: class.into(), fields: own }
}
