//! Questions for files, which others answer.

use super::Conn;
use crate::error::Result;
use crate::server::files::{FilesAsked, user_of};
use crate::server::jobs::{Done, JobReply};
use crate::server::worker::{Shared, UnderWay};
use dolmen_codec::Answer;
use dolmen_codec::pool::{FilesAsk, PoolReply};
use dolmen_types::{ContNo, Error as Failure};
use std::sync::Arc;

impl Conn {
    /// Hands a question for files over to whoever answers it.
    pub(super) fn take_files(
        &mut self,
        shared: &mut Shared,
        mut under_way: UnderWay,
        (cont, ask): (ContNo, FilesAsk),
    ) -> Result<()> {
        let groups = || match ask {
            FilesAsk::Begin => self.stream.socket().peer_groups(),
            _ => Vec::new(),
        };
        let user = match user_of(self.who.peer, self.who.identity.as_ref(), groups) {
            Ok(user) => user,
            Err(error) => return self.refuse(shared, under_way, error),
        };
        let attached = self.attached(under_way.slot).expect("looked at before");
        let transport = Arc::clone(&attached.transport);
        let Some((files, key)) = attached.files() else {
            return self.refuse(shared, under_way, Failure::NoPermission);
        };
        under_way.is_job = true;
        self.jobs_under_way += 1;
        let (token, to) = shared.leave_to_others(under_way);
        let then = move |result: dolmen_types::Result<_>| {
            let result = result.map(|told| Answer::Pool(PoolReply::Files(told)));
            to.put(Done { key: token, reply: JobReply::Pool(transport, result, None) });
        };
        files.ask(FilesAsked { key, user, cont, ask }, Box::new(then));
        Ok(())
    }
}
