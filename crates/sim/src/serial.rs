//! Whether a history of committed transactions is serialisable: decided twice, in ways that share nothing.
//!
//! The first way builds the direct serialisation graph: who wrote the version after whose (`ww`), who read
//! whose version (`wr`), who read a version that another replaced (`rw`), and who had ended before another
//! began. A cycle means that no serial order explains the history. The second way runs the transactions one by
//! one in the order of their epochs on a plain map, and compares what each of them saw.
//!
//! Invariants: every write of a history has an id of its own; versions of an item are ordered by the epochs of
//! the transactions that wrote them.

use dolmen_types::{Epoch, Key, Oid};
use std::collections::{BTreeMap, BTreeSet};

/// A place that holds one value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Item {
    /// Object.
    pub oid: Oid,
    /// Distribution key.
    pub dkey: Key,
    /// Attribute key.
    pub akey: Key,
}

/// What a transaction saw, before it wrote anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// The write whose value an item held; `None` if it was missing.
    Value(Item, Option<u64>),
    /// Whether an item existed, as a condition tells.
    Exists(Item, bool),
    /// The dkeys of an object.
    Dkeys(Oid, BTreeSet<Key>),
    /// The akeys of a dkey; empty if the dkey was missing.
    Akeys(Oid, Key, BTreeSet<Key>),
    /// The objects of the container.
    Objects(BTreeSet<Oid>),
}

/// What a transaction wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// A value; the id is that of no other write.
    Put(Item, u64),
    /// The item is gone.
    Remove(Item),
    /// All items of a dkey are gone.
    RemoveDkey(Oid, Key),
    /// All items of an object are gone.
    RemoveObject(Oid),
}

/// A committed transaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Committed {
    /// The epoch of its writes.
    pub epoch: Epoch,
    /// When its client began it, by any clock that all clients share.
    pub begin_ns: u64,
    /// When its client knew that it was committed; `u64::MAX` if it never did.
    pub end_ns: u64,
    /// What it saw.
    pub reads: Vec<Read>,
    /// What it wrote, in order.
    pub writes: Vec<Write>,
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// The other wrote the next version of something it wrote.
    WriteWrite,
    /// The other read what it wrote.
    WriteRead,
    /// The other wrote the next version of something it read.
    ReadWrite,
    /// It had ended before the other began.
    RealTime,
}

/// Why a history is not serialisable. Transactions are named by their places in the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Anomaly {
    /// A value was read that no committed transaction wrote: of an aborted one, or of none.
    Unwritten {
        /// Who read it.
        reader: usize,
        /// The id of the write.
        write: u64,
    },
    /// A value was read that its writer replaced itself before it committed.
    Intermediate {
        /// Who read it.
        reader: usize,
        /// The id of the write.
        write: u64,
    },
    /// Two writes have one id, or two to one item have one epoch: nothing can be decided.
    Ambiguous {
        /// One of the two transactions.
        tx: usize,
    },
    /// Each comes before the next one, and the last before the first.
    Cycle(Vec<(usize, Edge)>),
    /// Run in the order of epochs, a transaction would have seen something else.
    Replay {
        /// Who.
        reader: usize,
        /// Which of its reads.
        read: usize,
    },
}

/// Both ways of deciding.
///
/// # Errors
/// The first anomaly found.
pub fn check(history: &[Committed]) -> Result<(), Anomaly> {
    check_graph(history)?;
    check_replay(history)
}

/// The versions of one item in order; `None` where it was removed.
type Versions = Vec<(usize, Option<u64>)>;

/// Looks for a cycle in the direct serialisation graph.
///
/// # Errors
/// The anomaly found.
pub fn check_graph(history: &[Committed]) -> Result<(), Anomaly> {
    let versions = versions(history)?;
    check_values(history)?;
    let mut graph: Vec<Vec<(usize, Edge)>> = vec![Vec::new(); history.len()];
    let mut edge = |from: usize, to: usize, kind: Edge| {
        if from != to {
            graph[from].push((to, kind));
        }
    };
    for list in versions.values() {
        list.windows(2).for_each(|pair| edge(pair[0].0, pair[1].0, Edge::WriteWrite));
    }
    for (reader, tx) in history.iter().enumerate() {
        for (item, seen) in tx.reads.iter().flat_map(|read| seen_items(read, &versions)) {
            let list = versions.get(&item).map_or(&[][..], Vec::as_slice);
            let Some((from, upto)) = seen_range(list, seen, |writer| history[writer].epoch < tx.epoch) else {
                continue;
            };
            if let Some(&(writer, _)) = from.and_then(|from| list.get(from)) {
                edge(writer, reader, Edge::WriteRead);
            }
            if let Some(&(writer, _)) = list.get(upto) {
                edge(reader, writer, Edge::ReadWrite);
            }
        }
    }
    for (early, one) in history.iter().enumerate() {
        for (late, other) in history.iter().enumerate() {
            if one.end_ns < other.begin_ns {
                edge(early, late, Edge::RealTime);
            }
        }
    }
    match cycle(&graph) {
        Some(cycle) => Err(Anomaly::Cycle(cycle)),
        None => Ok(()),
    }
}

/// Every item that anybody wrote or read, with its committed versions.
fn versions(history: &[Committed]) -> Result<BTreeMap<Item, Versions>, Anomaly> {
    let mut order: Vec<usize> = (0..history.len()).filter(|&tx| !history[tx].writes.is_empty()).collect();
    order.sort_by_key(|&tx| history[tx].epoch);
    let mut versions: BTreeMap<Item, Versions> =
        items(history).into_iter().map(|item| (item, Vec::new())).collect();
    for tx in order {
        for (item, list) in &mut versions {
            // Only the last write of a transaction to an item is a version.
            if let Some(id) = history[tx].writes.iter().rev().find_map(|write| effect(write, item)) {
                // Writes of one epoch to different items need no order; plain ones on two targets may meet.
                if list.last().is_some_and(|&(last, _)| history[last].epoch == history[tx].epoch) {
                    return Err(Anomaly::Ambiguous { tx });
                }
                list.push((tx, id));
            }
        }
    }
    Ok(versions)
}

fn items(history: &[Committed]) -> BTreeSet<Item> {
    let mut items = BTreeSet::new();
    for tx in history {
        for write in &tx.writes {
            if let Write::Put(item, _) | Write::Remove(item) = write {
                items.insert(item.clone());
            }
        }
        for read in &tx.reads {
            match read {
                Read::Value(item, _) | Read::Exists(item, _) => drop(items.insert(item.clone())),
                Read::Akeys(oid, dkey, akeys) => {
                    let item = |akey: &Key| Item { oid: *oid, dkey: dkey.clone(), akey: akey.clone() };
                    items.extend(akeys.iter().map(item));
                }
                // Which items a listed dkey or object has is told by those who wrote them.
                Read::Dkeys(..) | Read::Objects(_) => {}
            }
        }
    }
    items
}

/// What a write makes of an item; `None` if it does not touch it.
#[expect(clippy::option_option, reason = "untouched, removed and written are three things")]
fn effect(write: &Write, item: &Item) -> Option<Option<u64>> {
    match write {
        Write::Put(written, id) => (written == item).then_some(Some(*id)),
        Write::Remove(removed) => (removed == item).then_some(None),
        Write::RemoveDkey(oid, dkey) => (*oid == item.oid && *dkey == item.dkey).then_some(None),
        Write::RemoveObject(oid) => (*oid == item.oid).then_some(None),
    }
}

/// Every value that was read is the last one that a committed transaction wrote to the item.
fn check_values(history: &[Committed]) -> Result<(), Anomaly> {
    let mut writers: BTreeMap<u64, usize> = BTreeMap::new();
    for (tx, committed) in history.iter().enumerate() {
        for write in &committed.writes {
            if let Write::Put(_, id) = write
                && writers.insert(*id, tx).is_some()
            {
                return Err(Anomaly::Ambiguous { tx });
            }
        }
    }
    for (reader, tx) in history.iter().enumerate() {
        for read in &tx.reads {
            let Read::Value(item, Some(write)) = read else { continue };
            let Some(&writer) = writers.get(write) else {
                return Err(Anomaly::Unwritten { reader, write: *write });
            };
            let last = history[writer].writes.iter().rev().find_map(|write| effect(write, item));
            if writer != reader && last != Some(Some(*write)) {
                return Err(Anomaly::Intermediate { reader, write: *write });
            }
        }
    }
    Ok(())
}

/// What is known of an item's state when it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seen {
    Version(Option<u64>),
    Present(bool),
}

/// The items that a read depends on, and what it says of each.
fn seen_items(read: &Read, versions: &BTreeMap<Item, Versions>) -> Vec<(Item, Seen)> {
    match read {
        Read::Value(item, id) => vec![(item.clone(), Seen::Version(*id))],
        Read::Exists(item, exists) => vec![(item.clone(), Seen::Present(*exists))],
        Read::Akeys(oid, dkey, akeys) => {
            let below = versions.keys().filter(|item| item.oid == *oid && item.dkey == *dkey);
            below.map(|item| (item.clone(), Seen::Present(akeys.contains(&item.akey)))).collect()
        }
        Read::Dkeys(oid, dkeys) => {
            listed(versions.keys().filter(|item| item.oid == *oid), |item| item.dkey.clone(), dkeys)
        }
        Read::Objects(oids) => listed(versions.keys(), |item| item.oid, oids),
    }
}

/// What a listing of parents says of the items below them. A missing parent has no item at all; of one that is
/// there it is not said which it has. One is known if it is the only one.
fn listed<'a, P: Ord>(
    items: impl Iterator<Item = &'a Item>,
    parent: impl Fn(&Item) -> P,
    there: &BTreeSet<P>,
) -> Vec<(Item, Seen)> {
    let mut below: BTreeMap<P, Vec<&Item>> = BTreeMap::new();
    items.for_each(|item| below.entry(parent(item)).or_default().push(item));
    let mut seen = Vec::new();
    for (parent, items) in below {
        let present = there.contains(&parent);
        if !present || items.len() == 1 {
            seen.extend(items.into_iter().map(|item| (item.clone(), Seen::Present(present))));
        }
    }
    seen
}

/// The version that began the state that was seen (`None`: the state before all versions), and the one that
/// ended it. Where a state occurred more than once, the one that `is_before` the reader last is meant.
fn seen_range(
    list: &[(usize, Option<u64>)],
    seen: Seen,
    is_before: impl Fn(usize) -> bool,
) -> Option<(Option<usize>, usize)> {
    let fits = |version: Option<u64>| match seen {
        Seen::Version(id) => version == id,
        Seen::Present(present) => version.is_some() == present,
    };
    let mut ranges: Vec<(Option<usize>, usize)> = Vec::new();
    let states = core::iter::once((None, None))
        .chain(list.iter().enumerate().map(|(at, version)| (Some(at), version.1)));
    for (at, version) in states {
        let end = at.map_or(0, |at| at + 1);
        match ranges.last_mut() {
            // Written once more, it is still there: the state goes on.
            Some(last) if fits(version) && last.1 + 1 == end => last.1 = end,
            _ if fits(version) => ranges.push((at, end)),
            _ => {}
        }
    }
    let before = |range: &&(Option<usize>, usize)| range.0.is_none_or(|from| is_before(list[from].0));
    ranges.iter().rfind(before).or(ranges.first()).copied()
}

/// A cycle of the graph, if there is one.
fn cycle(graph: &[Vec<(usize, Edge)>]) -> Option<Vec<(usize, Edge)>> {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut color = vec![NEW; graph.len()];
    for start in 0..graph.len() {
        if color[start] != NEW {
            continue;
        }
        color[start] = OPEN;
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(&(to, _)) = graph[*node].get(*next) else {
                color[*node] = DONE;
                path.pop();
                continue;
            };
            *next += 1;
            match color[to] {
                NEW => {
                    color[to] = OPEN;
                    path.push((to, 0));
                }
                OPEN => {
                    let from = path.iter().position(|step| step.0 == to).expect("open nodes are on the path");
                    let steps = path[from..].iter();
                    return Some(steps.map(|&(node, next)| (node, graph[node][next - 1].1)).collect());
                }
                _ => {}
            }
        }
    }
    None
}

/// Runs the transactions one by one in the order of their epochs.
///
/// # Errors
/// The first read that would have seen something else.
pub fn check_replay(history: &[Committed]) -> Result<(), Anomaly> {
    let mut order: Vec<usize> = (0..history.len()).collect();
    // At one epoch who only reads comes after who writes: reads at an epoch see what was written at it.
    order.sort_by_key(|&tx| (history[tx].epoch, history[tx].writes.is_empty()));
    let mut state: BTreeMap<Item, u64> = BTreeMap::new();
    for reader in order {
        if let Some(read) = history[reader].reads.iter().position(|read| !agrees(&state, read)) {
            return Err(Anomaly::Replay { reader, read });
        }
        for write in &history[reader].writes {
            match write {
                Write::Put(item, id) => drop(state.insert(item.clone(), *id)),
                Write::Remove(_) | Write::RemoveDkey(..) | Write::RemoveObject(_) => {
                    state.retain(|item, _| effect(write, item).is_none());
                }
            }
        }
    }
    Ok(())
}

fn agrees(state: &BTreeMap<Item, u64>, read: &Read) -> bool {
    match read {
        Read::Value(item, id) => state.get(item) == id.as_ref(),
        Read::Exists(item, exists) => state.contains_key(item) == *exists,
        Read::Dkeys(oid, dkeys) => {
            let there: BTreeSet<&Key> =
                state.keys().filter(|item| item.oid == *oid).map(|item| &item.dkey).collect();
            there.into_iter().eq(dkeys)
        }
        Read::Akeys(oid, dkey, akeys) => {
            let below = state.keys().filter(|item| item.oid == *oid && item.dkey == *dkey);
            below.map(|item| &item.akey).collect::<BTreeSet<&Key>>().into_iter().eq(akeys)
        }
        Read::Objects(oids) => state.keys().map(|item| item.oid).collect::<BTreeSet<Oid>>() == *oids,
    }
}

#[cfg(test)]
mod tests;
