//! The cases that every store passes, through a client of a pool of engines.

use crate::through::Through;
use dolmen_env::Media;
use dolmen_sim::conformance;

/// A pool prepares and decides in one request; what is undecided there is settled for whoever meets it. The steps in
/// between are the pool's own: `crates/cluster/tests/it/cases/commit.rs` and `crates/sim/tests/it/transactions.rs`.
const UNDECIDED: &str = "no client sees a transaction that is prepared and not decided";
/// Epochs of transactions and floors are the pool's to choose.
const CHOSEN: &str = "no client chooses the epoch of a transaction or of a floor";

/// Cases that ask for what a client has no words for.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("aborted_writes_are_never_seen", UNDECIDED),
    ("undecided_write_is_in_doubt_for_readers", UNDECIDED),
    ("undecided_write_is_in_doubt_for_conditions", UNDECIDED),
    ("undecided_punch_is_in_doubt", UNDECIDED),
    ("reads_below_an_undecided_write_are_not_in_doubt", UNDECIDED),
    ("decisions_are_idempotent", UNDECIDED),
    ("transaction_states_are_told", UNDECIDED),
    ("repeated_prepare_is_harmless", UNDECIDED),
    ("late_prepare_of_an_aborted_transaction_is_refused", UNDECIDED),
    ("prepared_transactions_survive_crashes", UNDECIDED),
    ("decisions_survive_crashes", UNDECIDED),
    ("aborted_transactions_over_many_objects_leave_nothing", UNDECIDED),
    ("epochs_are_above_every_epoch_a_transaction_read_at", CHOSEN),
    ("transactions_far_ahead_are_refused", CHOSEN),
    ("epochs_are_above_the_floor", CHOSEN),
    ("write_at_the_floor_restarts", CHOSEN),
    ("extents_lie_in_one_window", "the client splits what does not"),
    ("foreign_anchor_of_objects_is_refused", "a walk over all targets keeps its own anchors"),
    ("unknown_container_is_refused", "what does not exist cannot be opened: `NotFound` in cases/conts.rs"),
    ("container_create_and_destroy_are_idempotent", "a pool says `Exists` and `NotFound`: cases/conts.rs"),
    (
        "repeated_transaction_commits_once",
        "a transaction has ended with its commit: cases/txs.rs sends one again whose answer was lost",
    ),
];

#[test]
fn every_case_passes_through_the_client() {
    for media in [Media::Mapped, Media::Block] {
        conformance::run_all_but(EXCEPTIONS, |name| {
            println!("{name} on {media:?}");
            Through::new(media)
        });
    }
}
