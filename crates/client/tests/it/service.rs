//! Containers of the test pool.

use crate::testpool::State;
use dolmen_codec::order::HashKey;
use dolmen_codec::pool::{ContHandle, ContInfo, ContName, PoolInfo, PoolReply, PoolVerb, Snapshot};
use dolmen_codec::verb::{ContSpec, ContVerb, Reply, Usage, Verb};
use dolmen_types::{
    ContNo, Durability, Epoch, Error, Head, Label, PoolMap, Props, Result, TargetInfo, TargetState, Uuid,
};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Service {
    conts: BTreeMap<ContNo, Cont>,
    attrs: BTreeMap<(Option<ContNo>, String), Vec<u8>>,
}

struct Cont {
    handle: ContHandle,
    handles: u32,
    snapshots: Vec<Snapshot>,
    next_oid: u64,
}

impl Service {
    /// Handles open on a container.
    pub(crate) fn handles(&self, no: ContNo) -> u32 {
        self.conts[&no].handles
    }

    pub(crate) fn ask(&mut self, pool: &mut State, verb: PoolVerb<'_>) -> Result<PoolReply> {
        match verb {
            PoolVerb::Query => Ok(PoolReply::Pool(self.info(pool))),
            PoolVerb::ContCreate { uuid, label, props } => self.create(pool, uuid, label, props),
            PoolVerb::ContOpen(name) => {
                let cont = self.named(&name)?;
                cont.handles += 1;
                Ok(PoolReply::Cont(cont.handle.clone()))
            }
            PoolVerb::ContClose(no) => {
                self.cont(no)?.handles -= 1;
                Ok(PoolReply::Done)
            }
            PoolVerb::ContDestroy(name, force) => self.destroy(pool, &name, force),
            PoolVerb::ContList => {
                Ok(PoolReply::Conts(self.conts.values().map(|c| c.handle.clone()).collect()))
            }
            PoolVerb::ContQuery(no) => self.query(pool, no),
            PoolVerb::ContSetProps(no, props) => {
                self.cont(no)?.handle.props.extend(props);
                Ok(PoolReply::Done)
            }
            PoolVerb::ContProps(no, wanted) => {
                let mut props = self.cont(no)?.handle.props.clone();
                props.retain(|id, _| wanted.is_empty() || wanted.contains(id));
                Ok(PoolReply::Props(props))
            }
            PoolVerb::AllocOids(no, count) => {
                let cont = self.cont(no)?;
                let first = cont.next_oid;
                cont.next_oid += count;
                Ok(PoolReply::Oids(first))
            }
            PoolVerb::SnapCreate(no, name) => self.snapshot(pool, no, name),
            PoolVerb::SnapList(no) => Ok(PoolReply::Snapshots(self.cont(no)?.snapshots.clone())),
            PoolVerb::SnapDestroy(no, epoch) => {
                let snapshots = &mut self.cont(no)?.snapshots;
                let at = snapshots.iter().position(|s| s.epoch == epoch).ok_or(Error::NotFound)?;
                snapshots.remove(at);
                pool.tell_all(no, &ContVerb::RemoveSnapshot(epoch)).map(|()| PoolReply::Done)
            }
            PoolVerb::Rollback(no, to) => {
                let known = self.cont(no)?.snapshots.iter().any(|s| s.epoch == to);
                let at = pool.next_epoch();
                known.then_some(()).ok_or(Error::NotFound)?;
                pool.tell_all(no, &ContVerb::RaiseFloor(at))?;
                pool.tell_all(no, &ContVerb::Rollback { to, at }).map(|()| PoolReply::Epoch(at))
            }
            PoolVerb::Aggregate(no, epoch) => aggregate(pool, no, epoch),
            PoolVerb::Checkpoint => Ok(PoolReply::Done),
            attr => self.attr(attr),
        }
    }

    fn attr(&mut self, verb: PoolVerb<'_>) -> Result<PoolReply> {
        match verb {
            PoolVerb::SetAttrs(no, attrs) => {
                self.attrs.extend(attrs.into_iter().map(|(name, value)| ((no, name), value)));
                Ok(PoolReply::Done)
            }
            PoolVerb::Attr(no, name) => {
                self.attrs.get(&(no, name)).cloned().map(PoolReply::Attr).ok_or(Error::NotFound)
            }
            PoolVerb::AttrNames(no) => {
                let names = self.attrs.keys().filter(|key| key.0 == no).map(|key| key.1.clone());
                Ok(PoolReply::AttrNames(names.collect()))
            }
            PoolVerb::RemoveAttrs(no, names) => {
                self.attrs.retain(|key, _| key.0 != no || !names.contains(&key.1));
                Ok(PoolReply::Done)
            }
            other => panic!("not part of the tests: {other:?}"),
        }
    }

    fn info(&self, pool: &State) -> PoolInfo {
        let target = TargetInfo { rank: 0, state: TargetState::UpIn };
        let targets = vec![target; pool.targets.len()];
        let map = PoolMap { version: pool.map_version, pool: Uuid::from_u128(1), targets };
        PoolInfo { map, label: None, space: Vec::new(), cont_count: self.conts.len() as u64 }
    }

    fn cont(&mut self, no: ContNo) -> Result<&mut Cont> {
        self.conts.get_mut(&no).ok_or(Error::NoContainer)
    }

    fn named(&mut self, name: &ContName) -> Result<&mut Cont> {
        let fits = |handle: &ContHandle| match name {
            ContName::Uuid(uuid) => handle.uuid == *uuid,
            ContName::Label(label) => handle.label.as_ref() == Some(label),
        };
        self.conts.values_mut().find(|cont| fits(&cont.handle)).ok_or(Error::NotFound)
    }

    fn create(
        &mut self,
        pool: &mut State,
        uuid: Uuid,
        label: Option<Label>,
        props: Props,
    ) -> Result<PoolReply> {
        let taken = |c: &Cont| c.handle.uuid == uuid || (label.is_some() && c.handle.label == label);
        if self.conts.values().any(taken) {
            return Err(Error::Exists);
        }
        let no = ContNo(self.conts.keys().next_back().map_or(1, |last| last.0 + 1));
        let hash_key = HashKey(uuid.into_bytes());
        pool.tell_all(no, &ContVerb::Create(ContSpec { hash_key, durability: Durability::Power }))?;
        let handle = ContHandle { no, uuid, label, hash_key, props };
        self.conts
            .insert(no, Cont { handle: handle.clone(), handles: 0, snapshots: Vec::new(), next_oid: 1 });
        Ok(PoolReply::Cont(handle))
    }

    fn destroy(&mut self, pool: &mut State, name: &ContName, force: bool) -> Result<PoolReply> {
        let cont = self.named(name)?;
        if cont.handles > 0 && !force {
            return Err(Error::NotEmpty);
        }
        let no = cont.handle.no;
        self.conts.remove(&no);
        pool.tell_all(no, &ContVerb::Destroy).map(|()| PoolReply::Done)
    }

    fn query(&mut self, pool: &mut State, no: ContNo) -> Result<PoolReply> {
        let mut usage = Usage::default();
        for target in pool.all() {
            let reply = pool.call(target, Head::default(), no, Verb::Cont(ContVerb::Usage)).result?;
            let Reply::ContUsage(part) = reply else { panic!("{reply:?}") };
            usage.versions += part.versions;
        }
        let cont = self.cont(no)?;
        Ok(PoolReply::ContInfo(Box::new(ContInfo {
            cont: cont.handle.clone(),
            handles: cont.handles,
            snapshots: u32::try_from(cont.snapshots.len()).unwrap(),
            last_snapshot: cont.snapshots.last().map_or(Epoch::ZERO, |s| s.epoch),
            usage,
        })))
    }

    fn snapshot(&mut self, pool: &mut State, no: ContNo, name: Option<String>) -> Result<PoolReply> {
        let epoch = pool.next_epoch();
        pool.tell_all(no, &ContVerb::RaiseFloor(epoch))?;
        pool.tell_all(no, &ContVerb::AddSnapshot(epoch))?;
        self.cont(no)?.snapshots.push(Snapshot { epoch, name });
        Ok(PoolReply::Epoch(epoch))
    }
}

fn aggregate(pool: &mut State, no: ContNo, epoch: Epoch) -> Result<PoolReply> {
    let mut sum = 0;
    for target in pool.all() {
        loop {
            let verb = Verb::Cont(ContVerb::Aggregate(epoch));
            let reply = pool.call(target, Head::default(), no, verb).result?;
            let Reply::Aggregated { more, freed } = reply else { panic!("{reply:?}") };
            sum += freed;
            if !more {
                break;
            }
        }
    }
    Ok(PoolReply::Aggregated(sum))
}
