//! An open container: properties, attributes, snapshots, object ids, transactions.

use crate::at::At;
use crate::batch::Batch;
use crate::client::{Core, unexpected};
use crate::gathered::Gathered;
use crate::later::Unawaited;
use crate::object::Object;
use crate::oids::Oids;
use crate::pool::{attr_by, attr_names_by, done, done_by};
use crate::together::side_by_side;
use crate::tx::Tx;
use crate::walk::{ChangeWalk, ObjectWalk};
use core::sync::atomic::{AtomicBool, Ordering};
use dolmen_codec::acl::Acl;
use dolmen_codec::lock::{LockAsk, LockReply};
use dolmen_codec::order::HashKey;
use dolmen_codec::pool::{
    ContHandle, ContInfo, FilesAsk, FilesReply, PoolInfo, PoolReply, PoolVerb, Snapshot, Whose,
};
use dolmen_codec::quota::{Limits, Report};
use dolmen_codec::verb::{ReadAt, Reply, Verb};
use dolmen_codec::{Answer, Ask, Request, Way, now};
use dolmen_types::{
    ContNo, Durability, Epoch, Error, Invalid, Label, ObjectClass, ObjectType, Oid, PropId, PropValue, Props,
    Result, TargetNo, Uuid,
};
use std::sync::Arc;

/// An open container, or a read-only view of one at an epoch.
///
/// A cheap handle, `Send` and `Sync`; clones share one open handle, which is given back by
/// [`Container::close`] or with the last of them.
#[derive(Clone)]
pub struct Container {
    shared: Arc<Shared>,
    view: Option<Epoch>,
    /// Where reads put their leases.
    gathered: Option<Arc<Gathered>>,
}

struct Shared {
    core: Arc<Core>,
    handle: ContHandle,
    oids: Oids,
    closed: AtomicBool,
    /// Whether the engine has taken the handle away, as far as is known here.
    has_ended: Arc<AtomicBool>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Closing one that has ended would close one that was opened since.
        let is_open = !self.closed.swap(true, Ordering::AcqRel) && !self.has_ended.load(Ordering::Acquire);
        if is_open {
            // Ignored: nobody is left to tell, and a pool that is gone has no handles.
            let _closed = done(&self.core, || PoolVerb::ContClose(self.handle.no));
        }
        self.core.forget_era(self.handle.no);
    }
}

impl Container {
    pub(crate) fn new(core: Arc<Core>, handle: ContHandle) -> Self {
        let has_ended = core.era_of(&handle);
        let closed = AtomicBool::new(false);
        let shared = Shared { core, handle, oids: Oids::default(), closed, has_ended };
        Self { shared: Arc::new(shared), view: None, gathered: None }
    }

    /// Gives the handle back; other clones must not be used any more, and their last one does nothing then.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn close(self) -> Result<()> {
        now(self.close_by(Way::Now))
    }

    /// As [`Container::close`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::close`].
    pub async fn close_by(self, way: Way) -> Result<()> {
        if self.shared.closed.swap(true, Ordering::AcqRel) || self.check_handle().is_err() {
            return Ok(());
        }
        self.done_by(way, || PoolVerb::ContClose(self.no())).await
    }

    /// Ends the handles that others have on it, those of the same user or of all users: what they ask from then on is
    /// `NoHandle`, what they have under way is finished. Handles of this client go on, and in process, where nobody else can
    /// have any, so do all.
    ///
    /// # Errors
    /// `NoHandle` if this one has ended; those of the transport.
    pub fn evict_others(&self, whose: Whose) -> Result<()> {
        now(self.evict_others_by(Way::Now, whose))
    }

    /// As [`Container::evict_others`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::evict_others`].
    pub async fn evict_others_by(&self, way: Way, whose: Whose) -> Result<()> {
        self.check_handle()?;
        let make = || PoolVerb::ContEvict(self.no(), whose);
        match self.core().change_by(way, make).await? {
            PoolReply::Cont(handle) => {
                self.core().goes_on(&handle);
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    /// Asks about locks on objects, which the engine keeps for whoever comes over a socket. A lock is its holder's for
    /// [`TERM_NS`](dolmen_codec::lock::TERM_NS) after the holder was heard last.
    ///
    /// # Errors
    /// `NoHandle` if this one has ended; `Busy` if there are too many locks; `NoPermission` in process, where there is nobody to
    /// keep locks from; those of the transport.
    pub fn lock(&self, ask: &LockAsk) -> Result<LockReply> {
        self.check_handle()?;
        let make = || PoolVerb::Lock(self.no(), Box::new(ask.clone()));
        told_of_lock(self.core().ask_pool(self.core().read_id(), make)?)
    }

    /// Whether what is asked of its engine begins in the order in which it is asked, as long as the connection lasts; else that is so
    /// for locks alone.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.core().transport().is_in_order()
    }

    /// As [`Container::lock`], without waiting: what is asked of the same engine after this comes after it as long as the connection
    /// lasts. It goes with that, or when it is sent by [`LockAsked::send`].
    #[must_use]
    pub fn ask_lock(&self, ask: LockAsk) -> LockAsked {
        let core = self.core();
        let verb = PoolVerb::Lock(self.no(), Box::new(ask));
        let make = || Request {
            token: 0,
            head: core.head(core.read_id(), core.map().version),
            ask: Ask::Pool(verb),
        };
        LockAsked(self.check_handle().and_then(|()| Unawaited::ask(core, make)))
    }

    /// Asks for its files by way of the engine, which needs no right to its objects. REQUIRES: the engine says that it answers.
    ///
    /// # Errors
    /// `NotFound` for a session that has ended; `Busy` if there are too many; `NoPermission`; `NoHandle`; those of the transport.
    pub fn files(&self, ask: &FilesAsk) -> Result<FilesReply> {
        self.check_handle()?;
        let make = || PoolVerb::Files(self.no(), ask.clone());
        match self.core().ask_pool(self.core().read_id(), make)? {
            PoolReply::Files(told) => Ok(told),
            _ => Err(unexpected()),
        }
    }

    /// Its number in the pool.
    #[must_use]
    pub fn no(&self) -> ContNo {
        self.shared.handle.no
    }

    /// Its UUID.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.shared.handle.uuid
    }

    /// Its label when it was opened.
    #[must_use]
    pub fn label(&self) -> Option<&Label> {
        self.shared.handle.label.as_ref()
    }

    /// Its properties when it was opened.
    #[must_use]
    pub fn opened_props(&self) -> &Props {
        &self.shared.handle.props
    }

    /// What a write to it has survived when it is answered.
    #[must_use]
    pub fn durability(&self) -> Durability {
        match self.opened_props().get(&PropId::CO_DURABILITY) {
            Some(PropValue::Number(number)) => Durability::from_number(*number).unwrap_or(Durability::Power),
            _ => Durability::Power,
        }
    }

    /// Has everything that was answered before survive the loss of power, on all targets of the pool: names lie elsewhere than what they
    /// name. With [`Durability::Power`] it has already. All targets are asked at once.
    ///
    /// # Errors
    /// `NoHandle` if this one has ended; those of the transport and of the targets: then nothing is known of what one of them has.
    pub fn flush(&self) -> Result<()> {
        self.check_handle()?;
        let (core, no) = (self.core(), self.no());
        let targets = (0..core.map().target_count).map(async |target| {
            let make = |_| Ok(Ask::Target(TargetNo(target), no, Verb::Flush));
            match core.ask_target_by(Way::Later, core.read_id(), make).await? {
                Reply::Done => Ok(()),
                _ => Err(unexpected()),
            }
        });
        self.together(side_by_side(targets)).into_iter().collect()
    }

    /// Everything about it, usage over all targets included.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn query(&self) -> Result<ContInfo> {
        now(self.query_by(Way::Now))
    }

    /// As [`Container::query`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::query`].
    pub async fn query_by(&self, way: Way) -> Result<ContInfo> {
        self.check_handle()?;
        match self.core().ask_pool_by(way, self.core().read_id(), || PoolVerb::ContQuery(self.no())).await? {
            PoolReply::ContInfo(info) => Ok(*info),
            _ => Err(unexpected()),
        }
    }

    /// What is used of it by each user, and what may be.
    ///
    /// # Errors
    /// `Invalid::Argument` where an engine of the pool knows no limits; `Unreachable` while one does not answer; those of the
    /// transport.
    pub fn quota(&self) -> Result<Report> {
        now(self.quota_by(Way::Now))
    }

    /// As [`Container::quota`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::quota`].
    pub async fn quota_by(&self, way: Way) -> Result<Report> {
        self.check_handle()?;
        match self.core().ask_pool_by(way, self.core().read_id(), || PoolVerb::ContQuota(self.no())).await? {
            PoolReply::Quota(report) => Ok(*report),
            _ => Err(unexpected()),
        }
    }

    /// Sets what may be used of it, by a user if one is named; 0 lifts a limit.
    ///
    /// # Errors
    /// As [`Container::quota`]; `Invalid::Count` if too many users have limits; `NoPermission`.
    pub fn set_quota(&self, uid: Option<u32>, limits: Limits) -> Result<()> {
        now(self.set_quota_by(Way::Now, uid, limits))
    }

    /// As [`Container::set_quota`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::set_quota`].
    pub async fn set_quota_by(&self, way: Way, uid: Option<u32>, limits: Limits) -> Result<()> {
        self.done_by(way, || PoolVerb::ContSetQuota(self.no(), uid, limits)).await
    }

    /// Current properties; an empty list asks for all.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn props(&self, wanted: &[PropId]) -> Result<Props> {
        now(self.props_by(Way::Now, wanted))
    }

    /// As [`Container::props`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::props`].
    pub async fn props_by(&self, way: Way, wanted: &[PropId]) -> Result<Props> {
        self.check_handle()?;
        let make = || PoolVerb::ContProps(self.no(), wanted.to_vec());
        match self.core().ask_pool_by(way, self.core().read_id(), make).await? {
            PoolReply::Props(props) => Ok(props),
            _ => Err(unexpected()),
        }
    }

    /// Sets properties.
    ///
    /// # Errors
    /// `Invalid::Property`; `Exists` if a label is taken.
    pub fn set_props(&self, props: &Props) -> Result<()> {
        now(self.set_props_by(Way::Now, props))
    }

    /// As [`Container::set_props`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::set_props`].
    pub async fn set_props_by(&self, way: Way, props: &Props) -> Result<()> {
        self.done_by(way, || PoolVerb::ContSetProps(self.no(), props.clone())).await
    }

    /// Who may do what with it, as was set, or as with every container of which nobody has said so.
    ///
    /// # Errors
    /// Those of the transport; `Invalid::Property` for a list that is none.
    pub fn acl(&self) -> Result<Acl> {
        now(self.acl_by(Way::Now))
    }

    /// As [`Container::acl`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::acl`].
    pub async fn acl_by(&self, way: Way) -> Result<Acl> {
        match self.props_by(way, &[PropId::CO_ACL]).await?.get(&PropId::CO_ACL) {
            Some(PropValue::Bytes(bytes)) if !bytes.is_empty() => Acl::decode(bytes),
            _ => Ok(Acl::of_new_container()),
        }
    }

    /// Says who may do what with it.
    ///
    /// # Errors
    /// As [`Container::set_props`].
    pub fn set_acl(&self, acl: &Acl) -> Result<()> {
        now(self.set_acl_by(Way::Now, acl))
    }

    /// As [`Container::set_acl`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::set_acl`].
    pub async fn set_acl_by(&self, way: Way, acl: &Acl) -> Result<()> {
        self.set_props_by(way, &Props::from([(PropId::CO_ACL, PropValue::Bytes(acl.encode()))])).await
    }

    /// Sets user attributes.
    ///
    /// # Errors
    /// `Invalid::Name`, `Invalid::Count`.
    pub fn set_attrs(&self, attrs: &[(String, Vec<u8>)]) -> Result<()> {
        now(self.set_attrs_by(Way::Now, attrs))
    }

    /// As [`Container::set_attrs`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::set_attrs`].
    pub async fn set_attrs_by(&self, way: Way, attrs: &[(String, Vec<u8>)]) -> Result<()> {
        self.done_by(way, || PoolVerb::SetAttrs(Some(self.no()), attrs.to_vec())).await
    }

    /// Reads a user attribute.
    ///
    /// # Errors
    /// `NotFound` if it is not set.
    pub fn attr(&self, name: &str) -> Result<Vec<u8>> {
        now(self.attr_by(Way::Now, name))
    }

    /// As [`Container::attr`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::attr`].
    pub async fn attr_by(&self, way: Way, name: &str) -> Result<Vec<u8>> {
        self.check_handle()?;
        attr_by(self.core(), way, || PoolVerb::Attr(Some(self.no()), name.to_owned())).await
    }

    /// Names of the user attributes, sorted.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn attr_names(&self) -> Result<Vec<String>> {
        now(self.attr_names_by(Way::Now))
    }

    /// As [`Container::attr_names`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::attr_names`].
    pub async fn attr_names_by(&self, way: Way) -> Result<Vec<String>> {
        self.check_handle()?;
        attr_names_by(self.core(), way, || PoolVerb::AttrNames(Some(self.no()))).await
    }

    /// Removes user attributes.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn remove_attrs(&self, names: &[String]) -> Result<()> {
        now(self.remove_attrs_by(Way::Now, names))
    }

    /// As [`Container::remove_attrs`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::remove_attrs`].
    pub async fn remove_attrs_by(&self, way: Way, names: &[String]) -> Result<()> {
        self.done_by(way, || PoolVerb::RemoveAttrs(Some(self.no()), names.to_vec())).await
    }

    /// Keeps the state of now; what was acknowledged before is in it, what begins later is not.
    ///
    /// # Errors
    /// `Exists` if the name is taken; `Invalid::Name`.
    pub fn create_snapshot(&self, name: Option<&str>) -> Result<Epoch> {
        now(self.create_snapshot_by(Way::Now, name))
    }

    /// As [`Container::create_snapshot`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::create_snapshot`].
    pub async fn create_snapshot_by(&self, way: Way, name: Option<&str>) -> Result<Epoch> {
        self.epoch_by(way, || PoolVerb::SnapCreate(self.no(), name.map(str::to_owned))).await
    }

    /// Snapshots in order of epoch.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        now(self.snapshots_by(Way::Now))
    }

    /// As [`Container::snapshots`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::snapshots`].
    pub async fn snapshots_by(&self, way: Way) -> Result<Vec<Snapshot>> {
        self.check_handle()?;
        match self.core().ask_pool_by(way, self.core().read_id(), || PoolVerb::SnapList(self.no())).await? {
            PoolReply::Snapshots(snapshots) => Ok(snapshots),
            _ => Err(unexpected()),
        }
    }

    /// Destroys a snapshot; what only it kept goes with the next aggregation.
    ///
    /// # Errors
    /// `NotFound` if there is none at this epoch.
    pub fn destroy_snapshot(&self, epoch: Epoch) -> Result<()> {
        now(self.destroy_snapshot_by(Way::Now, epoch))
    }

    /// As [`Container::destroy_snapshot`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::destroy_snapshot`].
    pub async fn destroy_snapshot_by(&self, way: Way, epoch: Epoch) -> Result<()> {
        self.done_by(way, || PoolVerb::SnapDestroy(self.no(), epoch)).await
    }

    /// Returns the container to a snapshot. What was written since stays readable at its own epochs.
    ///
    /// # Errors
    /// `NotFound` if there is no snapshot at this epoch.
    pub fn rollback(&self, epoch: Epoch) -> Result<Epoch> {
        now(self.rollback_by(Way::Now, epoch))
    }

    /// As [`Container::rollback`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::rollback`].
    pub async fn rollback_by(&self, way: Way, epoch: Epoch) -> Result<Epoch> {
        self.epoch_by(way, || PoolVerb::Rollback(self.no(), epoch)).await
    }

    /// Values that differ between two kept states, older first.
    #[must_use]
    pub fn diff(&self, from: Epoch, to: Epoch) -> ChangeWalk {
        ChangeWalk::new(self.clone(), from, to)
    }

    /// Frees versions that no reader can see, up to `epoch` (zero: as far as possible), and returns how many.
    ///
    /// # Errors
    /// Those of the transport and of the targets.
    pub fn aggregate(&self, epoch: Epoch) -> Result<u64> {
        now(self.aggregate_by(Way::Now, epoch))
    }

    /// As [`Container::aggregate`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::aggregate`].
    pub async fn aggregate_by(&self, way: Way, epoch: Epoch) -> Result<u64> {
        self.check_handle()?;
        let make = || PoolVerb::Aggregate(self.no(), epoch);
        match self.core().change_by(way, make).await? {
            PoolReply::Aggregated(freed) => Ok(freed),
            _ => Err(unexpected()),
        }
    }

    /// The same container as it was at `epoch`: [`At::Latest`] means that epoch, and writes are refused with
    /// `NoPermission`. Reads fail with `EpochGone` if aggregation has passed the epoch and no snapshot keeps it.
    #[must_use]
    pub fn at(&self, epoch: Epoch) -> Self {
        Self { shared: Arc::clone(&self.shared), view: Some(epoch), gathered: None }
    }

    /// The same container, whose reads of the present are asked for with leases, which go `into` there. Who takes some has to
    /// listen on the transport's connections, else others wait for him. Reads that are begun by events take none, and are not
    /// noted.
    #[must_use]
    pub fn gathering(&self, into: &Arc<Gathered>) -> Self {
        Self { gathered: Some(Arc::clone(into)), ..self.clone() }
    }

    #[inline]
    pub(crate) fn gathered(&self) -> Option<&Gathered> {
        self.gathered.as_deref()
    }

    /// The epoch of a view made by [`Container::at`].
    #[must_use]
    pub fn view_epoch(&self) -> Option<Epoch> {
        self.view
    }

    /// A new object id, unique in the container. The automatic class is chosen and "as many groups as fit"
    /// is fixed for the targets of now.
    ///
    /// # Errors
    /// `Invalid::ObjectId` for a class that asks for more than one copy (not available yet), also when the
    /// container's redundancy factor does.
    //= daos:src/object/cli_obj.c daos_obj_generate_oid
    pub fn alloc_oid(&self, object_type: ObjectType, class: ObjectClass) -> Result<Oid> {
        self.check_handle()?;
        let class = self.resolve(object_type, class)?;
        let number = self.shared.oids.next(self.core(), self.no())?;
        Ok(Oid::new(object_type, class, 0, number))
    }

    /// Reserves a range of object numbers, from which the caller makes ids of its own; the first of them.
    ///
    /// # Errors
    /// `Invalid::Count` for none; those of the transport.
    pub fn alloc_oids(&self, count: u64) -> Result<u64> {
        now(self.alloc_oids_by(Way::Now, count))
    }

    /// As [`Container::alloc_oids`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::alloc_oids`].
    pub async fn alloc_oids_by(&self, way: Way, count: u64) -> Result<u64> {
        if count == 0 {
            return Err(Invalid::Count.into());
        }
        self.check_handle()?;
        let make = || PoolVerb::AllocOids(self.no(), count);
        match self.core().change_by(way, make).await? {
            PoolReply::Oids(first) => Ok(first),
            _ => Err(unexpected()),
        }
    }

    /// An object id from 96 bits of the caller, who answers for their uniqueness.
    ///
    /// # Errors
    /// As [`Container::alloc_oid`].
    pub fn oid(
        &self,
        object_type: ObjectType,
        class: ObjectClass,
        user_hi: u32,
        user_lo: u64,
    ) -> Result<Oid> {
        Ok(Oid::new(object_type, self.resolve(object_type, class)?, user_hi, user_lo))
    }

    fn resolve(&self, object_type: ObjectType, class: ObjectClass) -> Result<ObjectClass> {
        let factor = match self.opened_props().get(&PropId::CO_REDUN_FAC) {
            Some(PropValue::Number(factor)) => *factor,
            None => 0,
            Some(_) => return Err(Invalid::Property.into()),
        };
        if class == ObjectClass::RP_XSF && self.has_several_engines()? {
            return Err(Invalid::ObjectId.into());
        }
        let target_count = self.core().map().target_count;
        Ok(dolmen_layout::resolve_class(class, object_type, factor, target_count)?)
    }

    /// Whether a copy on each engine is more than one.
    fn has_several_engines(&self) -> Result<bool> {
        let targets = self.query_pool()?.map.targets;
        Ok(targets.windows(2).any(|pair| pair[0].rank != pair[1].rank))
    }

    /// A handle on an object; nothing is asked, the object need not exist.
    ///
    /// # Errors
    /// `Invalid::ObjectId` if the id names no type or a class that cannot be placed.
    pub fn object(&self, oid: Oid) -> Result<Object> {
        Object::new(self.clone(), oid)
    }

    /// All objects that exist at `at`, each once.
    #[must_use]
    pub fn objects(&self, at: Option<Epoch>) -> ObjectWalk {
        ObjectWalk::new(self.clone(), at.or(self.view))
    }

    /// Begins a batch.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(self)
    }

    /// Carries out an operation that goes the way `Later`, and waits for it. What its parts ask side by side
    /// ([`side_by_side`](crate::side_by_side)) goes out at once, reads with leases where they are gathered; they may all be reads only.
    pub fn together<T>(&self, operation: impl Future<Output = T>) -> T {
        self.core().together(operation)
    }

    /// The pool it is in: map, label, space by target.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn query_pool(&self) -> Result<PoolInfo> {
        self.core().query()
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// `NoPermission` in a view made by [`Container::at`]; those of the transport.
    pub fn begin(&self) -> Result<Tx> {
        now(self.begin_by(Way::Now))
    }

    /// As [`Container::begin`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::begin`].
    pub async fn begin_by(&self, way: Way) -> Result<Tx> {
        Tx::begin(way, self.clone()).await
    }

    /// Runs `body` in a transaction and commits it; again from the start, with a pause that grows, when it
    /// conflicts with others. `body` may run several times and must not keep what it read in a failed run.
    ///
    /// # Errors
    /// What `body` returns; the transaction is aborted then. `TxRestart` after 30 s of conflicts in a
    /// row, which are 64 at least.
    pub fn transact<T, E: From<Error>>(
        &self,
        mut body: impl FnMut(&Tx) -> core::result::Result<T, E>,
    ) -> core::result::Result<T, E> {
        now(self.transact_by(Way::Now, |tx| core::future::ready(body(&tx))))
    }

    /// As [`Container::transact`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Container::transact`].
    pub async fn transact_by<T, E: From<Error>, F>(
        &self,
        way: Way,
        body: impl FnMut(Arc<Tx>) -> F,
    ) -> core::result::Result<T, E>
    where
        F: Future<Output = core::result::Result<T, E>>,
    {
        crate::tx::transact(way, self, body).await
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.shared.core
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Notes that the handle was given back.
    pub(crate) fn set_closed(&self) {
        self.shared.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn hash_key(&self) -> HashKey {
        self.shared.handle.hash_key
    }

    /// The epoch that reads at `at` have, outside of transactions.
    #[inline]
    pub(crate) fn read_epoch(&self, at: At<'_>) -> Result<ReadAt> {
        self.check_handle()?;
        match (at, self.view) {
            (At::Latest, None) => Ok(ReadAt::Latest),
            (At::Latest, Some(epoch)) | (At::Snapshot(epoch), _) => Ok(ReadAt::Epoch(epoch)),
            (At::Tx(tx), None) if tx.is_of(self) => tx.read_epoch(),
            (At::Tx(_), _) => Err(Invalid::Argument.into()),
        }
    }

    /// The transaction that writes at `at` go to; `None` if they commit at once.
    #[inline]
    pub(crate) fn write_tx<'t>(&self, at: At<'t>) -> Result<Option<&'t Tx>> {
        self.check_handle()?;
        match (at, self.view) {
            (At::Latest, None) => Ok(None),
            (At::Tx(tx), None) if tx.is_of(self) => Ok(Some(tx)),
            (At::Tx(_), None) => Err(Invalid::Argument.into()),
            (At::Snapshot(_), _) | (_, Some(_)) => Err(Error::NoPermission),
        }
    }

    /// Refuses what would be asked by a handle that is known to have ended; the engine refuses it in any case, but knows
    /// handles of one client by their container only.
    #[inline]
    pub(crate) fn check_handle(&self) -> Result<()> {
        if self.shared.has_ended.load(Ordering::Acquire) { Err(Error::NoHandle) } else { Ok(()) }
    }

    async fn epoch_by(&self, way: Way, make: impl FnMut() -> PoolVerb<'static>) -> Result<Epoch> {
        self.check_handle()?;
        match self.core().change_by(way, make).await? {
            PoolReply::Epoch(epoch) => Ok(epoch),
            _ => Err(unexpected()),
        }
    }

    async fn done_by(&self, way: Way, make: impl FnMut() -> PoolVerb<'static>) -> Result<()> {
        self.check_handle()?;
        done_by(self.core(), way, make).await
    }
}

/// A question about locks that nobody waits for. Who drops it does not hear the answer.
#[derive(Debug)]
pub struct LockAsked(Result<Unawaited>);

impl LockAsked {
    /// Sees that it is on its way. Whether a connection had to be made anew for it, to an engine that may have forgotten what it knew.
    pub fn send(&self) -> bool {
        self.0.as_ref().is_ok_and(Unawaited::send)
    }

    /// Looks whether it is answered; `None` if it is not.
    ///
    /// # Errors
    /// As [`Container::lock`].
    pub fn told(&mut self) -> Option<Result<LockReply>> {
        match &mut self.0 {
            Err(error) => Some(Err(error.clone())),
            Ok(asked) => Some(asked.answer()?.and_then(|answer| match answer {
                Answer::Pool(reply) => told_of_lock(reply),
                Answer::Target(_) => Err(unexpected()),
            })),
        }
    }
}

fn told_of_lock(reply: PoolReply) -> Result<LockReply> {
    match reply {
        PoolReply::Lock(told) => Ok(told),
        _ => Err(unexpected()),
    }
}

impl core::fmt::Debug for Container {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Container").field("handle", &self.shared.handle).field("view", &self.view).finish()
    }
}
