//! The cases that every store passes, through a client of a pool of engines.

use crate::through::Through;
use dolmen_env::Media;
use dolmen_sim::conformance::{self, Exception};

/// A pool prepares and decides in one request; what is undecided there is settled for whoever meets it. The steps in
/// between are the pool's own: `crates/cluster/tests/it/cases/commit.rs` and `crates/sim/tests/it/transactions.rs`.
const UNDECIDED: &str = "no client sees a transaction that is prepared and not decided";
/// Epochs of transactions and floors are the pool's to choose.
const CHOSEN: &str = "no client chooses the epoch of a transaction or of a floor";

/// What is prepared is committed at once, so that an abort comes too late.
const DECIDED: &str = "expected it to be done, got Err(Exists)";
const CHOOSES_NONE: &str = "a client chooses no epoch";

/// Cases that ask for what a client has no words for: name, reason, and what the panic says.
const EXCEPTIONS: &[Exception] = &[
    except("aborted_writes_are_never_seen", UNDECIDED, DECIDED),
    except("undecided_write_is_in_doubt_for_readers", UNDECIDED, "right: Err(InDoubt"),
    except("undecided_write_is_in_doubt_for_conditions", UNDECIDED, "right: Err(InDoubt"),
    except("undecided_punch_is_in_doubt", UNDECIDED, "right: Err(InDoubt"),
    except("reads_below_an_undecided_write_are_not_in_doubt", UNDECIDED, DECIDED),
    except("decisions_are_idempotent", UNDECIDED, DECIDED),
    except("transaction_states_are_told", UNDECIDED, "right: Prepared"),
    except("repeated_prepare_is_harmless", UNDECIDED, "it is prepared already: Invalid(Argument)"),
    except("late_prepare_of_an_aborted_transaction_is_refused", UNDECIDED, DECIDED),
    except("prepared_transactions_survive_crashes", UNDECIDED, "right: Prepared"),
    except("decisions_survive_crashes", UNDECIDED, DECIDED),
    except("aborted_transactions_over_many_objects_leave_nothing", UNDECIDED, DECIDED),
    except("epochs_are_above_every_epoch_a_transaction_read_at", CHOSEN, CHOOSES_NONE),
    except("transactions_far_ahead_are_refused", CHOSEN, CHOOSES_NONE),
    except("epochs_are_above_the_floor", CHOSEN, CHOOSES_NONE),
    except("write_at_the_floor_restarts", CHOSEN, CHOOSES_NONE),
    except("extents_lie_in_one_window", "the client splits what does not", "right: Err(Invalid(Extent))"),
    except(
        "foreign_anchor_of_objects_is_refused",
        "a walk over all targets keeps its own anchors",
        "a walk goes on where it began",
    ),
    except(
        "unknown_container_is_refused",
        "what does not exist cannot be opened: `NotFound` in cases/conts.rs",
        "was never made: it cannot be opened",
    ),
    except(
        "container_create_and_destroy_are_idempotent",
        "a pool says `Exists` and `NotFound`: cases/conts.rs",
        "got Err(Exists)",
    ),
    except(
        "repeated_transaction_commits_once",
        "a transaction has ended with its commit: cases/txs.rs sends one again whose answer was lost",
        "a repeat: Invalid(Argument)",
    ),
];

const fn except(case: &'static str, reason: &'static str, says: &'static str) -> Exception {
    Exception { case, reason, says }
}

#[test]
fn every_case_passes_through_the_client() {
    for media in [Media::Mapped, Media::Block] {
        conformance::run_all_but(EXCEPTIONS, |name| {
            println!("{name} on {media:?}");
            Through::new(media)
        });
    }
}
