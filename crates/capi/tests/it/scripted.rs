//! The cases that every store passes, said in calls of a C program: in one process, and through a daemon that dies.

mod subject;
mod why;
pub(crate) mod words;

use crate::killed::process::Served;
use crate::kit;
use dolmen_client::{Label, Pool};
use dolmen_local::PoolOptions;
use dolmen_sim::conformance::{self, Exception};
use dolmen_types::limits;

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use subject::{Home, InC};

/// A client's commit is prepare and decision in one.
const UNDECIDED: &str = "no client sees a transaction that is prepared and not decided";
const CHOSEN: &str = "no client chooses the epoch of a transaction or of a floor";
const LENGTHS: &str =
    "a buffer of C has room for what it says, and takes its values' lengths from their descriptors";
const SPLIT: &str = "the client splits what a target does not take at once";
const WHEN: &str = "C is not told when something was removed or rolled back, so no case can look just before";
const TABLES: &str =
    "objects are listed in tables of snapshots: `snap::tables_list_the_objects_of_a_snapshot`";
const ENDS: &str = "a transaction of C ends with its connection";
const IDS: &str =
    "ids and deadlines of requests are the client's: a daemon that dies in `killed` gets each again";
const EXISTS: &str = "what does not exist cannot be opened, and what does is not made again: `cont`";
const USAGE: &str = "C has no word for usage and audits: they are asked of the daemon, as its operator does";

/// Cases that ask for what a C program has no words for: name, reason, and what the panic says.
const EXCEPTIONS: &[Exception] = &[
    except("buffer_shorter_than_the_parts_is_refused", LENGTHS, "right: Err(Invalid("),
    except("wrong_payloads_are_refused", LENGTHS, "right: Err(Invalid("),
    except("wrong_record_sizes_are_refused", LENGTHS, "right: Err(Invalid("),
    except("parts_beyond_the_buffer_are_refused", LENGTHS, "right: Err(Invalid("),
    except("extents_lie_in_one_window", SPLIT, "right: Err(Invalid(Extent))"),
    except("rollback_is_seen_only_after_it", WHEN, "left: Some([107, 101, 112, 116])"),
    except("write_below_an_enumeration_restarts", TABLES, "C lists no objects in a transaction"),
    except("epochs_are_above_every_epoch_a_transaction_read_at", CHOSEN, "chooses no epoch"),
    except("transactions_far_ahead_are_refused", CHOSEN, "chooses no epoch"),
    except("epochs_are_above_the_floor", CHOSEN, "chooses no epoch"),
    except("transaction_states_are_told", UNDECIDED, "C has no word for TxState"),
    except("prepared_transactions_survive_crashes", UNDECIDED, "C has no word for TxState"),
    except("decisions_are_idempotent", UNDECIDED, "expected it to be done, got Err(Exists)"),
    except(
        "late_prepare_of_an_aborted_transaction_is_refused",
        UNDECIDED,
        "expected it to be done, got Err(Exists)",
    ),
    except("decisions_survive_crashes", UNDECIDED, "expected it to be done, got Err(Exists)"),
    except("undecided_write_is_in_doubt_for_readers", UNDECIDED, "right: Err(InDoubt"),
    except("undecided_write_is_in_doubt_for_conditions", UNDECIDED, "right: Err(InDoubt"),
    except("undecided_punch_is_in_doubt", UNDECIDED, "right: Err(InDoubt"),
    except("repeated_prepare_is_harmless", UNDECIDED, "it is prepared already: NoPermission"),
    except("repeated_update_returns_the_first_result", IDS, "C chooses no ids and deadlines of requests"),
    except("repeats_are_known_after_a_restart", IDS, "C chooses no ids and deadlines of requests"),
    except("sequence_zero_is_never_a_repeat", IDS, "C chooses no ids and deadlines of requests"),
    except("failed_request_may_be_tried_again", IDS, "C chooses no ids and deadlines of requests"),
    except("repeated_transaction_commits_once", IDS, "C chooses no ids and deadlines of requests"),
    except("users_do_not_share_clients", IDS, "C chooses no ids and deadlines of requests"),
    except("another_request_under_the_same_id_is_refused", IDS, "C chooses no ids and deadlines of requests"),
    except("request_before_the_oldest_does_nothing", IDS, "C chooses no ids and deadlines of requests"),
    except("late_first_request_runs", IDS, "C chooses no ids and deadlines of requests"),
    except("passed_deadline_does_nothing", IDS, "C chooses no ids and deadlines of requests"),
    except("container_create_and_destroy_are_idempotent", EXISTS, "got Err(Exists)"),
];

/// Those of a pool in this process, whose connections end with it, and which nobody else can look at meanwhile.
const EXCEPTIONS_HERE: &[Exception] = &[
    except("reads_before_a_restart_count_after_it", ENDS, "chooses no epoch"),
    except("aborted_transactions_over_many_objects_leave_nothing", ENDS, "chooses no epoch"),
    except("usage_counts_what_is_stored", USAGE, "C has no word for"),
    except("audits_are_clean", USAGE, "C has no word for"),
];

const fn except(case: &'static str, reason: &'static str, says: &'static str) -> Exception {
    Exception { case, reason, says }
}

/// How far the epochs of a pool that was opened again are ahead of the clock, and some.
const AHEAD: Duration = Duration::from_millis(550);

/// A pool in this process, kept open by a connection between two cases.
struct Here {
    dir: PathBuf,
    connection: words::Handle,
}

impl Here {
    fn new(dir: PathBuf) -> Self {
        let mut here = Self { dir, connection: words::NONE };
        here.open();
        here
    }

    fn open(&mut self) {
        self.connection = words::connect(&self.system());
        dolmen_env::wait(AHEAD);
    }
}

impl Home for Here {
    fn system(&self) -> CString {
        CString::new(format!("file:{}", self.dir.display())).unwrap()
    }

    /// Closes it in good order, since this process lives on.
    fn restart(&mut self) {
        assert_eq!(words::pool_disconnect(self.connection, core::ptr::null_mut()), 0);
        self.open();
    }

    fn keeps_connections(&self) -> bool {
        false
    }

    fn operated(&self) -> Option<Pool> {
        None
    }
}

impl Home for Served {
    fn system(&self) -> CString {
        CString::new(Self::system(self, false)).unwrap()
    }

    /// Kills the daemon without a word.
    fn restart(&mut self) {
        self.kill();
        self.start_again();
        dolmen_env::wait(AHEAD);
    }

    fn keeps_connections(&self) -> bool {
        true
    }

    fn operated(&self) -> Option<Pool> {
        Some(self.connected("pool"))
    }
}

/// Runs all cases, each in containers of its own.
fn run<H: Home + 'static>(exceptions: &[Exception], home: impl FnOnce() -> H) {
    assert_eq!(words::init(), 0);
    let home: Arc<Mutex<dyn Home>> = Arc::new(Mutex::new(home()));
    let mut number = 0;
    conformance::run_all_but(exceptions, |name| {
        println!("{name}");
        number += 1;
        InC::new(Arc::clone(&home), number, name)
    });
    // Before its home goes: it takes along what cases that are exceptions have left open.
    assert_eq!(words::fini(), 0);
}

/// A system with a pool whose segments of bulk have room for the longest single value.
fn system(name: &str) -> PathBuf {
    let dir = kit::scratch(name);
    let options = PoolOptions {
        targets: 2,
        label: Some(Label::new("pool").unwrap()),
        capacity_bytes: 512 << 20,
        bulk_segment_bytes: u32::try_from(limits::SINGLE_BYTES_MAX).unwrap(),
        volatile: true,
        ..PoolOptions::default()
    };
    dolmen_local::create(&dir.join("first"), &options).unwrap();
    dir
}

#[test]
fn every_case_passes_through_c() {
    use dolmen_capi as _;
    let _alone = words::alone();
    let dirs = ["scripted-here", "scripted-served"].map(system);
    run(&[EXCEPTIONS, EXCEPTIONS_HERE].concat(), || Here::new(dirs[0].clone()));
    run(EXCEPTIONS, || Served::start(&dirs[1]));
    dirs.iter().for_each(|dir| std::fs::remove_dir_all(dir).unwrap());
    assert!(EXCEPTIONS.len() <= 30, "{} cases have no words in C", EXCEPTIONS.len());
}
