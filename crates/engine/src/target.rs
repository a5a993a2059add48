//! One target: takes operations, owns everything it has stored, hands out completions.
//!
//! A poll-driven state machine without threads. Whoever owns the target runs it: `submit` does as much of
//! each operation as needs no waiting, `poll` finishes what waited for a device, `step` does one bounded piece
//! of background work.
//!
//! Invariants: an operation completes exactly once; a mutation completes only when its container's
//! durability is reached; after a failed flush nothing is written any more.

use crate::ahead::{self, Ahead};
use crate::config::TargetConfig;
use crate::conts::Conts;
use crate::draft::{self, Drafts};
use crate::epochs::Epochs;
use crate::log::LogPlace;
use crate::marks::{Marks, Reads};
use crate::repeats::Repeats;
use crate::space::Need;
use crate::store::Store;
use crate::tx::Txs;
use crate::update::{Pending, Work};
use dolmen_codec::quota::{Account, Charge, Given};
use dolmen_codec::verb::{Mutation, Reply, TxState, Verb};
use dolmen_codec::{Completion, Lead, Op, Progress, TargetStore};
use dolmen_env::{Disk, Io, IoDone, IoOp};
use dolmen_types::{ContNo, Credentials, Durability, Error, Head, Invalid, IoBuf, limits};
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Tokens of flushes; those of bulk writes count up from zero and never get here.
const FLUSH_TOKEN: u64 = u64::MAX;

/// A completion that waits for a log frame to be durable: its own, or one that it has seen.
struct Waiting {
    sequence: u64,
    completion: Completion,
}

/// Frames that nobody waits for are flushed so soon: all of that time with one flush.
const IN_TIME_NS: u64 = 50_000_000;
/// So many completions wait for that at most: a flush for so many costs none of them much, and an engine that leads them has room for
/// more requests on its connection.
const IN_TIME_MAX: usize = 256;

/// When an answer is handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// When its frame is as durable as that.
    Is(Durability),
    /// When its frame survives the loss of power, for which no flush begins before its time: nobody waits for the answer.
    InTime,
}

/// The one flush under way.
#[derive(Default)]
struct Flushing {
    /// Device flushes not yet completed.
    left: u32,
    /// Frames below this sequence are durable once all have completed.
    covers: u64,
    error: Option<Error>,
}

/// One target on its devices. Owned by one thread at a time; see [`TargetStore`].
pub struct Target {
    pub(crate) config: TargetConfig,
    pub(crate) target_id: u128,
    pub(crate) store: Store,
    pub(crate) conts: Conts,
    pub(crate) epochs: Epochs,
    /// The frame of the present ceiling of epochs; 0 for one that the target was opened with.
    pub(crate) ceiling_frame: u64,
    pub(crate) reads: Reads,
    pub(crate) writes: Marks,
    pub(crate) readers: crate::readers::Readers,
    pub(crate) repeats: Repeats,
    pub(crate) creds: HashMap<Credentials, u32>,
    /// The credentials seen last.
    pub(crate) last_cred: Option<(Credentials, u32)>,
    /// What gifts have moved of a transaction that is being decided.
    pub(crate) given: Given,
    pub(crate) txs: Txs,
    pub(crate) checkpoint: crate::checkpoint::State,
    pub(crate) scrub: crate::scrub::Scrub,
    pub(crate) rest: crate::rest::Rest,
    pub(crate) pending: HashMap<u64, Pending>,
    pub(crate) next_io: u64,
    pub(crate) read_only: bool,
    /// The first version of the `Write` frame just appended: the one that `hot` can lead to.
    pub(crate) first_version: Option<LogPlace>,
    /// Whether it is all that is visible of its array, or, where dkeys are integers, of all arrays of its object.
    pub(crate) first_is_sole: bool,
    /// Used again by every batch.
    window: Vec<Ahead>,
    out: Vec<Completion>,
    waiting: VecDeque<Waiting>,
    /// Those that begin no flush before its time.
    patient: VecDeque<Waiting>,
    /// When frames that nobody waits for are to be flushed; 0 if there are none.
    in_time_ns: u64,
    flushing: Flushing,
    flush_wanted: bool,
    io_done: Vec<IoDone>,
}

impl core::fmt::Debug for Target {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Target({})", self.config.target.0)
    }
}

impl TargetStore for Target {
    fn submit(&mut self, ops: &mut Vec<Op<'_>>) {
        self.epochs.tick();
        self.rest.disturb();
        self.store.bulk.ready.disturb();
        let mut window = core::mem::take(&mut self.window);
        while !ops.is_empty() {
            let count = ops.len().min(ahead::WINDOW);
            if window.len() < count {
                window.resize_with(count, Ahead::default);
            }
            self.look_ahead(&ops[..count], &mut window[..count]);
            for (at, op) in ops.drain(..count).enumerate() {
                if let Some(next) = window[..count].get(at + 1) {
                    self.prefetch_value(next);
                }
                self.lend_path(&mut window[at]);
                self.begin(op);
                self.take_back_path(&mut window[at]);
            }
        }
        self.window = window;
    }

    fn poll(&mut self, wait: bool, out: &mut Vec<Completion>) {
        self.drive(wait && self.out.is_empty());
        self.epochs.tell();
        out.append(&mut self.out);
    }

    fn step(&mut self) -> Progress {
        // Of a target that nobody asks the clock goes on, too.
        self.epochs.tick();
        self.background_step()
    }

    fn go_with(&mut self, lead: &Arc<Lead>) {
        self.epochs.go_with(lead);
    }

    fn keep_account(&mut self, cont: ContNo, account: &Arc<Account>) -> Result<(), Error> {
        self.begin_account(cont, account)
    }

    fn charges(&mut self, cont: ContNo) -> Result<Vec<(u32, Charge)>, Error> {
        self.charges_by_user(cont)
    }
}

impl Target {
    #[expect(clippy::too_many_arguments, reason = "the parts of a target, each named where it is made")]
    pub(crate) fn assemble(
        config: TargetConfig,
        target_id: u128,
        store: Store,
        conts: Conts,
        epochs: Epochs,
        repeats: Repeats,
        creds: HashMap<Credentials, u32>,
        txs: Txs,
        checkpoint: crate::checkpoint::State,
    ) -> Self {
        let low_water = epochs.latest();
        Self {
            config,
            target_id,
            store,
            conts,
            epochs,
            ceiling_frame: 0,
            reads: Reads::new(low_water),
            writes: Marks::new(low_water),
            readers: crate::readers::Readers::default(),
            repeats,
            creds,
            last_cred: None,
            given: Given::default(),
            txs,
            checkpoint,
            scrub: crate::scrub::Scrub::default(),
            rest: crate::rest::Rest::default(),
            pending: HashMap::new(),
            next_io: 0,
            read_only: false,
            first_version: None,
            first_is_sole: false,
            window: Vec::new(),
            out: Vec::new(),
            waiting: VecDeque::new(),
            patient: VecDeque::new(),
            in_time_ns: 0,
            flushing: Flushing::default(),
            flush_wanted: false,
            io_done: Vec::new(),
        }
    }

    fn begin(&mut self, op: Op<'_>) {
        let Op { token, head, cont, verb } = op;
        self.reads.take_awaited();
        if head.deadline_ns != 0 && self.epochs.now_ns() > head.deadline_ns {
            let buf = if let Verb::Fetch(fetch) = verb { Some(fetch.buf) } else { None };
            return self.finish(token, Err(Error::TimedOut), buf);
        }
        match verb {
            Verb::Update(update) => {
                let inline_max = self.config.small_value_bytes_max as usize;
                let drafts = draft::of_update(&update, limits::iods_max(cont), inline_max);
                self.begin_write(token, head, cont, update.oid, drafts);
            }
            Verb::Punch(punch) => {
                let drafts = draft::of_punch(&punch);
                self.begin_write(token, head, cont, punch.oid, drafts);
            }
            Verb::Fetch(mut fetch) => {
                let result = self.fetch(cont, &mut fetch);
                self.finish_read(token, cont, result.map(Reply::Fetched), Some(fetch.buf));
            }
            Verb::Prepare(prepare) => self.begin_prepare(token, head, cont, &prepare),
            other => {
                let result = self.serve(cont, other);
                match result {
                    Ok((reply, None)) => self.finish_read(token, cont, Ok(reply), None),
                    Ok((reply, Some((sequence, when)))) => self.finish_when(token, when, sequence, reply),
                    Err(error) => self.finish_read(token, cont, Err(error), None),
                }
            }
        }
    }

    /// Verbs that complete at once, or when the frame they return is as durable as they say.
    fn serve(&mut self, cont: ContNo, verb: Verb<'_>) -> Result<(Reply, Option<(u64, When)>), Error> {
        let surely = |sequence| Some((sequence, When::Is(Durability::Power)));
        match verb {
            Verb::List(list) => {
                self.list(cont, &list).map(|(listed, anchor)| (Reply::Listed(listed, anchor), None))
            }
            Verb::Query(query) => self.query(cont, &query).map(|found| (Reply::Found(found), None)),
            Verb::Commit(tx) => self.commit_tx(tx).map(|awaited| (Reply::Done, Some(awaited))),
            Verb::Conclude(tx) => self.conclude_tx(tx).map(|()| (Reply::Done, None)),
            Verb::Abort(tx) => self.abort_tx(tx).map(|sequence| (Reply::Done, surely(sequence))),
            // Who asks for no container decides others' parts by the answer: no crash must take it back. A coordinator, who asks for
            // that of the transaction, tells its client that it is committed, and begins it if it is not.
            Verb::TxState(tx) => {
                let (state, last) = (self.txs.state(tx), self.store.log.last_sequence());
                let tells = state == TxState::Committed || cont == ContNo::SYSTEM;
                Ok((Reply::TxState(state), tells.then(|| (last, When::Is(self.durability(cont))))))
            }
            Verb::InDoubt => Ok((Reply::InDoubt(self.txs.in_doubt()), None)),
            Verb::Unconcluded => Ok((Reply::InDoubt(self.txs.unconcluded(self.config.target)), None)),
            Verb::Latest => Ok((Reply::Written(self.epochs.latest()), None)),
            Verb::Cont(verb) => {
                self.serve_cont(cont, verb).map(|(reply, sequence)| (reply, sequence.and_then(surely)))
            }
            Verb::Space => Ok((Reply::Space(self.space_report()), None)),
            Verb::Flush => Ok((Reply::Done, surely(self.store.log.last_sequence()))),
            Verb::Checkpoint => self.checkpoint_now().map(|()| (Reply::Done, None)),
            Verb::Scrub => self.scrub().map(|audit| (Reply::Audited(audit), None)),
            Verb::Check => self.check().map(|audit| (Reply::Audited(audit), None)),
            Verb::Update(_) | Verb::Punch(_) | Verb::Fetch(_) | Verb::Prepare(_) => {
                unreachable!("served where they need their token")
            }
        }
    }

    fn begin_write(
        &mut self,
        token: u64,
        head: Head,
        cont: ContNo,
        oid: dolmen_types::Oid,
        mut drafts: Result<Drafts<'_>, Error>,
    ) {
        if head.id.sequence != 0
            && let Ok(drafts) = &mut drafts
        {
            drafts.digest_of(cont, oid);
        }
        let digest = drafts.as_ref().map_or(0, |drafts| drafts.digest);
        match self.repeats.first_result(&head, digest, self.epochs.wall_ns()) {
            Ok(None) => {}
            // The first one may be waiting for its flush.
            Ok(Some(epoch)) => return self.finish_repeated(token, cont, Reply::Written(epoch)),
            Err(error) => return self.finish(token, Err(error), None),
        }
        // The first one may be waiting for its bulk writes: this one waits for its answer.
        let mut pending = self.pending.values_mut();
        if let Some(first) = pending.find(|first| head.id.sequence != 0 && first.is_of(&head)) {
            if first.digest() != digest {
                return self.finish(token, Err(Invalid::Argument.into()), None);
            }
            return first.again.push(token);
        }
        let drafts = drafts.and_then(|drafts| match self.share_work() {
            Err(error) if drafts.need(cont) == Need::Data => Err(error),
            _ => Ok(drafts),
        });
        match drafts {
            Ok(drafts) => self.run_write(token, head, cont, oid, drafts),
            Err(error) => self.finish(token, Err(error), None),
        }
    }

    fn begin_prepare(
        &mut self,
        token: u64,
        head: Head,
        cont: ContNo,
        prepare: &dolmen_codec::verb::Prepare<'_>,
    ) {
        if self.txs.is_known(prepare.tx) {
            return self.finish_repeated(token, cont, Reply::Prepared);
        }
        // The first one waits for its bulk writes, and must not run beside this one.
        if self.pending.values().any(|pending| pending.work.prepares(prepare.tx)) {
            return self.finish(token, Err(Error::Busy), None);
        }
        let inline_max = self.config.small_value_bytes_max as usize;
        let parts: Result<Vec<_>, Error> =
            prepare.mutations.iter().map(|m| drafts_of(m, inline_max)).collect();
        let parts = parts.and_then(|parts| match self.share_work() {
            Err(error) if !parts.iter().all(|(_, drafts)| drafts.frees_space()) => Err(error),
            _ => Ok(parts),
        });
        match parts {
            Ok(parts) => self.run_prepare(token, head, cont, prepare, parts),
            Err(error) => self.finish(token, Err(error), None),
        }
    }

    /// Hands out a completion.
    pub(crate) fn finish(&mut self, token: u64, result: Result<Reply, Error>, buf: Option<IoBuf>) {
        self.out.push(Completion { token, result, buf });
    }

    /// Hands out a completion once the frame with this sequence is as durable as asked for.
    pub(crate) fn finish_durable(&mut self, token: u64, durability: Durability, sequence: u64, reply: Reply) {
        self.finish_when(token, When::Is(durability), sequence, reply);
    }

    fn finish_when(&mut self, token: u64, when: When, sequence: u64, reply: Reply) {
        let completion = Completion { token, result: Ok(reply), buf: None };
        let durability = if let When::Is(durability) = when { durability } else { Durability::Power };
        let is_patient = when == When::InTime && !self.read_only;
        if !self.is_awaited(durability) {
            self.out.push(completion);
        } else if is_patient && sequence >= self.store.log.durable_sequence() {
            // Each has the newest frame when it comes.
            self.patient.push_back(Waiting { sequence, completion });
        } else {
            self.finish_after(sequence, completion);
        }
    }

    /// Answers a repetition that has waited for the first.
    fn finish_again(&mut self, token: u64, head: Head, cont: ContNo, digest: u32, refusal: Option<Error>) {
        match (refusal, self.repeats.first_result(&head, digest, self.epochs.wall_ns())) {
            (Some(error), _) | (None, Err(error)) => self.finish_read(token, cont, Err(error), None),
            (None, Ok(Some(epoch))) => self.finish_repeated(token, cont, Reply::Written(epoch)),
            // There was no room to retain it.
            (None, Ok(None)) => self.finish(token, Err(Error::Busy), None),
        }
    }

    /// Hands out the first answer of a mutation again, not before it is durable.
    fn finish_repeated(&mut self, token: u64, cont: ContNo, reply: Reply) {
        let durability = self.durability(cont);
        self.finish_durable(token, durability, self.store.log.last_sequence(), reply);
    }

    /// Hands out what a read found or why something was refused, once all that it depends on is durable.
    #[inline]
    pub(crate) fn finish_read(
        &mut self,
        token: u64,
        cont: ContNo,
        result: Result<Reply, Error>,
        buf: Option<IoBuf>,
    ) {
        let mut awaited = self.reads.take_awaited();
        if result.is_err() {
            awaited = awaited.max(self.conts.any(cont).map_or(0, |known| known.changed));
        }
        self.finish_after(awaited, Completion { token, result, buf });
    }

    /// Whether answers wait until frames of such a container are durable.
    #[inline]
    pub(crate) fn is_awaited(&self, durability: Durability) -> bool {
        durability == Durability::Power && !self.config.volatile
    }

    #[inline]
    fn finish_after(&mut self, sequence: u64, mut completion: Completion) {
        if sequence < self.store.log.durable_sequence() {
            self.out.push(completion);
        } else if self.read_only {
            // It never will be.
            completion.result = Err(Error::ReadOnly { target: self.config.target });
            self.out.push(completion);
        } else {
            let at = self.waiting.partition_point(|waiting| waiting.sequence <= sequence);
            self.waiting.insert(at, Waiting { sequence, completion });
        }
    }

    /// Hands over what the devices have completed; with `wait`, after something has if anything is under way.
    pub(crate) fn poll_background(&mut self, wait: bool) {
        let mut done = core::mem::take(&mut self.io_done);
        let two_devices = self.store.disks.has_bulk_device();
        self.store.disks.meta.poll(false, &mut done);
        if two_devices {
            self.store.disks.bulk().poll(false, &mut done);
        }
        if wait && done.is_empty() {
            self.store.disks.meta.poll(true, &mut done);
        }
        if wait && done.is_empty() && two_devices {
            self.store.disks.bulk().poll(true, &mut done);
        }
        for io in done.drain(..) {
            self.io_completed(io);
        }
        self.io_done = done;
        self.start_flush();
    }

    /// Whether a flush is under way.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.left > 0
    }

    /// Log and bulk are to be flushed although no completion waits for it.
    pub(crate) fn want_flush(&mut self) {
        self.flush_wanted = true;
        self.start_flush();
    }

    /// Log and bulk are to be flushed before long although nobody waits for it.
    pub(crate) fn flush_in_time(&mut self) {
        if self.in_time_ns == 0 {
            self.in_time_ns = self.epochs.wall_ns().saturating_add(IN_TIME_NS);
        }
    }

    /// Whether a flush is wanted by now.
    fn is_flush_due(&self) -> bool {
        let is_late = self.in_time_ns != 0 && self.in_time_ns <= self.epochs.wall_ns();
        self.flush_wanted || !self.waiting.is_empty() || is_late || self.patient.len() >= IN_TIME_MAX
    }

    /// Runs the devices until nothing more can be done without waiting; with `wait`, until something completed.
    fn drive(&mut self, wait: bool) {
        loop {
            self.start_flush();
            if self.flushing.left == 0 && self.pending.is_empty() {
                if !wait || !self.out.is_empty() || self.patient.is_empty() {
                    return;
                }
                // There is nothing else to wait for.
                self.flush_wanted = true;
                continue;
            }
            let mut done = core::mem::take(&mut self.io_done);
            let only_bulk = self.flushing.left == 0 && self.store.disks.has_bulk_device();
            let must_wait = wait && self.out.is_empty();
            self.store.disks.meta.poll(must_wait && !only_bulk, &mut done);
            if self.store.disks.has_bulk_device() {
                // A flush may be under way on this device alone; without anything under way this does not wait.
                let bulk_waits = must_wait && done.is_empty();
                self.store.disks.bulk().poll(bulk_waits, &mut done);
            }
            let progressed = !done.is_empty();
            for io in done.drain(..) {
                self.io_completed(io);
            }
            self.io_done = done;
            if !progressed || !self.out.is_empty() {
                self.start_flush();
                return;
            }
        }
    }

    fn io_completed(&mut self, io: IoDone) {
        let error = io.result.err().map(|e| crate::error::disk_error(self.config.target, &e));
        if io.token == FLUSH_TOKEN {
            self.flushing.left -= 1;
            self.flushing.error = self.flushing.error.take().or(error);
            if self.flushing.left == 0 {
                self.flush_completed();
            }
            return;
        }
        let token = io.token;
        let Some(mut waiting) = self.pending.remove(&token) else {
            self.checkpoint.completed(token, error);
            return;
        };
        waiting.left -= 1;
        waiting.error = waiting.error.or(error);
        if let Some(buf) = io.buf {
            self.store.bulk.bufs.put(buf);
        }
        if waiting.left > 0 {
            self.pending.insert(token, waiting);
        } else {
            self.bulk_written(waiting);
        }
    }

    /// Begins a flush if completions or a checkpoint wait for one and none is under way.
    fn start_flush(&mut self) {
        if self.flushing.left > 0 || !self.is_flush_due() {
            return;
        }
        if self.read_only {
            let target = self.config.target;
            return self.fail_waiting(&Error::ReadOnly { target });
        }
        self.flush_wanted = false;
        self.in_time_ns = 0;
        self.reads.flush_begun();
        self.flushing.covers = self.store.log.next_sequence();
        let Store { disks, log, bulk, .. } = &mut self.store;
        let flush = |file| Io { token: FLUSH_TOKEN, file, offset: 0, op: IoOp::Flush };
        let names = |file| Io { op: IoOp::FlushNames, ..flush(file) };
        let mut count = 0;
        let mut submit = |disk: &mut dyn Disk, io| {
            disk.submit(io);
            count += 1;
        };
        if core::mem::take(&mut log.fresh_names) {
            submit(&mut *disks.meta, names(log.active_file()));
        }
        log.take_dirty().for_each(|file| submit(&mut *disks.meta, flush(file)));
        for number in core::mem::take(&mut bulk.dirty) {
            let file = bulk.find(number).expect("dirty segments are open").file;
            submit(disks.bulk(), flush(file));
            if core::mem::take(&mut bulk.fresh_names) {
                submit(disks.bulk(), names(file));
            }
        }
        self.flushing.left = count;
        if self.flushing.left == 0 {
            self.flush_completed();
        }
    }

    fn flush_completed(&mut self) {
        if let Some(error) = self.flushing.error.take() {
            self.read_only = true;
            return self.fail_waiting(&crate::error::of_flush(error));
        }
        self.reads.flush_done();
        let covers = self.flushing.covers;
        self.store.log.set_durable(covers);
        for waiting in [&mut self.waiting, &mut self.patient] {
            while let Some(done) = waiting.pop_front_if(|waiting| waiting.sequence < covers) {
                self.out.push(done.completion);
            }
        }
    }

    fn fail_waiting(&mut self, error: &Error) {
        let patient = core::mem::take(&mut self.patient);
        for waiting in core::mem::take(&mut self.waiting).into_iter().chain(patient) {
            let Completion { token, buf, .. } = waiting.completion;
            self.out.push(Completion { token, result: Err(error.clone()), buf });
        }
    }

    /// Writes wait for bulk: none may when the target is closed or checkpointed by force.
    pub(crate) fn drain(&mut self) {
        let is_awaited = |it: &Self| !it.waiting.is_empty() || !it.patient.is_empty();
        while !self.pending.is_empty() || self.flushing.left > 0 || is_awaited(self) {
            let held = core::mem::take(&mut self.out);
            self.drive(true);
            let fresh = core::mem::replace(&mut self.out, held);
            self.out.extend(fresh);
        }
    }

    /// Continues a mutation whose bulk writes have completed.
    fn bulk_written(&mut self, pending: Pending) {
        let Pending { token, head, cont, work, error, again, .. } = pending;
        self.epochs.tick();
        self.reads.take_awaited();
        if let Some(error) = error {
            self.give_up_work(&work);
            for token in again.into_iter().chain([token]) {
                self.finish(token, Err(error.clone()), None);
            }
            return;
        }
        match work {
            Work::Write { oid, drafts } => {
                let refusal = self.commit_and_finish(token, head, cont, oid, &drafts);
                for token in again {
                    self.finish_again(token, head, cont, drafts.digest, refusal.clone());
                }
            }
            Work::Prepare { prepare, parts } => self.prepare_and_finish(token, head, cont, &prepare, &parts),
        }
    }

    /// Forgets the results of all requests: no client is left that could repeat one. Without it they stay, for clients
    /// that outlive this process.
    pub fn forget_results(&mut self) {
        self.repeats.forget_results();
    }

    /// Closes: makes everything durable, writes a last checkpoint, marks the target clean. On a full device there is
    /// no checkpoint, and the next open replays the log.
    ///
    /// # Errors
    /// The device's; what was acknowledged is safe all the same.
    pub fn close(mut self) -> Result<(), Error> {
        self.drain();
        self.close_clean()
    }
}

fn drafts_of<'m>(
    mutation: &'m Mutation<'_>,
    inline_max: usize,
) -> Result<(dolmen_types::Oid, Drafts<'m>), Error> {
    match mutation {
        Mutation::Update(gift) if gift.iods.is_empty() => Ok((gift.oid, draft::of_gift(gift)?)),
        Mutation::Update(update) => Ok((update.oid, draft::of_update(update, limits::IODS_MAX, inline_max)?)),
        Mutation::Punch(punch) => Ok((punch.oid, draft::of_punch(punch)?)),
    }
}
