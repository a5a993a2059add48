//! The numbers of messages.

use super::Version;

/// An enum of numbers that cross the wire, readable from a number and listed in full.
macro_rules! numbered {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$about:meta])* $variant:ident = $number:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        pub enum $name { $($(#[$about])* $variant = $number,)+ }

        impl $name {
            /// All of them; those that the same one answers in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The number on the wire.
            #[must_use]
            #[inline]
            pub fn number(self) -> u16 {
                self as u16
            }

            /// What has this number; `None` if nothing has.
            #[must_use]
            #[inline]
            pub fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// What a request asks. Persistent: never renumber. Those of a target begin at 1, of a pool's service at 0x101, of
    /// the daemon at 0x201, of files at 0x301.
    pub enum AskKind {
        /// [`Verb::Update`](crate::verb::Verb::Update).
        Update = 1,
        /// [`Verb::Punch`](crate::verb::Verb::Punch).
        Punch = 2,
        /// [`Verb::Fetch`](crate::verb::Verb::Fetch).
        Fetch = 3,
        /// [`Verb::List`](crate::verb::Verb::List).
        List = 4,
        /// [`Verb::Query`](crate::verb::Verb::Query).
        Query = 5,
        /// [`Verb::Prepare`](crate::verb::Verb::Prepare).
        Prepare = 6,
        /// [`Verb::Commit`](crate::verb::Verb::Commit).
        Commit = 7,
        /// [`Verb::Conclude`](crate::verb::Verb::Conclude).
        Conclude = 8,
        /// [`Verb::Abort`](crate::verb::Verb::Abort).
        Abort = 9,
        /// [`Verb::TxState`](crate::verb::Verb::TxState).
        TxState = 10,
        /// [`Verb::InDoubt`](crate::verb::Verb::InDoubt).
        InDoubt = 11,
        /// [`Verb::Unconcluded`](crate::verb::Verb::Unconcluded).
        Unconcluded = 12,
        /// [`Verb::Latest`](crate::verb::Verb::Latest).
        Latest = 13,
        /// [`Verb::Cont`](crate::verb::Verb::Cont).
        Cont = 14,
        /// [`Verb::Space`](crate::verb::Verb::Space).
        Space = 15,
        /// [`Verb::Flush`](crate::verb::Verb::Flush).
        Flush = 16,
        /// [`Verb::Checkpoint`](crate::verb::Verb::Checkpoint).
        Checkpoint = 17,
        /// [`Verb::Scrub`](crate::verb::Verb::Scrub).
        Scrub = 18,
        /// [`Verb::Check`](crate::verb::Verb::Check).
        Check = 19,
        /// [`Verb::Update`](crate::verb::Verb::Update), and the user to whom it is charged.
        UpdateFor = 20,
        /// [`PoolVerb::Query`](crate::pool::PoolVerb::Query).
        PoolQuery = 0x0101,
        /// [`PoolVerb::ContCreate`](crate::pool::PoolVerb::ContCreate).
        ContCreate = 0x0102,
        /// [`PoolVerb::ContOpen`](crate::pool::PoolVerb::ContOpen).
        ContOpen = 0x0103,
        /// [`PoolVerb::ContClose`](crate::pool::PoolVerb::ContClose).
        ContClose = 0x0104,
        /// [`PoolVerb::ContDestroy`](crate::pool::PoolVerb::ContDestroy).
        ContDestroy = 0x0105,
        /// [`PoolVerb::ContList`](crate::pool::PoolVerb::ContList).
        ContList = 0x0106,
        /// [`PoolVerb::ContQuery`](crate::pool::PoolVerb::ContQuery).
        ContQuery = 0x0107,
        /// [`PoolVerb::ContSetProps`](crate::pool::PoolVerb::ContSetProps).
        ContSetProps = 0x0108,
        /// [`PoolVerb::ContProps`](crate::pool::PoolVerb::ContProps).
        ContProps = 0x0109,
        /// [`PoolVerb::SetAttrs`](crate::pool::PoolVerb::SetAttrs).
        SetAttrs = 0x010a,
        /// [`PoolVerb::Attr`](crate::pool::PoolVerb::Attr).
        Attr = 0x010b,
        /// [`PoolVerb::AttrNames`](crate::pool::PoolVerb::AttrNames).
        AttrNames = 0x010c,
        /// [`PoolVerb::RemoveAttrs`](crate::pool::PoolVerb::RemoveAttrs).
        RemoveAttrs = 0x010d,
        /// [`PoolVerb::SnapCreate`](crate::pool::PoolVerb::SnapCreate).
        SnapCreate = 0x010e,
        /// [`PoolVerb::SnapList`](crate::pool::PoolVerb::SnapList).
        SnapList = 0x010f,
        /// [`PoolVerb::SnapDestroy`](crate::pool::PoolVerb::SnapDestroy).
        SnapDestroy = 0x0110,
        /// [`PoolVerb::Rollback`](crate::pool::PoolVerb::Rollback).
        Rollback = 0x0111,
        /// [`PoolVerb::AllocOids`](crate::pool::PoolVerb::AllocOids).
        AllocOids = 0x0112,
        /// [`PoolVerb::TxBegin`](crate::pool::PoolVerb::TxBegin).
        TxBegin = 0x0113,
        /// [`PoolVerb::TxCommit`](crate::pool::PoolVerb::TxCommit).
        TxCommit = 0x0114,
        /// [`PoolVerb::Aggregate`](crate::pool::PoolVerb::Aggregate).
        Aggregate = 0x0115,
        /// [`PoolVerb::Checkpoint`](crate::pool::PoolVerb::Checkpoint).
        PoolCheckpoint = 0x0116,
        /// [`PoolVerb::Scrub`](crate::pool::PoolVerb::Scrub).
        PoolScrub = 0x0117,
        /// [`PoolVerb::Check`](crate::pool::PoolVerb::Check).
        PoolCheck = 0x0118,
        /// [`PoolVerb::Admit`](crate::pool::PoolVerb::Admit).
        Admit = 0x0119,
        /// [`PoolVerb::ContEvict`](crate::pool::PoolVerb::ContEvict).
        ContEvict = 0x011a,
        /// [`PoolVerb::Props`](crate::pool::PoolVerb::Props).
        PoolProps = 0x011b,
        /// [`PoolVerb::SetProps`](crate::pool::PoolVerb::SetProps).
        PoolSetProps = 0x011c,
        /// [`PoolVerb::Lock`](crate::pool::PoolVerb::Lock).
        Lock = 0x011d,
        /// [`PoolVerb::Evicted`](crate::pool::PoolVerb::Evicted).
        Evicted = 0x011e,
        /// [`PoolVerb::Leases`](crate::pool::PoolVerb::Leases).
        Leases = 0x0120,
        /// [`PoolVerb::ContQuota`](crate::pool::PoolVerb::ContQuota).
        ContQuota = 0x0121,
        /// [`PoolVerb::ContSetQuota`](crate::pool::PoolVerb::ContSetQuota).
        ContSetQuota = 0x0122,
        /// [`PoolVerb::Share`](crate::pool::PoolVerb::Share).
        Share = 0x0123,
        /// [`PoolVerb::Admit`](crate::pool::PoolVerb::Admit) where containers have limits.
        AdmitLimited = 0x0124,
        /// [`PoolVerb::TxCommit`](crate::pool::PoolVerb::TxCommit) of a transaction that has read where it does not write.
        TxCommitRead = 0x0125,
        /// [`PoolVerb::TxEnd`](crate::pool::PoolVerb::TxEnd).
        TxEnd = 0x0126,
        /// [`PoolVerb::Files`](crate::pool::PoolVerb::Files).
        Files = 0x0301,
        /// [`SystemVerb::Ping`](super::SystemVerb::Ping).
        Ping = 0x0201,
        /// [`SystemVerb::Query`](super::SystemVerb::Query).
        SystemQuery = 0x0202,
        /// [`SystemVerb::PoolList`](super::SystemVerb::PoolList).
        PoolList = 0x0203,
        /// [`SystemVerb::PoolConnect`](super::SystemVerb::PoolConnect).
        PoolConnect = 0x0204,
        /// [`SystemVerb::PoolDisconnect`](super::SystemVerb::PoolDisconnect).
        PoolDisconnect = 0x0205,
        /// [`SystemVerb::PoolCreate`](super::SystemVerb::PoolCreate).
        PoolCreate = 0x0206,
        /// [`SystemVerb::PoolDestroy`](super::SystemVerb::PoolDestroy).
        PoolDestroy = 0x0207,
        /// [`SystemVerb::Stop`](super::SystemVerb::Stop).
        Stop = 0x0208,
        /// [`SystemVerb::PartCreate`](super::SystemVerb::PartCreate).
        PartCreate = 0x0209,
        /// [`SystemVerb::PartConnect`](super::SystemVerb::PartConnect).
        PartConnect = 0x020a,
        /// [`SystemVerb::PartDestroy`](super::SystemVerb::PartDestroy).
        PartDestroy = 0x020b,
        /// [`SystemVerb::Compare`](super::SystemVerb::Compare).
        Compare = 0x020c,
        /// [`SystemVerb::PoolEvict`](super::SystemVerb::PoolEvict).
        PoolEvict = 0x020d,
        /// [`SystemVerb::PartEvict`](super::SystemVerb::PartEvict).
        PartEvict = 0x020e,
        /// [`SystemVerb::PartLook`](super::SystemVerb::PartLook).
        PartLook = 0x020f,
    }
}

impl AskKind {
    /// The first version that knows it: who speaks an older one closes the connection on which it comes.
    #[must_use]
    #[inline]
    pub fn since(self) -> Version {
        match self {
            Self::UpdateFor
            | Self::Evicted
            | Self::Leases
            | Self::ContQuota
            | Self::ContSetQuota
            | Self::Share
            | Self::AdmitLimited
            | Self::TxCommitRead
            | Self::TxEnd
            | Self::Files
            | Self::PartLook => Version::Two,
            _ => Version::One,
        }
    }
}

numbered! {
    /// What a reply or a push says. Persistent: never renumber. Errors are 0x8000; answers of a target begin at 0x8001, of
    /// a pool's service at 0x8101, of the daemon at 0x8201; pushes at 0x8301, parts of answers at 0x8401.
    pub enum ReplyKind {
        /// An error of any request.
        Failed = 0x8000,
        /// [`Reply::Written`](crate::verb::Reply::Written).
        Written = 0x8001,
        /// [`Reply::Fetched`](crate::verb::Reply::Fetched).
        Fetched = 0x8002,
        /// [`Reply::Listed`](crate::verb::Reply::Listed).
        Listed = 0x8003,
        /// [`Reply::Found`](crate::verb::Reply::Found).
        Found = 0x8004,
        /// [`Reply::Prepared`](crate::verb::Reply::Prepared).
        Prepared = 0x8005,
        /// [`Reply::Done`](crate::verb::Reply::Done).
        Done = 0x8006,
        /// [`Reply::TxState`](crate::verb::Reply::TxState).
        TxState = 0x8007,
        /// [`Reply::InDoubt`](crate::verb::Reply::InDoubt).
        InDoubt = 0x8008,
        /// [`Reply::ContUsage`](crate::verb::Reply::ContUsage).
        ContUsage = 0x8009,
        /// [`Reply::Space`](crate::verb::Reply::Space).
        Space = 0x800a,
        /// [`Reply::Aggregated`](crate::verb::Reply::Aggregated).
        Aggregated = 0x800b,
        /// [`Reply::Audited`](crate::verb::Reply::Audited).
        Audited = 0x800c,
        /// [`PoolReply::Pool`](crate::pool::PoolReply::Pool).
        Pool = 0x8101,
        /// [`PoolReply::Cont`](crate::pool::PoolReply::Cont).
        Cont = 0x8102,
        /// [`PoolReply::Conts`](crate::pool::PoolReply::Conts).
        Conts = 0x8103,
        /// [`PoolReply::ContInfo`](crate::pool::PoolReply::ContInfo).
        ContInfo = 0x8104,
        /// [`PoolReply::Props`](crate::pool::PoolReply::Props).
        Props = 0x8105,
        /// [`PoolReply::Attr`](crate::pool::PoolReply::Attr).
        Attr = 0x8106,
        /// [`PoolReply::AttrNames`](crate::pool::PoolReply::AttrNames).
        AttrNames = 0x8107,
        /// [`PoolReply::Epoch`](crate::pool::PoolReply::Epoch).
        Epoch = 0x8108,
        /// [`PoolReply::Snapshots`](crate::pool::PoolReply::Snapshots).
        Snapshots = 0x8109,
        /// [`PoolReply::Oids`](crate::pool::PoolReply::Oids).
        Oids = 0x810a,
        /// [`PoolReply::Aggregated`](crate::pool::PoolReply::Aggregated).
        PoolAggregated = 0x810b,
        /// [`PoolReply::Audits`](crate::pool::PoolReply::Audits).
        Audits = 0x810c,
        /// [`PoolReply::Done`](crate::pool::PoolReply::Done).
        PoolDone = 0x810d,
        /// [`PoolReply::Lock`](crate::pool::PoolReply::Lock).
        Lock = 0x810e,
        /// [`PoolReply::Quota`](crate::pool::PoolReply::Quota).
        Quota = 0x8110,
        /// [`PoolReply::Share`](crate::pool::PoolReply::Share).
        Share = 0x8111,
        /// [`PoolReply::Files`](crate::pool::PoolReply::Files).
        Files = 0x8120,
        /// [`SystemReply::Done`](super::SystemReply::Done).
        SystemDone = 0x8201,
        /// [`SystemReply::System`](super::SystemReply::System).
        System = 0x8202,
        /// [`SystemReply::Pools`](super::SystemReply::Pools).
        Pools = 0x8203,
        /// [`SystemReply::Connected`](super::SystemReply::Connected).
        Connected = 0x8204,
        /// [`SystemReply::Created`](super::SystemReply::Created).
        Created = 0x8205,
        /// [`SystemReply::Looked`](super::SystemReply::Looked).
        Looked = 0x8206,
        /// [`Pushed::Invalidate`](super::Pushed::Invalidate).
        Invalidate = 0x8301,
        /// [`Pushed::RevokeAll`](super::Pushed::RevokeAll).
        RevokeAll = 0x8302,
        /// [`Pushed::MapChanged`](super::Pushed::MapChanged).
        MapChanged = 0x8303,
        /// [`FetchedPart`](super::FetchedPart).
        FetchedPart = 0x8401,
    }
}

impl ReplyKind {
    /// Whether it is an answer of a pool's service.
    #[inline]
    pub(super) fn is_of_pool(self) -> bool {
        self.number() >> 8 == 0x81
    }
}
